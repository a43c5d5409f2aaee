"""The JSON files of trackers: beads, GitHub and Task Master."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.task import Status
from dibs.exchange.items import Comment, Entry, Item, Notes, Reading, placed, section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dibs.core.task import Json

_OBJECTS = re.compile(r'"(?:[^"\\]+|\\.)*"|\{|\n')


def _documents(text: str) -> Iterator[tuple[int, Mapping[str, Json]]]:
    """The objects in a list, in lines of one object each, or under `items`, with their lines."""
    start = text.lstrip()[:1]
    if start != "[" and not (start == "{" and _is_one(text)):
        for number, single in enumerate(text.split("\n"), start=1):
            if single.strip():
                value = _decoded(single, number)
                if not isinstance(value, dict):
                    raise InvalidInput(f"line {number}: each line is an object.")
                yield number, value
        return
    whole = _decoded(text)
    lines = _lines(text, whole)
    listed = whole.get("items", [whole]) if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise InvalidInput("line 1: a list of objects is expected.")
    line = 1
    for value in listed:
        if not isinstance(value, dict):
            raise InvalidInput(f"line {line}: each entry of the list is an object, and one after this line is not.")
        line = lines[id(value)]
        yield line, value


def _is_one(text: str) -> bool:
    """One object over several lines, rather than one in each."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text.strip()


def _decoded(text: str, first: int = 1) -> Json:
    try:
        value: Json = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"line {first + error.lineno - 1}: not valid JSON ({error.msg}).") from None
    except RecursionError:
        raise InvalidInput(f"line {first}: the JSON is nested too deep.") from None
    except ValueError as error:
        raise InvalidInput(f"line {first}: not valid JSON ({error}).") from None
    return value


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is given twice")
    return made


def _refuse(word: str) -> Json:
    raise ValueError(f"{word} is not JSON")


def _lines(text: str, root: Json) -> dict[int, int]:
    """The line at which each object starts: objects open in the text in the order in which a walk meets them."""
    starts = []
    line = 1
    for found in _OBJECTS.finditer(text):
        mark = found.group()
        line += mark == "\n"
        if mark == "{":
            starts.append(line)
    return dict(zip(map(id, _objects(root)), starts, strict=True))


def _objects(root: Json) -> Iterator[Mapping[str, Json]]:
    waiting: list[Json] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)


# beads


def read_beads(text: str, notes: Notes) -> Reading:
    """`bd export`, `.beads/issues.jsonl`, or the list that `bd list --json` prints."""
    items = []
    for line, data in _documents(text):
        place = f"line {line}"
        entry = Entry(notes, place, data)
        if data.get("_type") not in {None, "issue"}:
            entry.key = str(data.get("_type"))[:40]
            entry.lose("it is no issue")
        elif entry.text("status") == "tombstone":
            entry.key = entry.text("id")
            entry.lose("it was deleted in beads")
        else:
            with placed(place):
                items.append(_bead(entry))
    return Reading(tuple(items), tuple(notes.lost))


def _bead(entry: Entry) -> Item:
    entry.key = _key(entry, entry.text("id"))
    title, over = entry.title(entry.text("title"))
    status = entry.status(entry.text("status"))
    parent, needs, feeds, related = _bead_links(entry)
    description = over + entry.text("description")
    for field, heading in (("design", "Design"), ("acceptance_criteria", "Acceptance criteria"), ("notes", "Notes")):
        description += section(heading, entry.text(field))
    extra: dict[str, Json] = {"related": list(related)} if related else {}
    for field in ("estimated_minutes", "due_at"):
        if entry.data.get(field):
            extra[field] = entry.data[field]
    ended = entry.text("close_reason", "closed_reason")
    return Item(
        entry.key,
        title,
        entry.place,
        status,
        description=description.strip(),
        priority=entry.priority(entry.data.get("priority")),
        category=entry.name("category", entry.text("issue_type")),
        labels=entry.names("label", entry.ids("labels")),
        ref=entry.text("external_ref") or None,
        parent=parent,
        needs=needs,
        feeds=feeds,
        assignee=entry.name("assignee", entry.text("assignee")),
        not_before=entry.moment("defer_until") if status in {Status.READY, Status.PAUSED} else None,
        created_at=entry.moment("created_at"),
        updated_at=entry.moment("updated_at"),
        started_at=entry.moment("started_at"),
        finished_at=entry.moment("closed_at"),
        result=ended or None,
        comments=_comments(entry, "text", "author", "created_at"),
        extra=extra,
    )


_BEAD_NEEDS = frozenset({"blocks", "waits-for", "conditional-blocks"})


def _bead_links(entry: Entry) -> tuple[str | None, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Its parent, prerequisites, origin and related tasks."""
    parent = entry.text("parent") or None
    needs: list[str] = []
    feeds: list[str] = []
    related: list[str] = []
    for link in entry.objects("dependencies"):
        kind = link.text("type", "dependency_type") or "blocks"
        on = link.text("depends_on_id", "id")
        if kind == "parent-child":
            parent = on
        elif kind in _BEAD_NEEDS:
            needs.append(on)
            if kind != "blocks":
                entry.lose(f"its link '{kind}' to {on} is an ordinary dependency here")
        elif kind == "discovered-from":
            feeds.append(on)
        elif kind in {"related", "relates-to"}:
            related.append(on)
        else:
            entry.lose(f"its link '{kind[:40]}' to {on[:60]}")
    whole, dot, part = entry.key.rpartition(".")
    if parent is None and dot and part.isdigit():
        parent = whole
    return parent, tuple(dict.fromkeys(needs)), tuple(dict.fromkeys(feeds)), tuple(dict.fromkeys(related))


def _key(entry: Entry, said: str) -> str:
    if not said.strip():
        raise InvalidInput(f"{entry.place}: a task needs an id.")
    return said.strip()


def _comments(entry: Entry, text: str, author: str, at: str) -> tuple[Comment, ...]:
    if isinstance(entry.data.get("comments"), int):
        return ()
    found = []
    for comment in entry.objects("comments"):
        by = comment.data.get(author)
        name = by.get("login", "") if isinstance(by, dict) else comment.text(author)
        found.append(
            Comment(comment.text(text, "body"), comment.name("author", str(name)), comment.moment(at, "createdAt"))
        )
    return tuple(found)


# GitHub

_WAITS = re.compile(r"\b(?:depends on|blocked by|requires)\s+((?:#\d+(?:\s*(?:,|and)\s*)?)+)", re.IGNORECASE)
_PART = re.compile(r"^\s*[-*+] \[[ xX]\] #(\d+)\s*$", re.MULTILINE)
_URGENT = re.compile(
    r"(?:priority|prio)?\s*[:/= -]?\s*(p[0-4]|critical|urgent|highest|high|medium|low|lowest)", re.IGNORECASE
)
_OURS = re.compile(r"\n*<!-- dibs (\{[^>]*\}) -->\s*$")

_OWN_NEEDS = re.compile(r"(?:^|\n\n)Depends on #\d+(?:, #\d+)*$")  # what our export writes for people


def read_github(text: str, notes: Notes) -> Reading:
    """The JSON of `gh issue list --json …`, of `gh api`, or of the REST API."""
    items: list[Item] = []
    parts: dict[str, str] = {}
    for line, data in _documents(text):
        place = f"line {line}"
        entry = Entry(notes, place, data)
        if data.get("pull_request") or "/pull/" in str(data.get("url") or data.get("html_url") or ""):
            entry.key = f"#{data.get('number')}"
            entry.lose("it is a pull request")
            continue
        with placed(place):
            item = _issue(entry)
        items.append(item)
        parts |= dict.fromkeys(_PART.findall(item.description), item.key)
        parts |= {child.text("number"): item.key for child in _nodes(entry, "subIssues")}
    whole = tuple(
        item._replace(parent=parts[item.key]) if item.parent is None and item.key in parts else item for item in items
    )
    return Reading(whole, tuple(notes.lost))


def _issue(entry: Entry) -> Item:
    number = _key(entry, entry.text("number"))
    body = entry.text("body").replace("\r\n", "\n")
    own = _own_fields(body)
    entry.key = str(own.get("id") or number)
    title, over = entry.title(entry.text("title"))
    labels = entry.names("label", (_label(entry, value) for value in entry.entries("labels")))
    kind = entry.data.get("issueType") or entry.data.get("type")
    milestone = entry.data.get("milestone")
    assignees = [person.text("login", "name") for person in entry.objects("assignees")]
    if len(assignees) > 1:
        entry.lose(f"of its {len(assignees)} assignees only {assignees[0]} is kept")
    text = _OWN_NEEDS.sub("", _OURS.sub("", body)) if own else body
    needs = [number for found in _WAITS.findall(text) for number in re.findall(r"#(\d+)", found)]
    needs += [other.text("number") for other in _nodes(entry, "blockedBy")]
    given = own.get("needs")
    return Item(
        entry.key,
        title,
        entry.place,
        _issue_status(entry, own),
        description=over + text.strip(),
        priority=entry.priority(own["priority"]) if "priority" in own else _labelled_priority(entry, labels),
        category=entry.name("category", _name_in(kind, "name")),
        labels=labels,
        spec_ref=entry.name("milestone", _name_in(milestone, "title")),
        ref=entry.text("html_url", "url") or None,
        parent=_name_in(entry.data.get("parent"), "number") or str(own.get("parent") or "") or None,
        needs=tuple(map(str, given)) if isinstance(given, list) else tuple(dict.fromkeys(needs)),
        assignee=entry.name("assignee", assignees[0]) if assignees else None,
        created_at=entry.moment("createdAt", "created_at"),
        updated_at=entry.moment("updatedAt", "updated_at"),
        finished_at=entry.moment("closedAt", "closed_at"),
        comments=_comments(entry, "body", "user" if "user" in entry.data else "author", "created_at"),
        extra={"author": author}
        if (author := _name_in(entry.data.get("author") or entry.data.get("user"), "login"))
        else {},
    )


def _own_fields(body: str) -> Mapping[str, Json]:
    """What an export of ours left at the end of the text."""
    found = _OURS.search(body)
    try:
        fields = json.loads(found.group(1)) if found else {}
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _issue_status(entry: Entry, own: Mapping[str, Json]) -> Status:
    state = entry.text("state").casefold()
    why = entry.text("stateReason", "state_reason").casefold()
    if state == "closed":
        return Status.CANCELED if why in {"not_planned", "duplicate"} else Status.DONE
    if state not in {"open", ""}:
        raise InvalidInput(f"{entry.place}: 'state' must be open or closed, not {state[:40]!r}.")
    said = str(own.get("status") or "")
    return entry.status(said)


def _label(entry: Entry, value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return str(value["name"])
    raise InvalidInput(f"{entry.place}: a label is a name or an object with one.")


def _labelled_priority(entry: Entry, labels: tuple[str, ...]) -> float:
    """Many repositories say with a label what comes first."""
    said = [found.group(1) for label in labels if (found := _URGENT.fullmatch(label.strip()))]
    return min((entry.priority(word) for word in said), default=2)


def _nodes(entry: Entry, name: str) -> list[Entry]:
    """A list, or GraphQL's way to give one."""
    value = entry.data.get(name)
    nodes = value.get("nodes") if isinstance(value, dict) else value
    if not isinstance(nodes, list):
        return []
    return [one for one in Entry(Notes(""), entry.place, {name: nodes}, entry.key).objects(name) if one.text("number")]


def _name_in(value: Json, field: str) -> str:
    """A name in an object, or as plain text."""
    if isinstance(value, dict):
        value = value.get(field)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


# Task Master


def read_task_master(text: str, notes: Notes) -> Reading:
    """`.taskmaster/tasks/tasks.json`. Its tag `master` becomes the current scope, each other tag a separate scope."""
    root = _decoded(text)
    if not isinstance(root, dict):
        raise InvalidInput("line 1: this is no tasks.json of Task Master.")
    lines = _lines(text, root)
    items: list[Item] = []
    tags = {"master": root} if isinstance(root.get("tasks"), list) else root
    for tag, group in tags.items():
        if not isinstance(group, dict) or not isinstance(group.get("tasks"), list):
            place = f"line {lines[id(group)]}" if isinstance(group, dict) else "line 1"
            raise InvalidInput(f"{place}: '{tag[:40]}' has no list of tasks.")
        for task in group["tasks"]:
            if not isinstance(task, dict):
                raise InvalidInput(f"line {lines[id(group)]}: each task is an object.")
            scope = None if tag == "master" else checks.scope(tag)
            items += _with_parts(task, scope, lines, notes)
    return Reading(tuple(items), tuple(notes.lost))


def _with_parts(task: Mapping[str, Json], scope: str | None, lines: Mapping[int, int], notes: Notes) -> list[Item]:
    """A task and its subtasks, whose ids are `3.1`, `3.2` and so on, as Task Master writes them."""
    place = f"line {lines[id(task)]}"
    entry = Entry(notes, place, task)
    entry.key = _key(entry, entry.text("id"))
    with placed(place):
        found = [_master_task(entry, entry.ids("dependencies"), scope)]
    for part in entry.objects("subtasks"):
        part.place = f"line {lines[id(part.data)]}"
        number = _key(part, part.text("id")).removeprefix(f"{entry.key}.")
        part.key = f"{entry.key}.{number}"
        siblings = tuple(on if "." in on else f"{entry.key}.{on}" for on in part.ids("dependencies"))
        with placed(part.place):
            made = _master_task(part, siblings, scope)
        found.append(made._replace(parent=entry.key, priority=found[0].priority))
    return found


def _master_task(entry: Entry, needs: tuple[str, ...], scope: str | None) -> Item:
    title, over = entry.title(entry.text("title"))
    description = over + entry.text("description") + section("Details", entry.text("details"))
    description += section("Test strategy", entry.text("testStrategy"))
    complexity = entry.data.get("complexity")
    return Item(
        entry.key,
        title,
        entry.place,
        entry.status(entry.text("status")),
        description=description.strip(),
        priority=entry.priority(entry.text("priority")),
        labels=entry.names("label", entry.ids("labels")),
        needs=needs,
        assignee=entry.name("assignee", entry.text("assignee")),
        created_at=entry.moment("createdAt"),
        updated_at=entry.moment("updatedAt"),
        extra={} if complexity is None else {"complexity": complexity},
        scope=scope,
    )
