"""A Notion database as a log: rows are added and read, never changed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from dibs.core.errors import Misconfigured
from dibs.core.times import time_text
from dibs.stores.notion.values import Unreadable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dibs.stores.notion.gateway import Answer, Gateway

Value: TypeAlias = "str | float | datetime | None"

_PAGE_SIZE = 100
_READ_ONLY = frozenset({"formula", "rollup", "unique_id", "created_time", "last_edited_time", "created_by", "people"})


class Log:
    """One database with any columns. Names match in any case; values without a column are left out."""

    def __init__(self, gateway: Gateway, database: str) -> None:
        self._gateway, self._database = gateway, database
        self._source: str | None = None
        self._columns: dict[str, tuple[str, str]] | None = None

    @property
    def source(self) -> str:
        if self._source is None:
            self._source = self._gateway.source_of(self._database)
        return self._source

    @property
    def columns(self) -> Mapping[str, tuple[str, str]]:
        """Name and type of each column, by its name in lower case."""
        if self._columns is None:
            schema = self._gateway.schema(self.source)
            self._columns = {name.casefold(): (name, str(stated.get("type"))) for name, stated in schema.items()}
        return self._columns

    def require(self, columns: Mapping[str, Collection[str]]) -> None:
        """Raise Misconfigured unless the database has these columns, each with one of these types."""
        missing = [name for name in columns if name.casefold() not in self.columns]
        if missing:
            raise Misconfigured(
                f"The Notion database {self._database} is not this log: it has no column {', '.join(missing)}. "
                "Check the id; nothing was written."
            )
        wrong = [name for name, types in columns.items() if self.columns[name.casefold()][1] not in types]
        if wrong:
            kinds = ", ".join(f"'{name}' is a {self.columns[name.casefold()][1]}" for name in wrong)
            raise Misconfigured(f"The columns of the Notion database {self._database} do not fit this log: {kinds}.")

    def append(self, values: Mapping[str, Value]) -> None:
        """Add a row. A value for a column of another type is converted to that type."""
        row = {}
        for said, value in values.items():
            name, kind = self.columns.get(said.casefold(), ("", ""))
            if name and kind not in _READ_ONLY and value is not None:
                row[name] = encode(kind, _fitting(kind, value))
        self._gateway.create(self.source, row)

    def rows(self, limit: int) -> list[dict[str, str | float | None]]:
        """Return the newest rows, newest first."""
        found: list[Answer] = []
        body: dict[str, object] = {"sorts": [{"timestamp": "created_time", "direction": "descending"}]}
        while len(found) < limit:
            answer = self._gateway.query(self.source, {**body, "page_size": min(limit - len(found), _PAGE_SIZE)})
            found += answer.get("results") or []
            if not answer.get("has_more"):
                break
            body["start_cursor"] = answer.get("next_cursor")
        return [_row(page) for page in found[:limit]]

    def close(self) -> None:
        self._gateway.close()


def open_log(database: str) -> Log:
    """Open the log in the database with this id, with the environment's settings."""
    from dibs.stores.notion.connection import over_http, target_of

    target = target_of(database)
    return Log(over_http(target), target.database)


def _fitting(kind: str, value: Value) -> Value:
    if kind == "number":
        return _number(value)
    if kind == "date":
        return value if isinstance(value, datetime) else None
    return time_text(value) if isinstance(value, datetime) else value


def _number(value: Value) -> float | None:
    try:
        return value if isinstance(value, int | float) else float(str(value))
    except ValueError:
        return None


def _row(page: Answer) -> dict[str, str | float | None]:
    properties = page.get("properties")
    return {name: _said(value) for name, value in properties.items()} if isinstance(properties, dict) else {}


def _said(value: Mapping[str, object]) -> str | float | None:
    try:
        plain = decode(value)
    except Unreadable as error:
        return str(error)
    if isinstance(plain, datetime):
        return time_text(plain)
    return ", ".join(plain) if isinstance(plain, tuple) else plain
