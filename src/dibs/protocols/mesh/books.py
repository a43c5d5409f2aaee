"""The two logs of the mesh: databases of their own in Notion, events of the store anywhere else.

An entry is the same in both: columns by their names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dibs.core.errors import Misconfigured
from dibs.core.scores import SCORE
from dibs.core.times import time_text
from dibs.fleet.outcomes import history

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.task import Json
    from dibs.desk import Desk

Entry: TypeAlias = "dict[str, str | float | datetime | None]"


class Book(Protocol):
    """A log."""

    def write(self, entry: Entry, task: str | None) -> None:
        """Add an entry, about a task or about none."""
        ...

    def read(self, limit: int) -> list[dict[str, Json]]:
        """The latest entries, the newest first."""
        ...


class EventBook:
    """Entries as events of the store, whose time is the store's: `word` is what tells them from others.

    An event is called `word`, or what the column `named` says; `when` is the column that its time is read as.
    """

    def __init__(self, desk: Desk, word: str, *, when: str, named: str | None = None) -> None:
        self._desk = desk
        self._word = word
        self._when = when
        self._named = named

    def write(self, entry: Entry, task: str | None) -> None:
        kept: dict[str, Json] = {name: value for name, value in entry.items() if isinstance(value, str | int | float)}
        verb = str(kept.pop(self._named)) if self._named else self._word
        self._desk.record(verb, ref=task, detail={self._word: kept})

    def read(self, limit: int) -> list[dict[str, Json]]:
        found = [self._entry(event) for event in history(self._desk) if self._word in event.detail]
        return found[::-1][:limit]

    def _entry(self, event: Event) -> dict[str, Json]:
        kept: Mapping[str, Json] = event.detail[self._word]  # type: ignore[assignment]  # as it was written
        first: dict[str, Json] = {self._named: event.verb} if self._named else {}
        return {**first, **kept, self._when: time_text(event.at)}


class NotionBook:
    """A database of its own, found by its id."""

    def __init__(self, database: str) -> None:
        self._database = database

    def write(self, entry: Entry, task: str | None) -> None:  # noqa: ARG002 - the entry names the task itself
        from dibs.stores.notion.logs import open_log

        log = open_log(self._database)
        try:
            log.append(entry)
        finally:
            log.close()

    def read(self, limit: int) -> list[dict[str, Json]]:
        from dibs.stores.notion.logs import open_log

        log = open_log(self._database)
        try:
            return [dict(row) for row in log.rows(limit)]
        finally:
            log.close()


def communication_log(desk: Desk) -> Book:
    database = os.environ.get("MESH_COMM_LOG_DB_ID")
    return _book(desk, database, "MESH_COMM_LOG_DB_ID", EventBook(desk, "mesh", when="Timestamp", named="Event"))


def task_log(desk: Desk) -> Book:
    database = os.environ.get("MESH_TASK_LOG_DB_ID")
    return _book(desk, database, "MESH_TASK_LOG_DB_ID", EventBook(desk, SCORE, when="Completed At"))


def _book(desk: Desk, database: str | None, variable: str, events: EventBook) -> Book:
    if desk.capabilities.history and not database:
        return events
    if not database:
        raise Misconfigured(f"{variable} is not set: it is the id of the Notion database that the log is kept in.")
    return NotionBook(database)
