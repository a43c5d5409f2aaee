"""Rows to tasks and back: how PostgreSQL holds each kind of value, and the fast forms of many values at once."""

from __future__ import annotations

import json  # the driver has loaded it already
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.core.events import Event, Outcome
from dibs.core.fields import BY_NAME, EVERY, LISTS, STATED, names_of
from dibs.core.fleet import Agent, AgentStatus
from dibs.core.settings import Setting
from dibs.core.task import CLASS_RANK, Claimed, Holder, Input, Lease, ServiceClass, Status, Task
from dibs.stores.sql import corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.core.fields import Filter
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json, OrderKey

Row: TypeAlias = "tuple[Any, ...]"

_STATUS: Mapping[str, Status] = {status.value: status for status in Status}

# The order of `dibs.core.task`, the condition for later places in it, and the other conditions of a listing.
ORDER = "task.class_rank, task.override_rank, task.priority, task.queued_at, task.id, task.scope"
BEYOND = (
    f"({ORDER}) > (%(class_rank)s, %(override_rank)s, %(priority)s::float8, %(queued_at)s::timestamptz, %(id)s::text, "
    "%(in_scope)s::text)"
)
FITS = """(%(agent)s IS NULL OR (task.holder IS NOT NULL AND task.agent = %(agent)s))
  AND (%(assigned_to)s IS NULL OR task.assigned_to = %(assigned_to)s)
  AND (%(spec_ref)s IS NULL OR task.spec_ref = %(spec_ref)s)
  AND (%(parent)s IS NULL OR task.parent = %(parent)s)
  AND (%(text)s IS NULL OR position(lower(%(text)s COLLATE "C") IN lower((task.doc ->> 'title') COLLATE "C")) > 0
       OR position(lower(%(text)s COLLATE "C") IN lower((task.doc ->> 'description') COLLATE "C")) > 0)
  AND {matches}"""
# Whether it matches a filter; NULL: every task does.
MATCHES = "(%(only)s::jsonb IS NULL OR matches(task, %(only)s::jsonb))"
# Whether the one who looks can do what it takes; NULL: that does not matter.
ABLE = "(%(can)s::text[] IS NULL OR task.requires IS NULL OR task.requires <@ %(can)s::text[])"
_PLACE = ("class_rank", "override_rank", "priority", "queued_at", "id", "in_scope")
_BEFORE_ALL = (0, 0, float("-inf"), "-infinity", "", "")

EVENT_COLUMNS = "seq, at, scope, task, verb, outcome, agent, run, attempt, source, target, reason, detail"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(value: Json) -> str:
    return _encode(value)


def json_or_none(value: Json) -> str | None:
    return None if value is None else to_json(value)


def from_json(text: str | None) -> Any:
    """What a column of JSON holds, or None."""
    if text is None:
        return None
    return {} if text == "{}" else json.loads(text)


def setting_from(row: Row) -> Setting:
    name, value = row
    return Setting(name, from_json(value))


# The fields that a task's author sets, as one JSON object without those that have their defaults.
_BLANK: Mapping[str, Any] = Task._field_defaults
_SAID = [
    (field.name, Task._fields.index(field.name), _BLANK.get(field.name))
    for field in (*STATED, BY_NAME["origin"])
    if field.name not in {"not_before", "priority"}
]
_SAID_LISTS = tuple(name for name in names_of(LISTS) if name != "artifacts")
_BLANK_PRIORITY = _BLANK["priority"]


def doc_of(task: Task) -> str:
    said: dict[str, Any] = {name: value for name, place, blank in _SAID if (value := task[place]) != blank}
    priority = _number(task.priority)
    if priority != _BLANK_PRIORITY:
        said["priority"] = priority
    said["created_at"] = task.created_at.isoformat()
    return to_json(said)


def _number(value: float) -> float:
    """As a column would keep it: in double precision, and whole where it can be."""
    value = float(value)
    return int(value) if value.is_integer() else value


def _said(doc: str) -> dict[str, Any]:
    """The fields that `doc_of` wrote."""
    said: dict[str, Any] = json.loads(doc)
    said["created_at"] = datetime.fromisoformat(said["created_at"])
    for name in _SAID_LISTS:
        if name in said:
            said[name] = tuple(said[name])
    if "service_class" in said:
        said["service_class"] = ServiceClass(said["service_class"])
    return said


# The columns of a task in most queries. A query may add others after them.
TASK_COLUMNS = (
    "key, last_event, scope, id, doc, queued_at, updated_at, status, reason, paused_from, reason_before, started_at, "
    "finished_at, finished_by, not_before, retries, attempt, blockers, ended, result, artifacts, unblock_action, "
    "next_check_at, merged_into, token, holder, agent, run, claimed_at, expires_at"
)
KEY, LAST_EVENT, _SCOPE, ID = range(4)
_WIDTH = len(TASK_COLUMNS.split(", "))


def task_from(row: Row) -> Task:
    """Read TASK_COLUMNS. A query may ask for more along with them."""
    try:
        return _task(row[:_WIDTH])
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise corrupt("task", f"{row[_SCOPE]}/{row[ID]}") from error


def _task(row: Row) -> Task:
    (
        _, _, scope, id_, doc, queued_at, updated_at, status, reason, paused_from, reason_before, started_at,
        finished_at, finished_by, not_before, retries, attempt, blockers, ended, result, artifacts, unblock_action,
        next_check_at, merged_into, token, holder, agent, run, claimed_at, expires_at,
    ) = row  # fmt: skip
    lease = None
    if holder is not None:
        lease = Lease(token, attempt, agent, run, Holder(holder), claimed_at, expires_at)
    return Task(
        scope=scope, id=id_, queued_at=queued_at, updated_at=updated_at, status=_STATUS[status], reason=reason,
        paused_from=paused_from and _STATUS[paused_from], reason_before=reason_before, started_at=started_at,
        finished_at=finished_at, finished_by=finished_by, not_before=not_before, retries=retries, attempt=attempt,
        blockers=blockers, ended=ended, result=from_json(result), artifacts=tuple(artifacts or ()),
        unblock_action=unblock_action, next_check_at=next_check_at, merged_into=merged_into, lease=lease,
        spent_token=token if lease is None else None, **_said(doc),
    )  # fmt: skip


def head_from(row: Row, request: ClaimRequest) -> Claimed:
    """Read what `claim_head` returns. Scope, agent, run and token are those of the request."""
    id_, attempt, retries, queued_at, moment, doc, result, artifacts, inputs = row
    scope, agent = request.scope or "", request.agent
    lease = Lease(request.tokens[0], attempt, agent, request.run, Holder.AGENT, moment, moment + request.lease)
    said = _said(doc)
    if result is not None or artifacts is not None:
        said |= _left(result, artifacts)
    task = Task(
        scope=scope, id=id_, queued_at=queued_at, updated_at=moment, status=Status.ACTIVE, started_at=moment,
        attempt=attempt, retries=retries, lease=lease, **said,
    )  # fmt: skip
    return Claimed(task, inputs_from(inputs) if inputs else ())


def plain_finish_from(row: Row, scope: str, id_: str, token: str) -> Task:
    """Read what `finish` returns."""
    attempt, retries, queued_at, moment, started_at, agent, doc, result, artifacts, _ = row
    said = _said(doc)
    if result is not None or artifacts is not None:
        said |= _left(result, artifacts)
    return Task(
        scope=scope, id=id_, queued_at=queued_at, updated_at=moment, status=Status.DONE, started_at=started_at,
        attempt=attempt, retries=retries, finished_at=moment, finished_by=agent, ended="done", spent_token=token,
        **said,
    )  # fmt: skip


def _left(result: str | None, artifacts: list[str] | None) -> dict[str, Any]:
    return {"result": from_json(result), "artifacts": tuple(artifacts or ())}


# The columns of the type `answer`: what the functions that claim and finish return.
ANSWER_ID, ANSWER_OUTCOME = 1, 10


def claimed_from(row: Row, request: ClaimRequest, token: str) -> Claimed:
    """Read an answer to a claim. What the request says of the lease is not sent back."""
    scope, id_, attempt, retries, queued_at, moment, _, agent, doc, rare, inputs = row
    expires_at = None if request.holder is Holder.HUMAN else moment + request.lease
    lease = Lease(token, attempt, agent, request.run, request.holder, moment, expires_at)
    task = Task(
        scope=scope, id=id_, queued_at=queued_at, updated_at=moment, status=Status.ACTIVE, started_at=moment,
        attempt=attempt, retries=retries, lease=lease, **_said(doc), **_rare(rare),
    )  # fmt: skip
    return Claimed(task, inputs_from(inputs))


def finished_from(row: Row, token: str) -> Task:
    """Read an answer to a finish under this token."""
    scope, id_, attempt, retries, queued_at, moment, started_at, agent, doc, rare, _ = row
    return Task(
        scope=scope, id=id_, queued_at=queued_at, updated_at=moment, status=Status.DONE, started_at=started_at,
        attempt=attempt, retries=retries, finished_at=moment, finished_by=agent, ended="done", spent_token=token,
        **_said(doc), **_rare(rare),
    )  # fmt: skip


def _rare(text: str | None) -> dict[str, Any]:
    """Read what the function `rare` answers."""
    if text is None:
        return {}
    result, artifacts, not_before, paused_from, blockers = json.loads(text)
    return {
        "result": result,
        "artifacts": tuple(artifacts or ()),
        "not_before": not_before and datetime.fromisoformat(not_before),
        "paused_from": paused_from and _STATUS[paused_from],
        "blockers": blockers,
    }


# What an author or an edit states, and what the database needs of it beside `doc`.
STATED_COLUMNS = (
    "doc, queued_at, priority, class_rank, override_rank, category, labels, spec_ref, parent, requires, assigned_to, "
    "max_retries"
)


def stated_values(task: Task) -> Row:
    """Write STATED_COLUMNS."""
    return (
        doc_of(task), task.queued_at, float(task.priority), CLASS_RANK[task.service_class], 0 if task.override else 1,
        task.category, list(task.labels) or None, task.spec_ref, task.parent, list(task.requires) or None,
        task.assigned_to, task.max_retries,
    )  # fmt: skip


def filter_json(only: Filter) -> str | None:
    return None if only is EVERY else to_json(only.given())


def place_values(place: OrderKey | None) -> dict[str, object]:
    """The parameters of BEYOND."""
    if place is None:
        return dict(zip(_PLACE, _BEFORE_ALL, strict=True))
    rank, behind, priority, queued_at, task, scope = place
    return dict(zip(_PLACE, (rank, int(behind), priority, queued_at, task, scope), strict=True))


# What a move or a claim may change. No column of the claim order is among them, so that index moves only when it must.
MOVING_COLUMNS = (
    "status, reason, paused_from, reason_before, updated_at, started_at, finished_at, finished_by, not_before, "
    "retries, attempt, ended, token, agent, run, holder, claimed_at, expires_at, result, artifacts, unblock_action, "
    "next_check_at, merged_into, claimable, wake_at"
)


def moving_values(task: Task, now: datetime) -> Row:
    """Write MOVING_COLUMNS."""
    lease = task.lease
    return (
        str(task.status), task.reason, word(task.paused_from), task.reason_before, task.updated_at, task.started_at,
        task.finished_at, task.finished_by, task.not_before, task.retries, task.attempt, word(task.ended),
        lease.token if lease else task.spent_token,
        lease.agent if lease else None,
        lease.run if lease else None,
        word(lease.holder) if lease else None,
        lease.claimed_at if lease else None,
        lease.expires_at if lease else None,
        json_or_none(task.result), list(task.artifacts) or None,
        task.unblock_action, task.next_check_at, task.merged_into,
        *schedule_of(task, now),
    )  # fmt: skip


# A task as it comes into the table.
NEW_COLUMNS = (
    f"key, scope, id, created_at, {STATED_COLUMNS}, {MOVING_COLUMNS}, blockers, last_event, plan_digest, "
    "has_prerequisites, has_dependents, has_children"
)


class Flags(NamedTuple):
    """Whether a task has links or children; a claim or finish looks for them only then."""

    prerequisites: bool = False
    dependents: bool = False
    children: bool = False


def new_values(
    key: int, task: Task, now: datetime, last_event: int | None, plan_digest: int | None, flags: Flags
) -> Row:
    """Write NEW_COLUMNS."""
    birth = (key, task.scope, task.id, task.created_at)
    derived = (task.blockers, last_event, plan_digest, *flags)
    return (*birth, *stated_values(task), *moving_values(task, now), *derived)


def schedule_of(task: Task, now: datetime) -> tuple[bool, datetime | None]:
    """The derived columns `claimable` and `wake_at`, which the claim and watch indexes contain."""
    wake_at = None
    open_to_all = task.status is Status.READY
    if open_to_all and task.not_before is not None and task.not_before > now:
        wake_at = task.not_before
    elif task.lease is not None and task.lease.holder is Holder.AGENT:
        # Even if this is past: only the wake-up checks whether the task has a retry left.
        open_to_all, wake_at = True, task.lease.expires_at
    return open_to_all and wake_at is None and task.blockers == 0, wake_at


def inputs_from(text: str | None) -> tuple[Input, ...]:
    """Read what the function `inputs` answers."""
    given = from_json(text) or ()
    return tuple(Input(id_, title, result, tuple(artifacts or ())) for id_, title, result, artifacts in given)


def event_from(row: Row) -> Event:
    """Read EVENT_COLUMNS."""
    seq, at, scope, task, verb, outcome, agent, run, attempt, source, target, reason, detail = row
    try:
        return Event(
            at, scope, task, verb, Outcome(outcome), agent, run, attempt,
            None if source is None else _STATUS[source],
            None if target is None else _STATUS[target],
            reason, from_json(detail) or {}, seq,
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise corrupt("event", str(seq)) from error


# The columns of a new event, without its number, which the table assigns.
RECORDED_COLUMNS = "at, scope, task, verb, outcome, agent, run, attempt, source, target, reason, detail"


def event_values(event: Event) -> Row:
    """Write RECORDED_COLUMNS."""
    return (
        event.at, event.scope, event.task, str(event.verb), str(event.outcome), event.agent, event.run, event.attempt,
        word(event.source), word(event.target), event.reason, to_json(event.detail) if event.detail else None,
    )  # fmt: skip


def agent_from(row: Row) -> Agent:
    id_, host, pid, started_at, status, ended_at = row
    try:
        return Agent(id_, host, pid, started_at, AgentStatus(status), ended_at)
    except ValueError as error:
        raise corrupt("agent", id_) from error


def word(value: str | None) -> str | None:
    """An enum's member as a plain string, which is what the driver knows."""
    return None if value is None else str(value)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def array(values: Iterable[object]) -> str:
    """`{1,2,NULL}`: parsed in one go, where `ARRAY[1, 2, NULL]` would be an expression per value."""
    return "{" + ",".join(["NULL" if value is None else _element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def copy_line(values: Iterable[object]) -> str:
    """A row as a line of COPY's text."""
    return "\t".join([_FIELDS[type(value)](value) for value in values]) + "\n"


def copy_field(value: str | None) -> str:
    """One text of such a line."""
    if value is None:
        return "\\N"
    return value.translate(_ESCAPES) if not value.isprintable() or "\\" in value else value


def _copy_list(value: list[object]) -> str:
    return array(value).translate(_ESCAPES) if value else "{}"


# By exact type, as this runs for every column of every row.
_FIELDS: dict[type, Callable[[Any], str]] = {
    NoneType: copy_field,
    str: copy_field,
    int: str,
    bool: str,
    float: repr,
    datetime: datetime.isoformat,
    list: _copy_list,
}


class Lines:
    """Lines as a file that can only be read: what COPY wants. `going_on` is called whenever more of it is."""

    def __init__(self, lines: Iterable[str], going_on: Callable[[], None]) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._going_on = going_on
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        self._going_on()
        parts = [self._rest]
        length = len(self._rest)
        for line in self._lines:
            parts.append(line.encode())
            length += len(parts[-1])
            if 0 <= size <= length:
                break
        whole = b"".join(parts)
        self._rest = whole[size:] if size >= 0 else b""
        return whole[:size] if size >= 0 else whole

    def readline(self, size: int = -1) -> bytes:
        """For the driver's idea of a file; COPY does not ask for it."""
        return self.read(size)
