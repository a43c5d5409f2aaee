"""The two logs of the mesh: the Mesh Communication Log, and the Agent Task Log with the points.

Each is a database of its own in Notion, and events of the store anywhere else. An entry is the same in both: columns by
their names.
"""

from __future__ import annotations

import os
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from dibs.console.streams import complain
from dibs.core.errors import DibsError, Misconfigured
from dibs.core.scores import AGENT, POINTS, SCORE, points
from dibs.core.times import time_text
from dibs.fleet.outcomes import history
from dibs.protocols.mesh.policy import MESH, claimed_by, priority_of, timeout_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.scores import Rating
    from dibs.core.task import Json, Task
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


CLAIM_ATTEMPT = "claim_attempt"
CONFLICT = "conflict"


class State(StrEnum):
    """How a message stands."""

    SENT = "Sent"
    RECEIVED = "Received"
    TIMEOUT = "Timeout"
    BLOCKED = "Blocked"
    RESOLVED = "Resolved"


def message(
    desk: Desk,
    event: str,
    source: str,
    state: State,
    *,
    target: str | None = None,
    task: Task | None = None,
    named: str | None = None,
    resolution: str | None = None,
    timeout: float | None = None,
) -> Entry:
    """`named` is the task where nobody could read it."""
    minutes = timeout_of(task) / timedelta(minutes=1) if task is not None and timeout is None else timeout
    return {
        "Event": event,
        "Source Agent": source,
        "Target Agent": target,
        "Status": str(state),
        "Timeout (min)": minutes,
        "Blocked Task": task.id if task is not None else named,
        "Resolution": resolution,
        "Timestamp": desk.now(),
        "Retry Count": task.attempt if task is not None else None,
    }


def try_to_log(desk: Desk, entry: Entry, task: Task | None) -> None:
    """A log that cannot be written is no reason not to work, but one to speak of."""
    try:
        communication_log(desk).write(entry, None if task is None else task.id)
    except DibsError as error:
        complain("dibs", f"not in the Mesh Communication Log: {entry['Event']} ({error.message})")


class Standing(NamedTuple):
    """What an agent has earned so far."""

    agent: str
    tasks: int
    points: float
    confidence: float
    coherence: float


def scored(task: Task, rating: Rating, notes: str | None) -> Entry:
    priority = priority_of(task)
    return {
        "Task": task.title,
        AGENT: claimed_by(task),
        "Priority Score": priority,
        "Confidence": rating.confidence,
        "Coherence": rating.coherence,
        POINTS: points(priority, rating),
        "Completed At": task.finished_at,
        "Status": MESH.say(task.status),
        "Notes": notes,
    }


def standings(entries: Iterable[Mapping[str, Json]]) -> list[Standing]:
    """Each agent's, the one with the most points first. Names are the same in any case."""
    by_agent: dict[str, list[Mapping[str, Json]]] = {}
    for entry in entries:
        by_agent.setdefault(str(entry.get(AGENT) or "").casefold(), []).append(entry)
    found = [_standing(rows) for rows in by_agent.values()]
    return sorted(found, key=lambda one: (-one.points, one.agent))


def _standing(rows: list[Mapping[str, Json]]) -> Standing:
    return Standing(
        str(rows[-1].get(AGENT) or ""),
        len(rows),
        round(sum(_numbers(rows, POINTS)), 6),
        _mean(_numbers(rows, "Confidence")),
        _mean(_numbers(rows, "Coherence")),
    )


def _numbers(rows: list[Mapping[str, Json]], column: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(column), int | float)]


def _mean(numbers: list[float]) -> float:
    return round(sum(numbers) / len(numbers), 1) if numbers else 0


def record_score(desk: Desk, task: Task, rating: Rating, notes: str | None) -> float | None:
    """What was earned, or None where nothing was written: the work is done either way, and that stands."""
    if not rating.good:
        return None
    entry = scored(task, rating, notes)
    try:
        task_log(desk).write(entry, task.id)
    except DibsError as error:
        complain("dibs", f"not in the Agent Task Log: {task.id} ({error.message})")
        return None
    earned = entry[POINTS]
    return earned if isinstance(earned, float | int) else None
