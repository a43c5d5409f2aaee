"""Rows to tasks and back: how SQLite holds each kind of value, and the columns that follow from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.events import Event, Outcome
from dibs.core.fields import EVERY, FILTERS, LISTS, Kind
from dibs.core.task import Holder, Input, Status, Task
from dibs.stores.sql import Codec, TaskColumns, corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.core.fields import Filter
    from dibs.core.settings import Setting
    from dibs.core.task import Json, OrderKey

Row: TypeAlias = "tuple[Any, ...]"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_STATUS: Mapping[str, Status] = {status.value: status for status in Status}

# The order of `dibs.core.task`, the condition for later places in it, and the other conditions of a listing.
ORDER = "task.class_rank, task.override_rank, task.priority, task.queued_at, task.id, task.scope"
BEYOND = f"({ORDER}) > (:class_rank, :override_rank, :priority, :queued_at, :id, :in_scope)"
FITS = """(:agent IS NULL OR (task.holder IS NOT NULL AND task.agent = :agent))
  AND (:assigned_to IS NULL OR task.assigned_to = :assigned_to)
  AND (:parent IS NULL OR task.parent = :parent)
  AND (:text IS NULL OR instr(lower(task.title), lower(:text)) OR instr(lower(task.description), lower(:text)))"""


def matches(only: str) -> str:
    """Whether a task matches a filter; `only` is the parameter that holds it as JSON, and may be NULL."""
    conditions = [
        f"NOT EXISTS (SELECT 1 FROM json_each({only}, '$.{field.name}') AS wanted"  # noqa: S608 - our own names
        f" WHERE wanted.value NOT IN (SELECT value FROM json_each(task.{field.name})))"
        if field.kind in LISTS
        else f"coalesce(task.{field.name} = json_extract({only}, '$.{field.name}'),"
        f" json_extract({only}, '$.{field.name}') IS NULL)"
        for field in FILTERS
    ]
    return f"({only} IS NULL OR {' AND '.join(conditions)})"


def filter_json(only: Filter) -> str | None:
    return None if only is EVERY else to_json(only.given())


_BEFORE_ALL = (0, 0, float("-inf"), 0, "", "")
_PLACE = ("class_rank", "override_rank", "priority", "queued_at", "id", "in_scope")

EVENT_COLUMNS = (
    "event.seq, event.at, event.scope, event.task, event.verb, event.outcome, event.agent, event.run, event.attempt, "
    "event.source, event.target, event.reason, event.detail"
)


def to_micros(moment: datetime) -> int:
    since = moment - _EPOCH  # by its parts: to divide it takes twice as long
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(64)  # a task's times are often one moment, and making one takes a while
def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(0, 0, micros)


def micros_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def moment_or_none(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def to_json(value: Json) -> str:
    import json  # a cold claim of a plain task needs none

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_or_none(value: Json) -> str | None:
    return None if value is None else to_json(value)


def _from_json(text: str) -> Any:
    import json

    return json.loads(text)


def _tuple(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(_from_json(text))


def _object(text: str) -> Mapping[str, Json]:
    read: dict[str, Json] = {} if text == "{}" else _from_json(text)
    return read


def task_from(row: Row) -> Task:
    """Read TASK_COLUMNS. A query may ask for more along with them."""
    try:
        return _COLUMNS.task(row)
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise corrupt("task", f"{row[_SCOPE]}/{row[ID]}") from error


_LIST: Codec = (_tuple, to_json)
_COLUMNS = TaskColumns(
    {
        **dict.fromkeys(LISTS, _LIST),
        Kind.TIME: (from_micros, to_micros),
        Kind.JSON: (_from_json, to_json),
        Kind.OBJECT: (_object, to_json),
    }
)
TASK_COLUMNS = ", ".join(_COLUMNS.names)
STATED_COLUMNS = ", ".join(_COLUMNS.stated)  # what an author or an edit states
KEY, LAST_EVENT = _COLUMNS.KEY, _COLUMNS.LAST_EVENT
ID, _SCOPE = _COLUMNS.place("id"), _COLUMNS.place("scope")
stated_values = _COLUMNS.stated_values


# What a move or a claim may change. No column of the claim order is among them, so that index moves only when it must.
MOVING_COLUMNS = (
    "status, reason, paused_from, reason_before, updated_at, started_at, finished_at, finished_by, not_before, "
    "retries, attempt, ended, token, agent, run, holder, claimed_at, expires_at, result, artifacts, unblock_action, "
    "next_check_at, merged_into, opens_at, aside"
)


def moving_values(task: Task, now: datetime, micros: int) -> Row:
    """Write MOVING_COLUMNS. `micros` is `now`, converted once."""
    lease = task.lease
    held = (
        (task.spent_token, None, None, None, None, None)
        if lease is None
        else (
            lease.token,
            lease.agent,
            lease.run,
            str(lease.holder),
            micros if lease.claimed_at is now else to_micros(lease.claimed_at),
            micros_or_none(lease.expires_at),
        )
    )
    return (
        str(task.status), task.reason, _word(task.paused_from), task.reason_before,
        micros if task.updated_at is now else to_micros(task.updated_at),
        micros if task.started_at is now else micros_or_none(task.started_at),
        micros if task.finished_at is now else micros_or_none(task.finished_at), task.finished_by,
        micros_or_none(task.not_before), task.retries, task.attempt, task.ended, *held,
        json_or_none(task.result), to_json(task.artifacts) if task.artifacts else "[]", task.unblock_action,
        micros_or_none(task.next_check_at), task.merged_into, *schedule_of(task, now),
    )  # fmt: skip


OPEN = (
    2**63 - 1
)  # the `opens_at` of what a claim may take right now: after all times, so that it comes last in the index


def schedule_of(task: Task, now: datetime) -> tuple[int | None, str | None]:
    """The derived columns `opens_at` (of tasks in the queue) and `aside` (of tasks outside it)."""
    status = task.status
    if status is Status.ACTIVE:
        lease = task.lease
        if lease is not None and lease.holder is Holder.AGENT and lease.expires_at is not None:
            # Even if this is past: only the wake-up checks whether the task has a retry left.
            return to_micros(lease.expires_at), None
        return None, "active"
    if status is Status.READY:
        if task.not_before is not None and task.not_before > now:
            return to_micros(task.not_before), None
        return (OPEN, None) if task.blockers == 0 else (None, status.value)
    return None, None if status is Status.DONE else status.value


def place_values(place: OrderKey | None) -> dict[str, object]:
    """The parameters of BEYOND."""
    if place is None:
        return dict(zip(_PLACE, _BEFORE_ALL, strict=True))
    rank, behind, priority, queued_at, task, scope = place
    return dict(zip(_PLACE, (rank, int(behind), float(priority), to_micros(queued_at), task, scope), strict=True))


# What ORDER orders by, of a row of TASK_COLUMNS.
place_of: Callable[[Row], Row] = itemgetter(
    *(_COLUMNS.place(column.removeprefix("task.")) for column in ORDER.split(", "))
)


def input_from(row: Row) -> Input:
    id_, title, result, artifacts = row
    return Input(id_, title, None if result is None else _from_json(result), _tuple(artifacts))


def setting_from(row: Row) -> Setting:
    from dibs.core.settings import Setting

    name, value = row
    try:
        return Setting(name, _from_json(value))
    except ValueError as error:
        raise corrupt("setting", name) from error


def event_from(row: Row) -> Event:
    """Read EVENT_COLUMNS."""
    try:
        return _event_from(row)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise corrupt("event", str(row[0])) from error


def _event_from(row: Row) -> Event:
    seq, at, scope, task, verb, outcome, agent, run, attempt, source, target, reason, detail = row
    return Event(
        at=from_micros(at),
        scope=scope,
        task=task,
        verb=verb,
        outcome=Outcome(outcome),
        agent=agent,
        run=run,
        attempt=attempt,
        source=None if source is None else _STATUS[source],
        target=None if target is None else _STATUS[target],
        reason=reason,
        detail=_object(detail),
        seq=seq,
    )


def event_values(event: Event, now: datetime, micros: int) -> Row:
    """The columns of an event without its seq, for `insert_event`. `micros` is the same moment as `now`."""
    return (
        micros if event.at is now else to_micros(event.at), event.scope, event.task, str(event.verb),
        str(event.outcome), event.agent, event.run, event.attempt, _word(event.source), _word(event.target),
        event.reason, to_json(event.detail) if event.detail else "{}",
    )  # fmt: skip


def _word(value: str | None) -> str | None:
    """An enum's member as a plain string: the driver takes ten times as long to find out what a subclass is."""
    return None if value is None else str(value)
