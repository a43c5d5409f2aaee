"""The store's statements by name, and a transaction that runs them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from dibs.stores.postgres.rows import (
    ABLE,
    BEYOND,
    EVENT_COLUMNS,
    FITS,
    MATCHES,
    MOVING_COLUMNS,
    NEW_COLUMNS,
    ORDER,
    RECORDED_COLUMNS,
    STATED_COLUMNS,
    TASK_COLUMNS,
    event_values,
)
from dibs.stores.sql import Queries


def _listed(columns: str, form: str) -> str:
    return ", ".join(form.format(column) for column in columns.split(", "))


_LISTS = {
    "{task}": _listed(TASK_COLUMNS, "task.{}"),
    "{event}": _listed(EVENT_COLUMNS, "event.{}"),
    "{moving}": MOVING_COLUMNS,
    "{moving?}": _listed(MOVING_COLUMNS, "%s"),
    "{stated}": STATED_COLUMNS,
    "{stated?}": _listed(STATED_COLUMNS, "%s"),
    "{recorded}": RECORDED_COLUMNS,
    "{recorded?}": _listed(RECORDED_COLUMNS, "%s"),
    "{new}": NEW_COLUMNS,
    "{fits}": FITS,
    "{matches}": MATCHES,
    "{able}": ABLE,
    "{order}": ORDER,
    "{beyond}": BEYOND,
}

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"), _LISTS)

_EXECUTE: dict[str, str] = {}
_NUMBERED = re.compile(r"\$(\d+)")


def in_store(text: str, store: str) -> str:
    """Bind a statement, with or without BEGIN, to the store with this id; another store refuses it.

    It names the function that goes by the id. Nothing asks for what that returns, so it is in no plan.
    """
    begin, separator, rest = _beginning(text)
    own = f"this_store AS (SELECT store_{store}())"
    for word in ("WITH RECURSIVE ", "WITH "):
        if rest.startswith(word):
            return f"{begin}{separator}{word}{own}, {rest.removeprefix(word)}"
    return f"{begin}{separator}WITH {own} {rest}"


def prepare(name: str, store: str) -> str:
    return f"PREPARE {name} AS {in_store(QUERIES[name], store)}"


def execute(name: str, number: int) -> str:
    """The cached text that calls a prepared statement."""
    text = _EXECUTE.get(name)
    if text is None:
        text = _EXECUTE[name] = f"EXECUTE {name} ({', '.join(['%s'] * number)})"
    return text


def unprepared(name: str, parameters: Sequence[object]) -> tuple[str, dict[str, object]]:
    """The unprepared statement with named parameters, for poolers."""
    return _NUMBERED.sub(r"%(\1)s", QUERIES[name]), {str(n): value for n, value in enumerate(parameters, 1)}


def entered(text: str, enter: str) -> str:
    """A statement after one that configures its session, in the same transaction."""
    begin, separator, rest = _beginning(text)
    return f"{begin}{separator}{enter}; {rest}"


def _beginning(text: str) -> tuple[str, str, str]:
    return text.partition("; ") if text.startswith("BEGIN") else ("", "", text)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row

    Parameters = Sequence[object] | Mapping[str, object]

_FETCHED = 2000


class Transaction:
    """Queries by name, at one time, with their events."""

    def __init__(self, database: Database, now: datetime) -> None:
        self._database = database
        self.now = now

    def all(self, name: str, parameters: Parameters = ()) -> list[Row]:
        return self._database.run(QUERIES[name], parameters).fetchall()

    def one(self, name: str, parameters: Parameters = ()) -> Row | None:
        return self._database.run(QUERIES[name], parameters).fetchone()

    def value(self, name: str, parameters: Parameters = ()) -> Any:
        row = self.one(name, parameters)
        return None if row is None else row[0]

    def run(self, name: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows."""
        return self._database.run(QUERIES[name], parameters).rowcount

    def call(self, name: str, parameters: Sequence[object]) -> list[Row]:
        """A prepared call, as part of the transaction."""
        return self._database.call_within(name, parameters)

    def copy(self, name: str, lines: Iterable[str]) -> None:
        """Insert many rows by COPY."""
        self._database.copy(QUERIES[name], lines)

    def iterate(self, name: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Fetch many rows in portions."""
        self._database.run(f"DECLARE many NO SCROLL CURSOR FOR {QUERIES[name]}", parameters)
        while rows := self._database.run(f"FETCH {_FETCHED} FROM many").fetchall():
            yield from rows
        self._database.run("CLOSE many")

    def lock_scope(self, scope: str) -> None:
        """Exclude other writers of links and plans. A separate statement, so that later ones see their commits."""
        self.one("lock_scope", (scope,))

    def record(self, event: Event) -> None:
        """Add an event for a task whose row is not written otherwise."""
        values = event_values(event)
        self.run(
            "record" if event.task else "record_alone", (*values, event.scope, event.task) if event.task else values
        )

    def hint(self) -> None:
        """Notify listeners after the commit."""
        self._database.hint_due = True
