"""Reading the rows of one sender: all of them or none, or those that were edited lately.

That a row is gone is believed only when a complete list does not have it and its page, asked for by itself, is gone as
well: a list may lag behind, or be cut short.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dibs.core.errors import Misconfigured, NotFound, StoreUnavailable
from dibs.core.times import time_text
from dibs.stores.notion.gateway import Gateway
from dibs.stores.notion.schema import problems
from dibs.sync.notion.rows import Row, row_of
from dibs.sync.notion.words import LAYOUT

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
