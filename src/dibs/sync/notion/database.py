"""A sender's Notion database: its fields and words, its rows, writes to them, and its setup."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import DibsError, Misconfigured, NotFound, StoreBusy, StoreUnavailable
from dibs.core.task import Json, Status, Task
from dibs.core.times import time_text
from dibs.stores.notion.layout import Carried, Layout, Property, Shape, problems, shape_of
from dibs.stores.notion.pages import bare
from dibs.stores.notion.values import Plain, Unreadable, decode, encode, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.stores.notion.gateway import Gateway
    from dibs.stores.notion.http import HttpGateway


class Field(StrEnum):
    """A field that people may change on both sides; the value is the document's word for such a change."""

    STATUS = "status"
    TITLE = "description"
    PRIORITY = "priority"
    AGENT = "agent"


# A status in Notion → what it requests.
ASKED: Mapping[str, Status] = {
    "Not Started": Status.READY,
    "Ready": Status.READY,
    "Blocked": Status.BLOCKED,
    "In Progress": Status.ACTIVE,
    "Completed": Status.DONE,
    "Cancelled": Status.CANCELED,
}
READY_NOW, NOT_STARTED = "Ready", "Not Started"
_ALSO = {"canceled": "Cancelled", "done": "Completed", "todo": NOT_STARTED, "to do": NOT_STARTED}

# A status here → the statuses in Notion that match it; the first one is written.
PENDING, READY, IN_REVIEW = "pending", "ready", "pending_review"
_AGREES: Mapping[str, tuple[str, ...]] = {
    PENDING: (NOT_STARTED,),
    READY: (READY_NOW, NOT_STARTED),
    IN_REVIEW: (NOT_STARTED,),
    "blocked": ("Blocked",),
    "paused": ("Blocked",),
    "review": ("Blocked",),
    "escalated": ("Blocked",),
    "in_progress": ("In Progress",),
    "completed": ("Completed",),
    "aborted": ("Cancelled",),
}
_STANDS = {
    Status.BACKLOG: IN_REVIEW,
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.CANCELED: "aborted",
}

WEIGHTS: Mapping[str, float] = {"Critical": 1.0, "High": 0.8, "Medium": 0.5, "Low": 0.3, "Backlog": 0.1}
USUAL_WEIGHT = 0.5
_SPELLED = {word.casefold(): word for word in (*ASKED, *WEIGHTS)} | _ALSO

LAYOUT = Layout(
    "sync",
    {
        "title": Property("Name", ("title",)),
        "status": Property("Status", ("select", "status")),
        "priority": Property("Priority", ("select",)),
        "agent": Property("Agent", ("select", "multi_select")),
        "id": Property("ID", ("rich_text",)),
        "synced_at": Property("Last Synced", ("date",)),
        "sender": Property("SenderHash", ("rich_text",)),
        "result": Property("Result", ("rich_text", "url"), required=False),
        "depends_on": Property("Depends on", ("relation",), required=False),
    },
    {},
)


class Fleet(NamedTuple):
    """The agents that Notion may name: id → name. If empty, every name is an id."""

    names: Mapping[str, str] = {}

    def name_of(self, agent: str | None) -> str | None:
        return None if agent is None else self.names.get(agent, agent)

    def agent_called(self, name: str) -> str | None:
        """Return the id of the agent with this name or id; None if there is none."""
        if not self.names:
            return name
        wanted = name.strip().casefold()
        return next((id_ for id_, own in self.names.items() if wanted in {own.casefold(), id_.casefold()}), None)


def spelled(word: str | None) -> str | None:
    """Return a status or priority in this database's spelling; other words are unchanged."""
    return None if word is None else _SPELLED.get(word.casefold(), word)


def asked_status(word: str | None) -> Status | None:
    """Return what a status word requests; None for an unknown word."""
    return ASKED.get(word or "")


def weight_of(task: Task) -> float:
    """Negate the priority: in the core, lower numbers come first."""
    return min(1.0, max(0.0, 0.0 - task.priority))


def weight_word(weight: float) -> str:
    """Return the word nearest to a weight; of two as near, the more urgent."""
    return min(WEIGHTS, key=lambda word: (abs(WEIGHTS[word] - weight), -WEIGHTS[word]))


def stands(task: Task) -> str:
    """Return the task's status in the document's words; ready and pending are derived."""
    if task.status is Status.READY:
        return READY if not task.blockers else PENDING
    return _STANDS.get(task.status, str(task.status))


def ours(task: Task) -> dict[Field, Json]:
    """Return the task's value of a field, for comparison."""
    return {
        Field.TITLE: task.title,
        Field.STATUS: stands(task),
        Field.PRIORITY: [weight_of(task), task.override],
        Field.AGENT: task.assigned_to,
    }


def said(task: Task, fleet: Fleet) -> dict[Field, str | None]:
    """Return the task's value of a field, in Notion's form."""
    return {
        Field.TITLE: task.title,
        Field.STATUS: _AGREES[stands(task)][0],
        Field.PRIORITY: weight_word(weight_of(task)),
        Field.AGENT: fleet.name_of(task.assigned_to),
    }


def agrees(field: Field, theirs: str | None, task: Task, fleet: Fleet) -> bool:
    """Whether Notion's value matches the task's."""
    match field:
        case Field.STATUS:
            return theirs in _AGREES[stands(task)]
        case Field.TITLE:
            return title_of(theirs or UNTITLED) == task.title
        case Field.AGENT:
            return task.assigned_to == (None if theirs is None else fleet.agent_called(theirs) or _NOBODY)
    return theirs == weight_word(weight_of(task))


UNTITLED = "Untitled"
_NOBODY = ""  # not an agent's id
_TITLE = 120  # characters of a title


def title_of(name: str) -> str:
    """Return a task's title: the first line, cut to length."""
    first = next((line.strip() for line in name.splitlines() if line.strip()), "")
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


class Row(NamedTuple):
    """A row. People may change `fields`; dibs writes the rest. `shape` maps fields to properties."""

    page: str
    url: str
    edited_at: datetime
    sender: str
    id: str
    fields: Mapping[Field, str | None]
    result: str = ""
    trashed: bool = False
    shape: Mapping[str, Carried] = {}
    depends_on: frozenset[str] = frozenset()  # pages; the first 25 if there are more


class Unfit(Misconfigured):
    """A page lacks the properties of a row; it must not count as a row with empty values."""


def row_of(page: Mapping[str, Any]) -> Row:
    properties, edited = page.get("properties"), page.get("last_edited_time")
    if not isinstance(properties, dict) or not isinstance(page.get("id"), str) or not isinstance(edited, str):
        raise StoreUnavailable("Notion's answer is no page; is NOTION_API_BASE_URL right?")
    shape = shape_of(LAYOUT, properties)
    wrong = problems(LAYOUT, properties)
    if wrong:
        raise Unfit(
            f"A row cannot be read: {'; '.join(wrong.values())}. Was a property renamed in Notion? Nothing was "
            "concluded from it; name it as before, or see 'dibs sync notion init'."
        )
    cells = {field: _cell(properties[carried.name]) for field, carried in shape.items()}
    fields = {
        Field.TITLE: _text(cells.get("title")),
        Field.STATUS: spelled(_text(cells.get("status"))),
        Field.PRIORITY: spelled(_text(cells.get("priority"))),
        Field.AGENT: _text(cells.get("agent")),
    }
    return Row(
        bare(page["id"]),
        str(page.get("url") or ""),
        moment_of(edited),
        _text(cells.get("sender")) or "",
        _text(cells.get("id")) or "",
        fields,
        _text(cells.get("result")) or "",
        bool(page.get("in_trash") or page.get("archived")),
        shape,
        _pages(cells.get("depends_on")),
    )


def _cell(value: Mapping[str, Any]) -> Plain:
    try:
        return decode(value)
    except Unreadable:
        return None


def _pages(value: Plain) -> frozenset[str]:
    return frozenset(bare(page) for page in value) if isinstance(value, tuple) else frozenset()


def _text(value: Plain) -> str | None:
    """Return clean text: the first of several agents, control characters replaced by blanks."""
    first = next(iter(value), None) if isinstance(value, tuple) else value
    said = "" if first is None else str(first)
    return "".join(each if each.isprintable() or each == "\n" else " " for each in said).strip() or None


PAGE_SIZE = 100
OVERLAP = timedelta(minutes=2)  # how long a list may lag behind writes
_SENDER = "SenderHash"


class Fetched(NamedTuple):
    """Rows read. `complete` if there are no others; `gone` are pages confirmed as deleted."""

    rows: tuple[Row, ...]
    complete: bool
    gone: frozenset[str] = frozenset()


class Rows:
    """The rows of one sender in a database. `seen` is called with the number of rows read."""

    def __init__(self, gateway: Gateway, source: str, sender: str, seen: Callable[[int], None]) -> None:
        self._gateway, self.source, self._sender, self._seen = gateway, source, sender, seen

    def all(self, known: Iterable[str]) -> Fetched:
        """Read all rows; `known` are the pages that should exist."""
        rows = self._listed(None)
        found = {row.page for row in rows}
        asked = {page: self.one(page) for page in known if page not in found}
        rows += [row for row in asked.values() if row is not None]
        return Fetched(tuple(rows), complete=True, gone=frozenset(page for page, row in asked.items() if row is None))

    def since(self, moment: datetime, also: Iterable[str]) -> Fetched:
        """Read rows edited since a time or shortly before, and those with the given pages."""
        rows = self._listed((moment - OVERLAP).replace(second=0, microsecond=0))  # Notion reports no seconds
        found = {row.page for row in rows}
        asked = (self.one(page) for page in also if page not in found)
        return Fetched((*rows, *(row for row in asked if row is not None)), complete=False)

    def one(self, page: str) -> Row | None:
        """Read one row; None if it is trashed, not shared, or another sender's."""
        try:
            row = row_of(self._gateway.page(page))
        except NotFound:
            return None
        return row if row.sender == self._sender and not row.trashed else None

    def _listed(self, since: datetime | None) -> list[Row]:
        found: dict[str, Row] = {}
        for page in self._pages(since):
            row = row_of(page)
            if row.sender == self._sender and not row.trashed:  # the list may be outdated
                found[row.page] = row
        return list(found.values())

    def _pages(self, since: datetime | None) -> Iterator[Mapping[str, Any]]:
        body: dict[str, Any] = {
            "page_size": PAGE_SIZE,
            "sorts": [{"timestamp": "created_time", "direction": "ascending"}],
            "filter": _filter(self._sender, since),
        }
        while True:
            answer = self._gateway.query(self.source, body)
            results, cursor = answer.get("results"), answer.get("next_cursor")
            if not isinstance(results, list) or (answer.get("has_more") and not cursor):
                raise StoreUnavailable("Notion's list of rows broke off; nothing is concluded from it. Try again.")
            self._seen(len(results))
            yield from results
            if (answer.get("request_status") or {}).get("type") == "incomplete":
                raise Misconfigured("This sender has more rows than Notion lists (10,000). Archive some of them.")
            if not cursor:
                return
            body["start_cursor"] = cursor


def _filter(sender: str, since: datetime | None) -> dict[str, Any]:
    own = {"property": _SENDER, "rich_text": {"equals": sender}}
    if since is None:
        return own
    return {"and": [own, {"timestamp": "last_edited_time", "last_edited_time": {"on_or_after": time_text(since)}}]}


def source_of(gateway: Gateway, database: str) -> str:
    """Return the database's data source; raise with a list of missing properties."""
    source = gateway.source_of(database)
    wrong = problems(LAYOUT, gateway.schema(source))
    if wrong:
        raise Misconfigured(
            f"The Notion database cannot be synced: {'; '.join(wrong.values())}. "
            "'dibs sync notion init' adds what is missing."
        )
    return source


_TRIES = 4
_PAUSE = 0.5  # seconds, if Notion names no delay
_LONGEST_PAUSE = 60.0
_LONGEST_RESULT = 2000
SHOWN_RELATIONS = 25
_CARRIER = {Field.TITLE: "title", Field.STATUS: "status", Field.PRIORITY: "priority", Field.AGENT: "agent"}


class Push(NamedTuple):
    """A row's new values: those that people may change too, and `own` ones of dibs."""

    task: Task
    row: Row
    tell: Mapping[Field, str | None]
    own: Mapping[str, Plain]

    @property
    def needed(self) -> bool:
        return bool(self.tell or self.own)

    @property
    def written_over(self) -> list[tuple[str, str | None, str | None]]:
        """Return people's values that are overwritten: kind of change, old and new word."""
        told = [(str(field), self.row.fields[field], word) for field, word in self.tell.items()]
        own = [("properties", old, _shown(self.own[name])) for name, old in _own(self.row).items() if name in self.own]
        return [*told, *((kind, _shown(old), new) for kind, old, new in own if old)]


def push_for(task: Task, row: Row, tell: Mapping[Field, str | None], before: frozenset[str] | None = None) -> Push:
    """Return the row's outdated values: id, a finished task's result, and the prerequisites' pages, if given."""
    wanted: dict[str, Plain] = {"id": task.id}
    if "result" in row.shape and task.status is Status.DONE:
        wanted["result"] = result_of(task, row.shape["result"].type)
    if before is not None and "depends_on" in row.shape and not _relates(row, before):
        wanted["depends_on"] = tuple(sorted(before))
    there = _own(row)
    return Push(task, row, tell, {field: value for field, value in wanted.items() if value != there[field]})


def _own(row: Row) -> dict[str, Plain]:
    return {"id": row.id, "result": row.result, "depends_on": tuple(sorted(row.depends_on))}


def _relates(row: Row, before: frozenset[str]) -> bool:
    """Whether the row shows these pages. Of a long relation, Notion shows only the first."""
    if len(row.depends_on) < SHOWN_RELATIONS:
        return row.depends_on == before
    return len(before) >= SHOWN_RELATIONS and row.depends_on <= before


def _shown(value: Plain) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def result_of(task: Task, kind: str) -> str:
    """Return a link from the result, else its text if the property holds text."""
    link = next((each for each in task.artifacts if each.startswith(("http://", "https://"))), "")
    if kind == "url":
        return link
    said = link or next(iter(task.artifacts), "") or _summary(task.result)
    return said[:_LONGEST_RESULT].strip()


def _summary(result: Json) -> str:
    if result is None or isinstance(result, str):
        return result or ""
    import json

    return json.dumps(result, ensure_ascii=False)


class Pusher:
    """Writes to the rows of one sender."""

    def __init__(self, gateway: Gateway, rows: Rows, sleep: Callable[[float], None]) -> None:
        self._gateway, self._rows, self._sleep = gateway, rows, sleep
        self._shape: Shape = {}

    def unchanged(self, push: Push, now: datetime) -> bool:
        """Whether the row is unchanged since the decision; irrelevant for our own fields."""
        row = self.write(push._replace(tell={}), now) if push.own else self._rows.one(push.row.page)
        return row is not None and row.fields == push.row.fields

    def write(self, push: Push, now: datetime) -> Row:
        """Write until the row is confirmed or an error is final; return the row."""
        properties = _properties(push, now)
        pause = _PAUSE
        for tries_left in reversed(range(_TRIES)):
            try:
                return row_of(self._gateway.update(push.row.page, properties))
            except (StoreBusy, StoreUnavailable) as error:
                if isinstance(error, StoreUnavailable) and (row := self._arrived(push)):
                    return row
                wait = (error.retry_after_ms or 1000 * pause) / 1000
                if not tries_left or wait > _LONGEST_PAUSE:
                    raise
                self._sleep(wait)
                pause *= 2
        raise AssertionError  # the last try has returned or raised

    def _arrived(self, push: Push) -> Row | None:
        """Read the page after a write without a usable answer; None if it lacks the values."""
        try:
            row = self._rows.one(push.row.page)
        except DibsError:
            return None  # no answer either; the write is repeated, which does no harm
        if row is None:
            return None
        own = _own(row)
        there = all(row.fields[field] == word for field, word in push.tell.items())
        return row if there and all(own[field] == value for field, value in push.own.items()) else None

    def add(self, task: Task, sender: str, words: Mapping[Field, str | None], now: datetime) -> Row:
        """Make a row. Once only: after a lost answer, a later list shows whether the row is there."""
        shape = self._shape = self._shape or shape_of(LAYOUT, self._gateway.schema(self._rows.source))
        wanted: dict[str, Any] = {_CARRIER[field]: word for field, word in words.items()}
        wanted |= {"id": task.id, "sender": sender, "synced_at": now}
        if task.status is Status.DONE and "result" in shape:
            wanted["result"] = result_of(task, shape["result"].type)
        return row_of(self._gateway.create(self._rows.source, _encoded(shape, wanted)))


def _properties(push: Push, now: datetime) -> dict[str, Any]:
    wanted: dict[str, Any] = {_CARRIER[field]: word for field, word in push.tell.items()}
    wanted |= {**push.own, "synced_at": now}
    return _encoded(push.row.shape, wanted)


def _encoded(shape: Shape, wanted: Mapping[str, Plain]) -> dict[str, Any]:
    return {shape[field].name: encode(shape[field].type, value) for field, value in wanted.items() if field in shape}


TITLE = "Kurultai Tasks"


def columns(fleet: Fleet) -> dict[str, Any]:
    """Return the schema's properties with their options."""
    words = {"status": ASKED, "priority": WEIGHTS, "agent": dict.fromkeys(fleet.names.values())}
    return {
        carrier.name: {carrier.types[0]: {"options": [{"name": word} for word in words[field]]}}
        if field in words
        else {carrier.types[0]: {}}
        for field, carrier in LAYOUT.properties.items()
        if carrier.types[0] != "relation"
    }


def _relation(source: str) -> dict[str, Any]:
    """A column for links between the rows of one database, which must exist first."""
    target = {"data_source_id": source, "type": "single_property", "single_property": {}}
    return {LAYOUT.properties["depends_on"].name: {"relation": target}}


def make(gateway: HttpGateway, parent: str, fleet: Fleet) -> str:
    """Make a database below a page and return its id."""
    made = gateway.create_database(parent, TITLE, columns(fleet))
    if not isinstance(made.get("id"), str):
        raise StoreUnavailable("Notion's answer lacks the id of the new database.")
    source = gateway.source_of(str(made["id"]))
    gateway.update_schema(source, _relation(source))
    return str(made["id"])


def complete(gateway: HttpGateway, database: str, fleet: Fleet) -> list[str]:
    """Add missing properties and return their names; a property of another type is left alone."""
    source = gateway.source_of(database)
    there: Mapping[str, Any] = gateway.schema(source)
    known = {name.casefold() for name in there}
    wrong = [text for name, text in problems(LAYOUT, there).items() if name.casefold() in known]
    if wrong:
        raise Misconfigured(
            f"The Notion database cannot be synced: {'; '.join(wrong)}. Rename or change it in Notion, then "
            "run this again."
        )
    lacking = {
        name: column
        for name, column in {**columns(fleet), **_relation(source)}.items()
        if name.casefold() not in known and "title" not in column
    }
    if lacking:
        gateway.update_schema(source, lacking)
    return list(lacking)
