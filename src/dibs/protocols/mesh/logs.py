"""The mesh's two logs: the Mesh Communication Log, and the Agent Task Log with the points.

In Notion each is a separate database; in other stores entries are events. An entry maps column names to values.
"""

from __future__ import annotations

import os
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from dibs.console.streams import complain
from dibs.core.errors import DibsError, InvalidInput, Misconfigured
from dibs.core.scores import AGENT, POINTS, SCORE, points
from dibs.core.times import time_text
from dibs.fleet.attempt import history
from dibs.protocols.mesh.policy import MESH, claimed_by, priority_of, timeout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.scores import Rating
    from dibs.core.task import Json, Task
    from dibs.desk import Desk

EVERY_ENTRY = 1 << 31
_MINUTE = len("2026-01-01T12:00")  # length of a time in text to the minute; Notion keeps no seconds

Entry: TypeAlias = "dict[str, str | float | datetime | None]"


class Book(Protocol):
    """A log."""

    def write(self, entry: Entry, task: str | None) -> None:
        """Add an entry, about a task or about none."""
        ...

    def read(self, limit: int) -> list[dict[str, Json]]:
        """Return the latest entries, newest first."""
        ...

    def check(self) -> None:
        """Raise if the log's database is another one."""
        ...


class EventBook:
    """Entries as events of the store, marked by the key `word` in their details.

    The event's verb is `word`, or the value of the column `named`; its time is read as the column `when`.
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

    def check(self) -> None:
        """Every store with events can keep the log."""

    def _entry(self, event: Event) -> dict[str, Json]:
        kept: Mapping[str, Json] = event.detail[self._word]  # type: ignore[assignment]  # as it was written
        first: dict[str, Json] = {self._named: event.verb} if self._named else {}
        return {**first, **kept, self._when: time_text(event.at)}


class NotionBook:
    """A log in its own Notion database."""

    def __init__(self, database: str, columns: Mapping[str, Collection[str]]) -> None:
        self._database, self._columns = database, columns

    def write(self, entry: Entry, task: str | None) -> None:  # noqa: ARG002 - the entry itself names the task
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

    def check(self) -> None:
        """Check the columns once per machine and cache the result."""
        from dibs.stores.notion.connection import address
        from dibs.stores.notion.database import Cache
        from dibs.stores.notion.logs import open_log

        cache, kind = Cache(address(), self._database), ",".join(self._columns)
        if cache.get("log", kind):
            return
        log = open_log(self._database)
        try:
            log.require(self._columns)
        finally:
            log.close()
        cache.put("log", kind, "fits")


_WORDS = ("rich_text", "select", "status", "title")
_MESSAGES: Mapping[str, Collection[str]] = {
    "Event": _WORDS,
    "Source Agent": _WORDS,
    "Status": _WORDS,
    "Resolution": _WORDS,
    "Timestamp": ("date",),
}
_SCORES: Mapping[str, Collection[str]] = {
    "Task": _WORDS,
    AGENT: _WORDS,
    POINTS: ("number",),
    "Confidence": ("number",),
    "Coherence": ("number",),
}


def check_logs(desk: Desk) -> None:
    """Refuse a wrong log id before the first write: that of another database, or of none.

    A log without an id, or one that does not answer, stops no agent: writing the entry reports the failure.
    """
    for name, book_of in LOGS.items():
        try:
            book_of(desk).check()
        except _NoLog:
            continue
        except (Misconfigured, InvalidInput) as error:
            raise Misconfigured(f"{name}: {error.message}") from None
        except DibsError:
            continue


class _NoLog(Misconfigured):
    """The environment names no database for this log."""


def communication_log(desk: Desk) -> Book:
    database = os.environ.get("MESH_COMM_LOG_DB_ID")
    return _book(
        desk, database, "MESH_COMM_LOG_DB_ID", _MESSAGES, EventBook(desk, "mesh", when="Timestamp", named="Event")
    )


def task_log(desk: Desk) -> Book:
    database = os.environ.get("MESH_TASK_LOG_DB_ID")
    return _book(desk, database, "MESH_TASK_LOG_DB_ID", _SCORES, EventBook(desk, SCORE, when="Completed At"))


LOGS: Mapping[str, Callable[[Desk], Book]] = {
    "Agent Task Log": task_log,
    "Mesh Communication Log": communication_log,
}


def _book(
    desk: Desk, database: str | None, variable: str, columns: Mapping[str, Collection[str]], events: EventBook
) -> Book:
    if desk.capabilities.history and not database:
        return events
    if not database:
        raise _NoLog(f"{variable} is not set: it is the id of the Notion database that the log is kept in.")
    return NotionBook(database, columns)


CLAIM_ATTEMPT = "claim_attempt"
CONFLICT = "conflict"


class State(StrEnum):
    """The status of a message."""

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
    """Return a message; `named` is the caller's name for a task that could not be read."""
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
    """Write an entry; if that fails, warn and go on."""
    try:
        communication_log(desk).write(entry, None if task is None else task.id)
    except DibsError as error:
        complain("dibs", f"not in the Mesh Communication Log: {entry['Event']} ({error.message})")


class Standing(NamedTuple):
    """An agent's scores so far."""

    agent: str
    tasks: int
    points: float
    confidence: float
    coherence: float


def scored(task: Task, rating: Rating | None, notes: str | None) -> Entry:
    priority = priority_of(task)
    return {
        "Task": task.title,
        "Task ID": task.id,
        "Attempt": task.attempt or None,
        AGENT: claimed_by(task),
        "Priority Score": priority,
        "Confidence": rating.confidence if rating else None,
        "Coherence": rating.coherence if rating else None,
        POINTS: points(priority, rating) if rating and rating.good else None,
        "Completed At": task.finished_at,
        "Status": MESH.say(task.status),
        "Notes": notes,
    }


def standings(entries: Iterable[Mapping[str, Json]]) -> list[Standing]:
    """Sum up scores per agent, the most points first; names match in any case.

    Each attempt counts once, by its first entry with points. `tasks` counts the attempts that earned points.
    """
    counted: dict[object, Mapping[str, Json]] = {}
    for entry in entries:
        key = attempt_of(entry) or (len(counted),)
        if key not in counted or counted[key].get(POINTS) is None:
            counted[key] = entry
    by_agent: dict[str, list[Mapping[str, Json]]] = {}
    for entry in counted.values():
        by_agent.setdefault(str(entry.get(AGENT) or "").casefold(), []).append(entry)
    found = [_standing(rows) for rows in by_agent.values()]
    return sorted(found, key=lambda one: (-one.points, one.agent))


def attempt_of(entry: Mapping[str, Json]) -> tuple[Json, ...]:
    """Return the key of an entry's attempt: the task with its attempt, or with its completion time."""
    task = entry.get("Task ID") or entry.get("Task")
    mark = entry.get("Attempt") or str(entry.get("Completed At") or "")[:_MINUTE]
    return (task, mark, str(entry.get(AGENT) or "").casefold()) if task and mark else ()


def earned_before(desk: Desk, task: Task) -> float | None:
    """Return the points already recorded for this attempt."""
    own = scored(task, None, None)
    known = {name: value if isinstance(value, str | int | float) else None for name, value in own.items()}
    if task.finished_at is not None:
        known["Completed At"] = time_text(task.finished_at)
    for entry in task_log(desk).read(EVERY_ENTRY):
        earned = entry.get(POINTS)
        ours = {name: value for name, value in known.items() if entry.get(name)}  # a log may lack some columns
        if isinstance(earned, int | float) and attempt_of(entry) == attempt_of(ours):
            return earned
    return None


def _standing(rows: list[Mapping[str, Json]]) -> Standing:
    earned = _numbers(rows, POINTS)
    return Standing(
        str(rows[-1].get(AGENT) or ""),
        len(earned),
        round(sum(earned), 6),
        _mean(_numbers(rows, "Confidence")),
        _mean(_numbers(rows, "Coherence")),
    )


def _numbers(rows: list[Mapping[str, Json]], column: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(column), int | float)]


def _mean(numbers: list[float]) -> float:
    return round(sum(numbers) / len(numbers), 1) if numbers else 0


def record_score(desk: Desk, task: Task, rating: Rating | None, notes: str | None) -> float | None:
    """Log a completion; return the points, or None without good scores or if the log cannot be written."""
    entry = scored(task, rating, notes)
    try:
        task_log(desk).write(entry, task.id)
    except DibsError as error:
        complain("dibs", f"not in the Agent Task Log: {task.id} ({error.message})")
        return None
    earned = entry[POINTS]
    return earned if isinstance(earned, float | int) else None
