"""The database of one sender in Notion: reading its rows, writing what changed here, setting it up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import DibsError, Misconfigured, NotFound, StoreBusy, StoreUnavailable
from dibs.core.task import Json, Status, Task
from dibs.core.times import time_text
from dibs.stores.notion.layout import problems
from dibs.stores.notion.values import encode
from dibs.sync.notion.rows import ASKED, LAYOUT, WEIGHTS, Field, Row, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.stores.notion.gateway import Gateway
    from dibs.stores.notion.http import HttpGateway
    from dibs.sync.notion.rows import Fleet

PAGE_SIZE = 100
OVERLAP = timedelta(minutes=2)  # so long a list may not show what was written
_SENDER = "SenderHash"


class Fetched(NamedTuple):
    """`complete`: there are no other rows. `gone` are pages that are there no more, for certain."""

    rows: tuple[Row, ...]
    complete: bool
    gone: frozenset[str] = frozenset()


class Rows:
    """The rows of one sender in one database. `seen` is called with how many were read."""

    def __init__(self, gateway: Gateway, source: str, sender: str, seen: Callable[[int], None]) -> None:
        self._gateway, self.source, self._sender, self._seen = gateway, source, sender, seen

    def all(self, known: Iterable[str]) -> Fetched:
        """Every row; `known` are the pages that there should be."""
        rows = self._listed(None)
        found = {row.page for row in rows}
        asked = {page: self.one(page) for page in known if page not in found}
        rows += [row for row in asked.values() if row is not None]
        return Fetched(tuple(rows), complete=True, gone=frozenset(page for page, row in asked.items() if row is None))

    def since(self, moment: datetime, also: Iterable[str]) -> Fetched:
        """Those edited since then, or a little before, and some others by their pages."""
        rows = self._listed((moment - OVERLAP).replace(second=0, microsecond=0))  # Notion tells no seconds
        found = {row.page for row in rows}
        asked = (self.one(page) for page in also if page not in found)
        return Fetched((*rows, *(row for row in asked if row is not None)), complete=False)

    def one(self, page: str) -> Row | None:
        """A row as it is now; None if it is in the trash, out of sight, or somebody else's."""
        try:
            row = row_of(self._gateway.page(page))
        except NotFound:
            return None
        return row if row.sender == self._sender and not row.trashed else None

    def _listed(self, since: datetime | None) -> list[Row]:
        found: dict[str, Row] = {}
        for page in self._pages(since):
            row = row_of(page)
            if row.sender == self._sender and not row.trashed:  # whatever the list says, others' rows are not ours
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
    """The data source of a database that has what it takes; else what it lacks."""
    source = gateway.source_of(database)
    wrong = problems(LAYOUT, gateway.schema(source))
    if wrong:
        raise Misconfigured(
            f"The Notion database cannot be synced: {'; '.join(wrong.values())}. "
            "'dibs sync notion init' adds what is missing."
        )
    return source


_TRIES = 4
_PAUSE = 0.5  # seconds, where Notion does not say how long
_LONGEST_PAUSE = 60.0
_LONGEST_RESULT = 2000
_CARRIER = {Field.TITLE: "title", Field.STATUS: "status", Field.PRIORITY: "priority", Field.AGENT: "agent"}


class Push(NamedTuple):
    """What a row is to say: `tell` what people may change too, `own` what is ours alone."""

    task: Task
    row: Row
    tell: Mapping[Field, str | None]
    own: Mapping[str, str]

    @property
    def needed(self) -> bool:
        return bool(self.tell or self.own)

    @property
    def written_over(self) -> list[tuple[str, str | None, str | None]]:
        """What people may miss: the kind of change, the old word and the new one."""
        told = [(str(field), self.row.fields[field], word) for field, word in self.tell.items()]
        there = {"id": self.row.id, "result": self.row.result}
        return [*told, *(("properties", there[name], word) for name, word in self.own.items() if there[name])]


def push_for(task: Task, row: Row, tell: Mapping[Field, str | None]) -> Push:
    """The id and, once there is one, the result: what differs of them."""
    wanted = {"id": task.id}
    if "result" in row.shape and task.status is Status.DONE:
        wanted["result"] = result_of(task, row.shape["result"].type)
    there = {"id": row.id, "result": row.result}
    return Push(task, row, tell, {field: value for field, value in wanted.items() if value != there[field]})


def result_of(task: Task, kind: str) -> str:
    """A link to what was made, if there is one; else what was said about it, where text has a place."""
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

    def unchanged(self, push: Push, now: datetime) -> bool:
        """Whether the row still says what it said when this was decided. To write what is ours alone answers that."""
        row = self.write(push._replace(tell={}), now) if push.own else self._rows.one(push.row.page)
        return row is not None and row.fields == push.row.fields

    def write(self, push: Push, now: datetime) -> Row:
        """Until it is there for certain, or an error says why not; the row as it is then."""
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
        """No answer came, or none that says anything: what does the page say? None where it does not say this."""
        try:
            row = self._rows.one(push.row.page)
        except DibsError:
            return None  # nor does it answer now; so it is written again, which does no harm
        if row is None:
            return None
        own = {"id": row.id, "result": row.result}
        there = all(row.fields[field] == word for field, word in push.tell.items())
        return row if there and all(own[field] == value for field, value in push.own.items()) else None


def _properties(push: Push, now: datetime) -> dict[str, Any]:
    wanted: dict[str, Any] = {_CARRIER[field]: word for field, word in push.tell.items()}
    wanted |= {**push.own, "synced_at": now}
    shape = push.row.shape
    return {shape[field].name: encode(shape[field].type, value) for field, value in wanted.items() if field in shape}


TITLE = "Kurultai Tasks"


def columns(fleet: Fleet) -> dict[str, Any]:
    """Every property of the schema, with its words where it has some."""
    words = {"status": ASKED, "priority": WEIGHTS, "agent": dict.fromkeys(fleet.names.values())}
    return {
        carrier.name: {carrier.types[0]: {"options": [{"name": word} for word in words[field]]}}
        if field in words
        else {carrier.types[0]: {}}
        for field, carrier in LAYOUT.properties.items()
    }


def make(gateway: HttpGateway, parent: str, fleet: Fleet) -> str:
    """The id of a new database below a page."""
    made = gateway.create_database(parent, TITLE, columns(fleet))
    if not isinstance(made.get("id"), str):
        raise StoreUnavailable("Notion's answer does not say what database it made.")
    return str(made["id"])


def complete(gateway: HttpGateway, database: str, fleet: Fleet) -> list[str]:
    """Add the properties that are not there; their names. One of another type is somebody's own, and stays."""
    source = gateway.source_of(database)
    there: Mapping[str, Any] = gateway.schema(source)
    known = {name.casefold() for name in there}
    wrong = [text for name, text in problems(LAYOUT, there).items() if name.casefold() in known]
    if wrong:
        raise Misconfigured(
            f"The Notion database cannot be synced as it is: {'; '.join(wrong)}. Rename or change it in Notion, then "
            "run this again."
        )
    lacking = {
        name: column
        for name, column in columns(fleet).items()
        if name.casefold() not in known and "title" not in column
    }
    if lacking:
        gateway.update_schema(source, lacking)
    return list(lacking)
