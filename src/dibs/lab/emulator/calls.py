"""One request on its way to its handler: who asks, in which version, for what, and how it sees the workspace."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from dibs.lab.emulator.errors import should
from dibs.lab.emulator.faults import Faults
from dibs.lab.emulator.ids import plain_property_id, whole_id
from dibs.lab.emulator.model import DataSource, User
from dibs.lab.emulator.paging import Cursors, Found, Piece, page_size, start_cursor
from dibs.lab.emulator.rendering import Shapes
from dibs.lab.emulator.rows import Reader, View, as_of, latest
from dibs.lab.emulator.workspace import Workspace


class Call(NamedTuple):
    """`ids` are the path's parameters by name, `query` the address's, `body` is an object or empty."""

    workspace: Workspace
    faults: Faults
    cursors: Cursors
    bot: User
    version: str
    ids: dict[str, str]
    query: dict[str, list[str]]
    body: dict[str, Any]

    def id(self, name: str) -> str:
        found = whole_id(self.ids[name])
        if found is None:
            raise should(f"path.{name}", "a valid uuid", self.ids[name])
        return found

    def now(self) -> Reader:
        return Reader(self.workspace, latest)

    def stale(self) -> Reader:
        """How a GET sees a page: as it is, or as it was a while ago."""
        return Reader(self.workspace, self._past(self.faults.stale_reads))

    def lagging(self) -> Reader:
        """How a query sees the pages: what was written of late is not in its index yet."""
        return Reader(self.workspace, self._past(self.faults.query_lag))

    def _past(self, seconds: float) -> View:
        return as_of(self.workspace.clock() - timedelta(seconds=seconds)) if seconds > 0 else latest

    def shapes(self, reader: Reader | None = None) -> Shapes:
        return Shapes(self.workspace, reader or self.now(), self.version)

    def paged(self, place: str, find: Callable[[], Found], part: str = "body") -> Piece:
        """The piece asked for: where the cursor says to go on, or else of what is found now."""
        said = self.body if part == "body" else {name: values[-1] for name, values in self.query.items()}
        size, cursor = page_size(said, part), start_cursor(said, part)
        if cursor is not None:
            return self.cursors.resume(place, cursor, size)
        return self.cursors.first(find(), size)

    def only(self, source: DataSource) -> list[str] | None:
        """The properties that `filter_properties` asks for, by id; None is all."""
        asked = self.query.get("filter_properties", []) + self.query.get("filter_properties[]", [])
        known = [source.find(name) or source.properties.get(plain_property_id(name)) for name in asked]
        return [prop.id for prop in known if prop is not None] if asked else None
