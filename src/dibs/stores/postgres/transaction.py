"""The statements of the store by name, and what happens inside one transaction."""

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


def prepare(name: str) -> str:
    return f"PREPARE {name} AS {QUERIES[name]}"


def execute(name: str, number: int) -> str:
    """The call of a prepared statement with so many parameters. The text is the same every time, so it is kept."""
    text = _EXECUTE.get(name)
    if text is None:
        text = _EXECUTE[name] = f"EXECUTE {name} ({', '.join(['%s'] * number)})"
    return text


def unprepared(name: str, parameters: Sequence[object]) -> tuple[str, dict[str, object]]:
    """The same call where nothing can be prepared, as text and named parameters."""
    return _NUMBERED.sub(r"%(\1)s", QUERIES[name]), {str(n): value for n, value in enumerate(parameters, 1)}


def entered(text: str, enter: str) -> str:
    """A statement that prepares its session first, within the transaction that it may begin."""
    begin, separator, rest = text.partition("; ") if text.startswith("BEGIN") else ("", "", text)
    return f"{begin}{separator}{enter}; {rest}"


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row

    Parameters = Sequence[object] | Mapping[str, object]

_FETCHED = 2000


class Transaction:
    """One consistent moment: queries by name, at one time, with the events they cause."""

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
        """For what it does; how many rows it touched."""
        return self._database.run(QUERIES[name], parameters).rowcount

    def call(self, name: str, parameters: Sequence[object]) -> list[Row]:
        """A prepared call, as part of the transaction."""
        return self._database.call_within(name, parameters)

    def copy(self, name: str, lines: Iterable[str]) -> None:
        """Many rows at once, as COPY's text."""
        self._database.copy(QUERIES[name], lines)

    def iterate(self, name: str) -> Iterator[Row]:
        """Many rows, a good number at a time."""
        self._database.run(f"DECLARE many NO SCROLL CURSOR FOR {QUERIES[name]}")
        while rows := self._database.run(f"FETCH {_FETCHED} FROM many").fetchall():
            yield from rows
        self._database.run("CLOSE many")

    def lock_scope(self, scope: str) -> None:
        """Alone in the scope among those who change how its tasks hang together. A statement of its own: what follows
        must see what was committed while this one waited."""
        self.one("lock_scope", (scope,))

    def record(self, event: Event) -> None:
        """Add an event about a task whose row is not being written otherwise."""
        values = event_values(event)
        self.run(
            "record" if event.task else "record_alone", (*values, event.scope, event.task) if event.task else values
        )

    def hint(self) -> None:
        """Something may have become claimable: who waits is told after the commit."""
        self._database.hint_due = True
