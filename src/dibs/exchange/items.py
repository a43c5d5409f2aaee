"""What another tool's file says about tasks, and how that becomes records for a store.

A reader turns a file into items and notes what dibs has no place for. `settle` turns the items into records: it leaves
alone what an earlier import brought, and it breaks circles, so that a second run changes nothing and every import is
sound.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.task import Link, LinkKind, Status, Task
from dibs.core.times import time_from
from dibs.stores.reports import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.core.task import Actor, Json


class Comment(NamedTuple):
    text: str
    author: str | None = None
    at: datetime | None = None


class Item(NamedTuple):
    """A task as another tool knows it. `key` is its id there; links name other items by their keys."""

    key: str
    title: str
    place: str  # in the file: what an error starts with
    status: Status = Status.READY
    reason: str | None = None
    description: str = ""
    priority: float = 2
    category: str | None = None
    labels: tuple[str, ...] = ()
    deliverable: str | None = None
    steps: tuple[str, ...] = ()
    spec_ref: str | None = None
    ref: str | None = None
    parent: str | None = None
    needs: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    assignee: str | None = None
    assigned: bool = False  # the assignee is an agent here: no other may claim it
    not_before: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    finished_by: str | None = None
    result: Json = None
    comments: tuple[Comment, ...] = ()
    extra: Mapping[str, Json] = {}
    scope: str | None = None  # where the file has several


class Loss(NamedTuple):
    """Something of a task that dibs has no place for, or that it had to change."""

    task: str
    place: str
    what: str


class Reading(NamedTuple):
    items: tuple[Item, ...]
    lost: tuple[Loss, ...] = ()


class ImportSelection(NamedTuple):
    """The records to import, and the tasks to leave alone."""

    records: tuple[Record, ...]
    added: tuple[str, ...]
    present: tuple[str, ...]
    lost: tuple[Loss, ...]

    def count(self, kind: type) -> int:
        return sum(isinstance(record.item, kind) for record in self.records)


# The words that tools use for a task's state, without case, '_' and '-'.
_STATES = {
    Status.READY: "open todo ready pending new unstarted next planned selected reopened notstarted queued",
    Status.BACKLOG: "backlog triage icebox draft someday idea pinned later",
    Status.ACTIVE: "inprogress doing started active wip hooked indevelopment ongoing",
    Status.REVIEW: "review inreview needsreview qa testing",
    Status.BLOCKED: "blocked waiting onhold stuck",
    Status.ESCALATED: "escalated",
    Status.PAUSED: "deferred paused postponed",
    Status.DONE: "done closed complete completed resolved fixed finished shipped merged",
    Status.CANCELED: "canceled cancelled wontfix wontdo notplanned duplicate rejected abandoned obsolete invalid",
}
_STATE_OF = {word: status for status, words in _STATES.items() for word in words.split()}

_PRIORITIES = (
    ("critical", "urgent", "highest", "blocker", "p0"),
    ("high", "major", "p1"),
    ("medium", "normal", "nopriority", "none", "p2"),
    ("low", "minor", "p3"),
    ("lowest", "trivial", "p4"),
)
_PRIORITY_OF = {word: number for number, words in enumerate(_PRIORITIES) for word in words}

_EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
_JS_DATE = re.compile(r"\w{3} (\w{3} \d{2} \d{4} \d{2}:\d{2}:\d{2}) GMT([+-]\d{4}).*")


def plain_word(said: str) -> str:
    return re.sub(r"[\s_'\u2019-]+", "", said.casefold())


class Notes:
    """The settings of a reader, and its notes."""

    def __init__(self, tool: str, states: Mapping[str, Status] | None = None) -> None:
        self.tool = tool
        self.lost: list[Loss] = []
        self.states = {plain_word(word): status for word, status in (states or {}).items()}


class Entry:
    """A task in a file: its checked fields by name, and a note of all that dibs cannot keep."""

    def __init__(self, notes: Notes, place: str, data: Mapping[str, Json], key: str = "") -> None:
        self._notes = notes
        self.place = place
        self.data = data
        self.key = key

    def lose(self, what: str) -> None:
        self._notes.lost.append(Loss(self.key, self.place, what))

    def text(self, *names: str) -> str:
        """The first of these fields that says something; a number is taken as text."""
        for name in names:
            value = self.data.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return str(value)
            if value is not None and not isinstance(value, str):
                raise InvalidInput(f"{self.place}: '{name}' must be text, not {_kind(value)}.")
            if value:
                return value
        return ""

    def entries(self, name: str) -> Sequence[Json]:
        """A list, empty where there is none."""
        value = self.data.get(name)
        if value is None or value == "":
            return ()
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise InvalidInput(f"{self.place}: '{name}' must be a list, not {_kind(value)}.")
        return value

    def objects(self, name: str) -> list[Entry]:
        """A list of objects, each to be read like this one."""
        found = []
        for value in self.entries(name):
            if not isinstance(value, dict):
                raise InvalidInput(f"{self.place}: '{name}' must be a list of objects, not of {_kind(value)}.")
            found.append(Entry(self._notes, self.place, value, self.key))
        return found

    def ids(self, name: str) -> tuple[str, ...]:
        """A list of ids, each as text."""
        found = []
        for value in self.entries(name):
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise InvalidInput(f"{self.place}: '{name}' must be a list of ids, not of {_kind(value)}.")
            found.append(str(value).strip())
        return tuple(dict.fromkeys(found))

    def title(self, said: str) -> tuple[str, str]:
        """One line of a fitting length, and what the description begins with where the title had to be cut."""
        if not said.strip():
            raise InvalidInput(f"{self.place}: a task needs a title.")
        line = checks.headline(said, checks.TITLE_MAX)
        if len(" ".join(said.split())) <= checks.TITLE_MAX:
            return line, ""
        self.lose(f"its title of {len(said)} characters was cut; the description has all of it")
        return line, f"{said.strip()}\n\n"

    def status(self, said: str) -> Status:
        """Our status for a tool's. A task in progress is ready, because no agent here holds it."""
        word = plain_word(said)
        if not word:
            return Status.READY
        status = self._notes.states.get(word) or _STATE_OF.get(word)
        if status is None:
            self.lose(f"the status {said[:40]!r} is unknown, so the task is in the backlog; --map sets its meaning")
            return Status.BACKLOG
        if status is Status.ACTIVE:
            self.lose("it was in progress; it is ready, so that an agent can claim it here")
            return Status.READY
        return status

    def priority(self, said: Json) -> float:
        if said is None or said == "":
            return 2
        if isinstance(said, str):
            number = _PRIORITY_OF.get(plain_word(said), said)
            try:
                said = float(number)
            except ValueError:
                self.lose(f"the priority {str(number)[:40]!r} is unknown, so it is 2")
                return 2
        if isinstance(said, bool) or not isinstance(said, int | float):
            raise InvalidInput(f"{self.place}: 'priority' must be a number or a word such as high, not {_kind(said)}.")
        return checks.priority(said)

    def moment(self, *names: str) -> datetime | None:
        said = self.text(*names)
        if not said:
            return None
        try:
            moment = _moment(said)
        except (InvalidInput, ValueError):
            moment = _EARLIEST
        if moment <= _EARLIEST:
            self.lose(f"{names[0]}: {said[:40]!r} is not a valid time")
            return None
        return moment

    def names(self, field: str, said: Iterable[str]) -> tuple[str, ...]:
        """Labels and other names, each short and on one line."""
        found = []
        for name in said:
            line = " ".join(name.split())
            if len(line) > checks.NAME_MAX:
                self.lose(f"a {field} of {len(line)} characters was cut")
                line = line[: checks.NAME_MAX].rstrip()
            if line:
                found.append(line)
        return checks.names(field, found)

    def name(self, field: str, said: str) -> str | None:
        return next(iter(self.names(field, [said])), None)


def _kind(value: Json) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return "nothing" if value is None else kinds.get(type(value), "an object")


def _moment(said: str) -> datetime:
    if spelled := _JS_DATE.fullmatch(said):
        return datetime.strptime(" ".join(spelled.groups()), "%b %d %Y %H:%M:%S %z").astimezone(UTC)
    return time_from(said)


def settle(
    reading: Reading, tool: str, scope: str, known: Mapping[str, Mapping[str, Task]], now: datetime, by: Actor
) -> ImportSelection:
    """The records that are not `known` yet, by scope and id."""
    lost = list(reading.lost)
    taken: dict[tuple[str, str], Item] = {}
    fresh: dict[tuple[str, str], Item] = {}
    names: dict[tuple[str, str], str] = {}
    present: list[str] = []
    for item in reading.items:
        home = item.scope or scope
        name = _name(item, lost)
        names[home, item.key] = name
        earlier = taken.setdefault((home, name), item)
        if earlier is not item:
            raise InvalidInput(f"{item.place}: '{name}' is already at {earlier.place}.")
        held = known.get(home, {}).get(name)
        if held is None:
            fresh[home, name] = item
        else:
            _same_or_refused(item, held, tool)
            present.append(name)
    records: list[Record] = []
    links: list[Record] = []
    for home in dict.fromkeys(place for place, _ in fresh):
        group = {name: item for (place, name), item in fresh.items() if place == home}
        resolved = {key: name for (place, key), name in names.items() if place == home}
        edges = _acyclic(_edges(group, resolved, known.get(home, {}), lost), group, lost)
        parents = {edge.child: edge.on for edge in edges if edge.kind is None}
        for name, item in group.items():
            records.append(Record(home, _task(home, name, item, parents.get(name), tool, now)))
        links += [
            Record(home, Link(edge.child, edge.on, edge.kind, detected_by="import")) for edge in edges if edge.kind
        ]
    events = [
        Record(home, event)
        for (home, name), item in fresh.items()
        for event in _events(home, name, item, tool, by, now)
    ]
    known_here = set(present)
    told = tuple(loss for loss in lost if loss.task not in known_here)
    return ImportSelection((*records, *links, *events), tuple(name for _, name in fresh), tuple(present), told)


def _same_or_refused(item: Item, there: Task, tool: str) -> None:
    """What an earlier import brought is left alone; another task by that name must not pass for it."""
    ours = there.origin == tool or there.title == checks.headline(item.title, checks.TITLE_MAX)
    if not ours or (item.ref and there.ref and item.ref != there.ref):
        raise AlreadyExists(
            f"{item.place}: there is another task {there.id} here already ({checks.headline(there.title, 40)}). "
            "Import into a separate scope with --scope NAME. Nothing was imported."
        )


def _name(item: Item, lost: list[Loss]) -> str:
    """Its id here: theirs, if an id may look like that."""
    try:
        return checks.identifier(item.key)
    except InvalidInput:
        name = re.sub(r"[^\w.-]+", "-", item.key).strip("-.")[:64].strip("-.") or "task"
        lost.append(Loss(name, item.place, f"its id {item.key[:40]!r} is not allowed here; it is now {name}"))
        return name


class _Edge(NamedTuple):
    """`child` waits for `on`, or with no kind is a part of it."""

    child: str
    on: str
    kind: LinkKind | None

    @property
    def later(self) -> str:
        """Of the two, the task that comes after the other: a whole comes after its parts."""
        return self.child if self.kind else self.on

    @property
    def earlier(self) -> str:
        return self.on if self.kind else self.child


def _edges(
    group: Mapping[str, Item], resolved: Mapping[str, str], there: Mapping[str, Task], lost: list[Loss]
) -> list[_Edge]:
    found: dict[tuple[str, str], _Edge] = {}
    for name, item in group.items():
        asked: list[tuple[str, LinkKind | None]] = [(item.parent, None)] if item.parent else []
        asked += [(key, LinkKind.BLOCKS) for key in item.needs] + [(key, LinkKind.FEEDS_INTO) for key in item.feeds]
        for key, kind in asked:
            on = resolved.get(key) or (key if key in there else None)
            if on is None:
                what = "depends on" if kind else "is a part of"
                lost.append(Loss(name, item.place, f"it {what} {key[:60]}, which is neither in the file nor here"))
            elif on == name:
                lost.append(Loss(name, item.place, "it depends on itself"))
            elif kind is None:
                found[name, f"part of {on}"] = _Edge(name, on, None)
            else:
                found.setdefault((name, on), _Edge(name, on, kind))
    return list(found.values())


def _acyclic(edges: Sequence[_Edge], group: Mapping[str, Item], lost: list[Loss]) -> list[_Edge]:
    """Leave out each edge that closes a circle. One walk through the graph, without recursion: chains may be long."""
    before: dict[str, list[_Edge]] = {}
    for each in sorted(edges, key=lambda edge: edge.kind is not None):  # parts first: rather lose a link than a part
        before.setdefault(each.later, []).append(each)
    dropped: set[_Edge] = set()
    finished: set[str] = set()
    for start in group:
        if start in finished:
            continue
        on_the_way = {start}
        walk = [(start, iter(before.get(start, ())))]
        while walk:
            node, remaining = walk[-1]
            edge: _Edge | None = next(remaining, None)
            if edge is None:
                walk.pop()
                on_the_way.discard(node)
                finished.add(node)
            elif edge.earlier in on_the_way:
                dropped.add(edge)
            elif edge.earlier not in finished:
                on_the_way.add(edge.earlier)
                walk.append((edge.earlier, iter(before.get(edge.earlier, ()))))
    for child, on, kind in sorted(dropped, key=lambda edge: (edge.child, edge.on)):
        what = f"it depends on {on}" if kind else f"it is a part of {on}"
        lost.append(Loss(child, group[child].place, f"{what}, which would make a cycle"))
    return [edge for edge in edges if edge not in dropped]


def _task(scope: str, name: str, item: Item, parent: str | None, tool: str, now: datetime) -> Task:
    created = item.created_at or now
    finished = item.status in {Status.DONE, Status.CANCELED}
    set_aside = {Status.BLOCKED, Status.PAUSED, Status.ESCALATED}
    reason = item.reason or (f"{item.status} in {tool}" if item.status in set_aside else None)
    extra = dict(item.extra)
    if item.assignee and not item.assigned:
        extra["assignee"] = item.assignee
    try:
        return Task(
            scope, name, checks.title(item.title), created, max(created, item.updated_at or created), created,
            description=checks.text("description", item.description),
            status=item.status,
            reason=checks.optional_text("reason", reason),
            paused_from=Status.READY if item.status is Status.PAUSED else None,
            priority=item.priority,
            started_at=item.started_at,
            finished_at=max(created, item.finished_at or item.updated_at or now) if finished else None,
            finished_by=checks.optional_name("name", item.finished_by) if finished else None,
            category=item.category,
            labels=item.labels,
            deliverable=item.deliverable,
            steps=checks.texts("steps", item.steps),
            spec_ref=item.spec_ref,
            ref=checks.optional_text("ref", item.ref),
            parent=parent,
            assigned_to=item.assignee if item.assigned else None,
            not_before=item.not_before,
            result=item.result,
            origin=tool,
            extra=checks.extra(extra),  # noqa: S610 - not Django's
        )  # fmt: skip
    except InvalidInput as error:
        raise InvalidInput(f"{item.place}: {error.message}") from None


def _events(scope: str, name: str, item: Item, tool: str, by: Actor, now: datetime) -> Iterator[Event]:
    """Their comments, then that it was imported."""
    for comment in item.comments:
        try:
            text = checks.text("comment", comment.text.strip())
            author = checks.optional_name("author", comment.author)
        except InvalidInput as error:
            raise InvalidInput(f"{item.place}: {error.message}") from None
        if text:
            yield Event(comment.at or item.updated_at or now, scope, name, "comment", agent=author, reason=text)
    yield Event(
        now,
        scope,
        name,
        "import",
        agent=by.agent,
        run=by.run,
        target=item.status,
        detail={"from": tool, "id": item.key},
    )


def reserved(items: Sequence[Item]) -> tuple[Item, ...]:
    """The same, where only the assignee may claim a task."""
    return tuple(item._replace(assigned=True) if item.assignee else item for item in items)


def section(heading: str, text: str) -> str:
    """A part of a description under its heading, or nothing where there is no text."""
    return f"\n\n## {heading}\n\n{text.strip()}" if text.strip() else ""


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Errors say at which place in the file."""
    try:
        yield
    except InvalidInput as error:
        if error.message.startswith(place):
            raise
        raise InvalidInput(f"{place}: {error.message}") from None
