"""Plans: reading a list of wanted tasks, and computing the changes that it needs.

A plan owns the title, description, category, priority, steps, spec, ref and the links of the tasks it names, and it may
remove tasks of the specs it names. It never touches finished work or a task under a live lease.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import InvalidInput, PlanInvalid
from dibs.core.fields import LISTS, PLANNED, Kind
from dibs.core.task import Draft, Edit, Json, Link, LinkKind, ServiceClass, Status, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.yaml_reading import Node

    Rule = Callable[["EntryContent"], None]

REMOVED = "removed from the plan"

# The keys of a plan, short and long, and the field each one sets.
KEYS = {key: field.name for key, field in PLANNED.items()} | {
    "deps": "blocked_by",
    "blocked_by": "blocked_by",
    "feeds_from": "feeds_from",
}

_IDENTIFIERS = frozenset({"id", "parent", "blocked_by", "feeds_from"})

# What the plan states by leaving it out: an absent key means the default, not "as it was".
_OWNED = ("title", "description", "priority", "category", "spec_ref", "ref", "steps")


class EntryContent(NamedTuple):
    """What an entry of a plan says."""

    draft: Draft
    edit: Edit
    blocked_by: tuple[str, ...] = ()
    feeds_from: tuple[str, ...] = ()


class PlannedTask:
    """An entry of a plan, parsed at first use, because most entries of a large plan are unchanged.

    Entries with the same `digest` are equal.
    """

    __slots__ = ("_entry", "_rule", "_said", "digest", "id", "line")

    def __init__(self, id_: str, line: int, entry: Mapping[str, Json], digest: int, rule: Rule | None) -> None:
        self.id = id_
        self.line = line
        self.digest = digest
        self._entry = entry
        self._rule = rule
        self._said: EntryContent | None = None

    def __repr__(self) -> str:
        return f"PlannedTask({self.id!r}, line {self.line})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedTask) and self.said == other.said and self.line == other.line

    def __hash__(self) -> int:
        return hash((self.id, self.line))

    @classmethod
    def read_before(cls, id_: str, line: int, digest: int, said: EntryContent) -> PlannedTask:
        """An entry that was read elsewhere."""
        planned = cls(id_, line, {}, digest, None)
        planned._said = said
        return planned

    @property
    def said(self) -> EntryContent:
        """PlanInvalid, with the line, if the entry makes no sense."""
        if self._said is None:
            self._said = _read(self._entry, self.line, self._rule)
        return self._said

    @property
    def draft(self) -> Draft:
        return self.said.draft

    @property
    def edit(self) -> Edit:
        return self.said.edit

    @property
    def blocked_by(self) -> tuple[str, ...]:
        return self.said.blocked_by

    @property
    def feeds_from(self) -> tuple[str, ...]:
        return self.said.feeds_from

    def links(self) -> tuple[Link, ...]:
        blocks = [Link(self.id, on, LinkKind.BLOCKS, detected_by="plan") for on in self.blocked_by]
        feeds = [Link(self.id, on, LinkKind.FEEDS_INTO, detected_by="plan") for on in self.feeds_from]
        return (*blocks, *(link for link in feeds if link.on not in self.blocked_by))


class Plan(NamedTuple):
    """`specs` are the spec_refs whose tasks go when the plan no longer names them.

    A named task that an earlier plan removed is reopened; one that someone canceled, only if the plan `revives`.
    """

    tasks: tuple[PlannedTask, ...]
    specs: frozenset[str] = frozenset()
    revives: bool = False
    id_marks: str = ""  # those of the policy


class PlanChanges(NamedTuple):
    """The changes that turn the store's tasks into the planned ones."""

    insert: tuple[PlannedTask, ...] = ()
    edit: tuple[tuple[str, Edit], ...] = ()
    reopen: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    link: tuple[Link, ...] = ()
    unlink: tuple[Link, ...] = ()
    skipped_done: tuple[str, ...] = ()
    skipped_active: tuple[str, ...] = ()
    skipped_canceled: tuple[str, ...] = ()

    @property
    def updated(self) -> tuple[str, ...]:
        """Tasks that were there and change in any way."""
        new = {planned.id for planned in self.insert}
        touched = [task for task, _ in self.edit]
        touched += [*self.reopen, *(link.task for link in self.link), *(link.task for link in self.unlink)]
        return tuple(sorted({task for task in touched if task not in new}))


def parse_jsonl(text: str) -> Plan:
    """One JSON object a line; empty lines are skipped."""
    return _all_read(skim_jsonl(text))


def skim_jsonl(text: str, rule: Rule | None = None) -> Plan:
    """The same, but nothing beyond the ids and specs is read before someone asks for it, and refused only then.

    `rule` raises InvalidInput for what a protocol does not take, though we would.
    """
    return _skimmed(_json_lines(text), rule)


def _json_lines(text: str) -> Iterator[tuple[int, object, str]]:
    decode = json.JSONDecoder(object_pairs_hook=_unique_keys).decode
    for number, line in enumerate(text.split("\n"), start=1):
        source = line.strip()
        if source:
            try:
                yield number, decode(source), source
            except (ValueError, RecursionError) as error:
                raise PlanInvalid(f"not valid JSON ({_first_line(error)})", line=number) from None


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object whose keys are all different: of two with one name, one would silently win."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is given twice")
    return made


def parse_yaml(text: str) -> Plan:
    """A list of tasks, or a mapping with `tasks` and, optionally, the `spec` they all belong to."""
    from dibs.core.yaml_reading import read_yaml

    root = read_yaml(text)
    if root is None or root.content is None:
        return Plan(())
    spec: Json = None
    tasks = root
    if isinstance(root.content, dict):
        unknown = sorted(key for key in root.content if key not in {"tasks", "spec"})
        if unknown or "tasks" not in root.content:
            found = f"; '{unknown[0]}' is neither" if unknown else ""
            raise PlanInvalid(f"a plan is a list of tasks, or a mapping with 'tasks' and 'spec'{found}", line=root.line)
        spec = root.content["spec"].plain() if "spec" in root.content else None
        tasks = root.content["tasks"]
    if tasks.content is None:
        return Plan(())
    if not isinstance(tasks.content, list):
        raise PlanInvalid("a plan is a list of tasks", line=tasks.line)
    entries = ((node.line, _with_spec(_entry(node), spec)) for node in tasks.content)
    return _all_read(_skimmed((line, entry, repr(entry)) for line, entry in entries))


def _entry(node: Node) -> Json:
    """A task as plain values; references to tasks stay as written."""
    if not isinstance(node.content, dict):
        return node.plain()
    return {
        key: value.as_written() if KEYS.get(key) in _IDENTIFIERS else value.plain()
        for key, value in node.content.items()
    }


def _with_spec(entry: object, spec: object) -> object:
    if spec is None or not isinstance(entry, dict) or "spec" in entry or "spec_ref" in entry:
        return entry
    return {**entry, "spec": spec}


def _skimmed(entries: Iterable[tuple[int, object, str]], rule: Rule | None = None) -> Plan:
    """Entries come with their line and with the text that their digest is of."""
    tasks: dict[str, PlannedTask] = {}
    specs: set[str] = set()
    known: set[object] = {None}
    for line, entry, source in entries:
        planned = _planned(entry, line, source, rule)
        earlier = tasks.setdefault(planned.id, planned)
        if earlier is not planned:
            raise PlanInvalid(f"'{planned.id}' is already planned at line {earlier.line}", line=line)
        spec = _spec(entry)
        if spec not in known:
            known.add(spec)
            specs.add(str(planned.draft.spec_ref))
    return Plan(tuple(tasks.values()), frozenset(specs))


def _all_read(plan: Plan) -> Plan:
    for planned in plan.tasks:
        _ = planned.said
    return plan


def _planned(entry: object, line: int, source: str, rule: Rule | None) -> PlannedTask:
    if not isinstance(entry, dict):
        raise PlanInvalid("a task is an object with at least 'id' and 'title'", line=line)
    id_ = entry.get("id")
    if type(id_) is not str:
        id_ = _read(entry, line, rule).draft.id
    return PlannedTask(id_, line, entry, _digest(source), rule)


def _spec(entry: object) -> Hashable:
    if not isinstance(entry, dict):
        return None
    spec = entry.get("spec")
    spec = entry.get("spec_ref") if spec is None else spec
    return spec if isinstance(spec, str) else None


def _digest(source: str) -> int:
    """A number of 64 bits. `errors`: half of a surrogate pair is refused when the entry is read, not here."""
    digest = blake2b(source.encode(errors="surrogatepass"), digest_size=8, person=_READING)
    return int.from_bytes(digest.digest(), signed=True)


_READING = b"1"  # to be raised when the same text comes to mean something else


def _read(entry: Mapping[str, Json], line: int, rule: Rule | None) -> EntryContent:
    fields: dict[str, Json] = {}
    for key, value in entry.items():
        field = KEYS.get(key)
        if field is None:
            raise PlanInvalid(f"unknown key {key!r}; known are {', '.join(sorted(KEYS))}", line=line)
        if field in fields:
            raise PlanInvalid(f"{key!r} is given twice, under its short and its long name", line=line)
        if value is not None:
            fields[field] = value
    try:
        said = _checked(fields)
        if rule is not None:
            rule(said)
    except InvalidInput as error:
        raise PlanInvalid(error.message, line=line) from None
    else:
        return said


def _checked(fields: dict[str, Json]) -> EntryContent:
    values = {name: _READ[name](name, value) for name, value in fields.items()}
    if not values.get("id"):
        raise InvalidInput("a planned task needs an 'id'")
    if not values.get("title"):
        raise InvalidInput("a planned task needs a 'title'")
    blocked_by = values.pop("blocked_by", ())
    feeds_from = values.pop("feeds_from", ())
    draft = checks.draft(Draft(**values))  # type: ignore[arg-type]  # each reader returns its field's type
    if draft.id in (*blocked_by, *feeds_from):  # type: ignore[misc]  # both are lists, by their readers
        raise InvalidInput(f"'{draft.id}' cannot depend on itself")
    stated = {name: getattr(draft, name) for name in {*_OWNED, *values} if name != "id"}
    return EntryContent(draft, Edit(**stated), _unique(blocked_by), _unique(feeds_from))  # type: ignore[arg-type]


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _string(name: str, value: Json) -> object:
    if not isinstance(value, str):
        raise InvalidInput(f"'{name}' must be text, not {_kind(value)}")
    return value


def _identifier(name: str, value: Json) -> object:
    """JSON may give an id as a number; it is a name all the same."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _string(name, value)


def _strings(name: str, value: Json) -> object:
    if not isinstance(value, list):
        raise InvalidInput(f"'{name}' must be a list, not {_kind(value)}")
    if name in _IDENTIFIERS:
        return tuple([checks.identifier(i if type(i) is str else str(_identifier(name, i))) for i in value])
    return tuple(_string(name, item) for item in value)


def _number(name: str, value: Json) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"'{name}' must be a number, not {_kind(value)}")
    return value


def _whole(name: str, value: Json) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"'{name}' must be a whole number, not {_kind(value)}")
    return value


def _service_class(name: str, value: Json) -> object:
    try:
        return ServiceClass(value.lower() if isinstance(value, str) else "")
    except ValueError:
        shown = repr(value) if isinstance(value, str) else _kind(value)
        raise InvalidInput(f"'{name}' must be one of {', '.join(ServiceClass)}, not {shown}") from None


def _object(name: str, value: Json) -> object:
    if not isinstance(value, dict):
        raise InvalidInput(f"'{name}' must be an object, not {_kind(value)}")
    return value


def _kind(value: Json) -> str:
    return {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}.get(
        type(value), "an object"
    )


_READ_KIND: Mapping[str, Callable[[str, Json], object]] = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME), _string),
    **dict.fromkeys(LISTS, _strings),
    Kind.ID: _identifier,
    Kind.NUMBER: _number,
    Kind.COUNT: _whole,
    Kind.CLASS: _service_class,
    Kind.OBJECT: _object,
}
_READ: Mapping[str, Callable[[str, Json], object]] = {
    **{field.name: _READ_KIND[field.kind] for field in PLANNED.values()},
    **dict.fromkeys(("blocked_by", "feeds_from"), _strings),
}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def diff(plan: Plan, tasks: Sequence[Task], links: Sequence[Link], known: set[str], now: datetime) -> PlanChanges:
    """Compare a plan with the tasks it names or may remove, and with their links.

    `tasks` are the store's tasks that the plan names or whose spec is among the plan's; `links` are those tasks' own;
    `known` are the ids that a planned task may depend on beside the planned ones.
    """
    current = {task.id: task for task in tasks}
    own: dict[str, dict[str, Link]] = {}
    for link in links:
        own.setdefault(link.task, {})[link.on] = link
    named = {planned.id for planned in plan.tasks}
    reachable = named | known
    found = _Changes()
    for planned in plan.tasks:
        _refuse_unknown(planned, reachable)
        task = current.get(planned.id)
        if task is not None and _left_alone(task, plan, found):
            continue
        if task is None:
            _check_id(planned, plan.id_marks)
        _compare(planned, task, own.get(planned.id, {}), now, found)
    for task in sorted(tasks, key=lambda task: task.id):
        if task.id not in named and task.spec_ref in plan.specs and not task.finished:
            (found.skipped_active if task.held(now) else found.remove).append(task.id)
    return found.frozen()


class _Changes:
    """PlanChanges while they are being gathered."""

    def __init__(self) -> None:
        self.insert: list[PlannedTask] = []
        self.edit: list[tuple[str, Edit]] = []
        self.reopen: list[str] = []
        self.remove: list[str] = []
        self.link: list[Link] = []
        self.unlink: list[Link] = []
        self.skipped_done: list[str] = []
        self.skipped_active: list[str] = []
        self.skipped_canceled: list[str] = []

    def frozen(self) -> PlanChanges:
        return PlanChanges(**{name: tuple(getattr(self, name)) for name in PlanChanges._fields})


def _left_alone(task: Task, plan: Plan, found: _Changes) -> bool:
    """Whether a plan leaves the task alone: it is done, or a person canceled it."""
    if task.status is Status.DONE:
        found.skipped_done.append(task.id)
        return True
    if task.status is Status.CANCELED and task.reason != REMOVED and not plan.revives:
        found.skipped_canceled.append(task.id)
        return True
    return False


def _compare(planned: PlannedTask, task: Task | None, own: Mapping[str, Link], now: datetime, found: _Changes) -> None:
    wanted = {link.on: link for link in planned.links()}
    if task is None:
        found.insert.append(planned)
        found.link += wanted.values()
        return
    edits = planned.edit.changed(task)
    missing = [link for on, link in wanted.items() if on not in own or own[on].kind is not link.kind]
    stale = [link for on, link in own.items() if link.kind is not LinkKind.PARALLEL_OK and on not in wanted]
    reopened = task.status is Status.CANCELED
    if not (edits or missing or stale or reopened):
        return
    if task.held(now):
        found.skipped_active.append(task.id)
        return
    if reopened:
        found.reopen.append(task.id)
    if edits:
        found.edit.append((task.id, Edit(**edits)))  # type: ignore[arg-type]  # a subset of an Edit's own fields
    found.link += missing
    found.unlink += stale


def _check_id(planned: PlannedTask, marks: str) -> None:
    """A plan may still name a task whose id is of an older kind; a new task gets none such."""
    try:
        checks.new_identifier(planned.id, marks)
    except InvalidInput as error:
        raise PlanInvalid(error.message, line=planned.line) from None


def _refuse_unknown(planned: PlannedTask, known: set[str]) -> None:
    parent = planned.draft.parent
    for on in (*planned.blocked_by, *planned.feeds_from, *([parent] if parent else [])):
        if on not in known:
            raise PlanInvalid(
                f"'{planned.id}' refers to '{on}', which is neither planned nor in the store", line=planned.line
            )
