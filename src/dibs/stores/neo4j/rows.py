"""Convert tasks, links, agents and events to nodes and back.

Properties have the names and words of kurultai's document; other fields keep their dibs names. The document has only
five statuses, one reason and one agent, so exact values are in properties that begin with `dibs_`, and every write
derives the document's properties from them. Extra fields are properties if Neo4j supports their type, else JSON in the
property `extra`. Properties that other programs add appear as extra fields, as text if JSON lacks their type.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.errors import InvalidInput, StoreCorrupt
from dibs.core.events import Event, Outcome
from dibs.core.fields import FIELDS, LISTS, Kind, names_of
from dibs.core.fleet import Agent, AgentStatus, display_name
from dibs.core.task import (
    INBOX,
    LEAD,
    MAIL,
    OUTBOX,
    SYNC,
    TOKENS,
    Holder,
    Input,
    Lease,
    Link,
    LinkKind,
    ServiceClass,
    Status,
    Task,
    is_internal,
    order_key,
)
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dibs.core.fields import Field, Filter
    from dibs.core.task import Json, OrderKey


# The words for statuses in events.
WORDS = {status: str(status) for status in Status} | {
    Status.READY: "pending",
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.CANCELED: "aborted",
}
_STATUSES = {str(status): status for status in Status} | {word: status for status, word in WORDS.items()}

# The document's five statuses. All others are `blocked`, with a `blocked_reason`.
DOCUMENTED = dict.fromkeys(Status, "blocked") | {
    Status.READY: "pending",
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.ESCALATED: "escalated",
}
REASONS = {
    Status.PAUSED: "paused",
    Status.CANCELED: "aborted",
    Status.BACKLOG: "backlog",
    Status.REVIEW: "review",
}

# Fields of a task whose property has a different name.
PROPERTIES = {
    "scope": "sender_hash",
    "status": "dibs_status",
    "reason": "dibs_reason",
    "assigned_to": "dibs_assigned_to",
    "override": "user_priority_override",
    "priority": "priority_weight",
    "finished_at": "completed_at",
    "category": "type",
    "deliverable": "deliverable_type",
    "spent_token": "claim_attempt_id",
}

# Times are written as temporal values and read as text, which is faster.
TIMES = (*(PROPERTIES.get(name, name) for name in names_of([Kind.TIME])), "claimed_at", "expires_at")

# All properties of a task that dibs knows; any other belongs to `extra`.
OF_TASKS = frozenset({
    *(PROPERTIES.get(field.name, field.name) for field in FIELDS if field.name != "lease"), *TIMES,
    "desk", "claimed_by", "run", "holder", "order_key", "place", "wakes_at", "embedding",
    "status", "blocked_reason", "assigned_to",
})  # fmt: skip

OF_EVENTS = frozenset({
    "desk", "seq", "timestamp", "sender_hash", "task_id", "verb", "outcome", "agent_id", "run", "attempt", "source",
    "target", "reason", "detail", "mark", "dispatched_at",
})  # fmt: skip

# Events for which the document defines a node, by verb.
LABELS = {
    "claim": "TaskDispatch",
    "edit": "PriorityAudit",
    "sync": "SyncEvent",
    "sync_change": "SyncChange",
    "sync_notice": "SyncNotification",
}

# The details of these events are properties of the node.
SPREAD = frozenset({"sync", "sync_change", "sync_notice"})


# The label of a node, by the prefix of its scope: only work is a `Task`. All of them are `Item` too.
TASK = "Task"
SCOPES_OF_KIND = {
    "Message": (INBOX,),
    "Note": (OUTBOX,),
    "Mail": (MAIL,),
    "Lock": (LEAD, SYNC),
    "Token": (TOKENS,),
}
KINDS = (TASK, *SCOPES_OF_KIND)


def kind_of(scope: str) -> str:
    if not is_internal(scope):
        return TASK
    return next((kind for kind, starts in SCOPES_OF_KIND.items() if scope.startswith(starts)), "")


def status_from(word: str) -> Status:
    return _STATUSES[word]


def weight_of(priority: float) -> float:
    """A greater weight comes first, as does a smaller priority. The result is never -0.0."""
    return 0.0 - priority


def priority_from(weight: float) -> float:
    priority = 0.0 - weight
    return int(priority) if priority.is_integer() else priority


_WIDEST = 2**63
_LONGEST_NAME = 200
_SHORTEST_TIME, _LONGEST_TIME = len("2026-01-31T12:00:00Z"), len("2026-01-31T12:00:00.000000Z")

# Indexed properties cannot hold long texts, so these must be times.
_INDEXED = frozenset({"window_expires_at", "triggered_at"})


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def text_of(value: Json) -> str:
    return _encode(value)


def spread(given: Mapping[str, Json], taken: Collection[str], rest: str) -> dict[str, object]:
    """Each value as a property, if its name is not `taken`; all others as JSON in the property `rest`."""
    values = {name: _as_time(value) for name, value in given.items()}
    own = {name: value for name, value in values.items() if name not in taken and _stands(name, value)}
    return {**own, rest: text_of({name: value for name, value in given.items() if name not in own})}


def gathered(row: Mapping[str, Any], taken: Collection[str], rest: str) -> dict[str, Json]:
    """Reverse `spread`."""
    found: dict[str, Json] = {} if row[rest] == "{}" else json.loads(row[rest])
    if own := row.keys() - taken:
        found.update({name: _as_json(row[name]) for name in sorted(own)})
    return found


def _stands(name: str, value: object) -> bool:
    if not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
        return False
    if name in _INDEXED:
        return isinstance(value, datetime)
    if isinstance(value, list):
        return len({type(each) for each in value}) <= 1 and all(_is_plain(each) for each in value)
    return isinstance(value, datetime) or _is_plain(value)


def _is_plain(value: object) -> bool:
    if type(value) is int:
        return -_WIDEST <= value < _WIDEST
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in {bool, str}


def _as_time(value: Json) -> Json | datetime:
    """Convert a text in dibs' format of times to a time."""
    if not isinstance(value, str) or not _SHORTEST_TIME <= len(value) <= _LONGEST_TIME or value[-1] != "Z":
        return value
    try:
        moment = time_from(value)
    except InvalidInput:
        return value
    return moment if time_text(moment) == value else value


def _as_json(value: Any) -> Json:
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if _is_plain(value):
        return value  # type: ignore[no-any-return]  # text, a number or a truth
    if getattr(value, "tzinfo", None) is not None:
        try:
            return time_text(value.to_native())
        except ValueError:  # a year that Python does not support
            pass
    return str(value)


Row: TypeAlias = "Mapping[str, Any]"
Values: TypeAlias = "dict[str, object]"

_FIRST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CLASS = {str(each): each for each in ServiceClass}
SENSELESS = (KeyError, ValueError, TypeError, OverflowError, AttributeError)


def moment_from(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def _moment(value: str | None) -> datetime | None:
    return None if value is None else moment_from(value)


def order_text(place: OrderKey) -> str:
    """A position in the order of work as a text that sorts as `order_key` does."""
    rank, behind, priority, queued_at, task, scope = place
    (bits,) = struct.unpack(">Q", struct.pack(">d", priority + 0.0))
    sortable = bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 1 << 63
    queued = (queued_at - _FIRST) // _MICROSECOND
    return f"{rank}{int(behind)}{sortable:016x}{queued:018d}{task}\x00{scope}"


def schedule_of(task: Task, now: datetime) -> Values:
    """The derived properties: when a task becomes claimable, and its position if it is claimable now."""
    lease = task.lease
    wakes_at, place = None, None
    if task.status is Status.ACTIVE and lease is not None and lease.holder is Holder.AGENT:
        # Also in the past, because waking decides whether the task has a retry left.
        wakes_at = lease.expires_at
    elif task.status is Status.READY:
        if task.not_before is not None and task.not_before > now:
            wakes_at = task.not_before
        elif task.blockers == 0:
            place = order_text(order_key(task))
    return {"wakes_at": wakes_at, "place": place}


def _word(status: Status | None) -> str | None:
    return None if status is None else str(status)


def _text_or_none(value: Json) -> str | None:
    return None if value is None else text_of(value)


def _read_list(value: list[str] | None) -> tuple[str, ...]:
    return tuple(value or ())  # nodes from before the field lack it


# Conversions of values that a node cannot hold unchanged.
_READ: dict[str, Callable[[Any], object]] = {
    Kind.STATUS: status_from,
    Kind.CLASS: _CLASS.__getitem__,
    Kind.NUMBER: priority_from,
    Kind.TIME: moment_from,
    Kind.JSON: json.loads,
}
_WRITTEN: dict[str, Callable[[Any], object]] = {
    Kind.STATUS: _word,
    Kind.CLASS: str,
    Kind.NUMBER: weight_of,
    Kind.JSON: _text_or_none,
    **dict.fromkeys(LISTS, list),
}
# Lease and extra are several properties each; `blockers` is counted by queries.
_PROPERTIES = {
    field.name: (PROPERTIES.get(field.name, field.name), _WRITTEN.get(field.kind))
    for field in FIELDS
    if field.name not in {"lease", "spent_token", "extra", "blockers"}
}
_BY_PLACE = [(Task._fields.index(field), name, made) for field, (name, made) in _PROPERTIES.items()]
_TOLD = frozenset({"dibs_status", "dibs_reason", "dibs_assigned_to", "finished_by", "claimed_by"})
_ORDERING = frozenset({"service_class", "user_priority_override", "priority_weight", "queued_at"})


def properties_of(task: Task) -> Values:
    """All properties of a new task."""
    own: Values = {name: made(task[place]) if made else task[place] for place, name, made in _BY_PLACE}
    derived = {"order_key": order_text(order_key(task))}
    return own | _leased(task) | _documented(task) | derived | spread(task.extra, OF_TASKS, "extra")


def _documented(task: Task) -> Values:
    """The properties that the document's queries read. A held or done task is assigned to its holder or finisher."""
    status, lease = task.status, task.lease
    told = task.reason if status is Status.BLOCKED or status is Status.ESCALATED else REASONS.get(status)
    agent = lease.agent if lease else task.finished_by if status is Status.DONE else None
    return {"status": DOCUMENTED[status], "blocked_reason": told, "assigned_to": agent or task.assigned_to}


def _leased(task: Task) -> Values:
    lease = task.lease
    return {
        "claim_attempt_id": lease.token if lease else task.spent_token,
        "claimed_by": lease.agent if lease else None,
        "run": lease.run if lease else None,
        "holder": str(lease.holder) if lease else None,
        "claimed_at": lease.claimed_at if lease else None,
        "expires_at": lease.expires_at if lease else None,
    }


def difference(task: Task, after: Task, now: datetime) -> Values:
    """The properties to write. Always with the derived ones, because they depend on the time."""
    changed: Values = {
        name: made(after[place]) if made else after[place]
        for place, name, made in _BY_PLACE
        if after[place] is not task[place]
    }
    if after.lease is not task.lease or after.spent_token is not task.spent_token:
        before = _leased(task)
        changed |= {name: value for name, value in _leased(after).items() if value != before[name]}
    if not _TOLD.isdisjoint(changed):
        shown = _documented(task)
        changed |= {name: value for name, value in _documented(after).items() if value != shown[name]}
    if not _ORDERING.isdisjoint(changed):
        changed["order_key"] = order_text(order_key(after))
    if after.extra is not task.extra:
        changed |= _other_extra(task, after)
    return changed | schedule_of(after, now)


def _other_extra(task: Task, after: Task) -> Values:
    """Also finds a change from 1 to 1.0 or true, which are equal."""
    before, new = (spread(each.extra, OF_TASKS, "extra") for each in (task, after))
    changed = {name: value for name, value in new.items() if repr(value) != repr(before.get(name))}
    return dict.fromkeys(before.keys() - new.keys()) | changed


def filter_map(only: Filter) -> Values:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in only.given().items()}


def task_from(row: Row) -> Task:
    try:
        return _task_from(row)
    except SENSELESS as error:
        raise senseless("task", f"{row.get('sender_hash')}/{row.get('id')}") from error


def senseless(what: str, name: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"The {what} {name} holds a value that dibs did not write. Restore it from an export or a backup."
    )


def _task_from(row: Row) -> Task:
    get = row.get
    lease = None
    if "holder" in row:
        lease = Lease(
            row["claim_attempt_id"], row["attempt"], row["claimed_by"], get("run"), Holder(row["holder"]),
            moment_from(row["claimed_at"]), _moment(get("expires_at")),
        )  # fmt: skip
    values = {name: read(row[property_] if needed else get(property_)) for name, property_, read, needed in _READERS}
    values["lease"] = lease
    values["spent_token"] = get("claim_attempt_id") if lease is None else None
    values["extra"] = gathered(row, OF_TASKS, "extra")
    return Task(**values)


def _reader(field: Field) -> Callable[[Any], Any]:
    """A missing property reads as None."""
    if field.kind in LISTS:
        return _read_list
    read = _READ.get(field.kind)
    return _same if read is None else lambda value: None if value is None else read(value)


def _same(value: Any) -> Any:
    return value


_READERS = [
    (field.name, PROPERTIES.get(field.name, field.name), _reader(field), not (field.optional or field.kind in LISTS))
    for field in FIELDS
    if field.name not in {"lease", "spent_token", "extra"}
]


# The document's query must not find links to canceled tasks, which no longer block.
RESOLVED = "resolved"
_KIND_OF_LINK = {str(kind): kind for kind in LinkKind} | {RESOLVED: LinkKind.BLOCKS}


def link_from(row: Row) -> Link:
    try:
        kind = _KIND_OF_LINK[row["type"]]
        return Link(row["task"], row["on"], kind, row["weight"], row["detected_by"], row["confidence"])
    except SENSELESS as error:
        raise senseless("link", f"{row['task']} → {row['on']}") from error


def link_values(link: Link) -> Values:
    values = {"type": str(link.kind), "weight": float(link.weight), "detected_by": link.detected_by}
    return {"task": link.task, "on": link.on, "values": values | {"confidence": float(link.confidence)}}


def input_from(row: Row) -> Input:
    result = row["result"]
    return Input(row["id"], row["title"], None if result is None else json.loads(result), tuple(row["artifacts"]))


def agent_from(row: Row) -> Agent:
    return Agent(
        row["id"], row.get("host"), row.get("pid"), moment_from(row["started_at"]), AgentStatus(row["status"]),
        _moment(row.get("ended_at")),
    )  # fmt: skip


def agent_values(agent: Agent) -> Values:
    return agent._asdict() | {"status": str(agent.status), "name": display_name(agent.id)}


_PRIORITY = ("priority", "override")


def event_values(event: Event, mark: str) -> Values:
    """An event and its label, without its number. `mark` identifies the writing transaction."""
    label = _label(event)
    values = {
        "timestamp": event.at, "sender_hash": event.scope, "task_id": event.task, "verb": str(event.verb),
        "outcome": str(event.outcome), "agent_id": event.agent, "run": event.run, "attempt": event.attempt,
        "source": None if event.source is None else WORDS[event.source],
        "target": None if event.target is None else WORDS[event.target],
        "reason": event.reason, "mark": mark,
    }  # fmt: skip
    if event.verb in SPREAD:
        values |= spread(event.detail, OF_EVENTS, "detail")
    else:
        values |= {"detail": text_of(event.detail)} | _also(label, event)
    return {"label": label, "values": values}


def _label(event: Event) -> str | None:
    """None for internal events, rejected claims, and edits of other fields than the priority."""
    if is_internal(event.scope):
        return None
    if event.verb == "claim" and event.outcome is not Outcome.OK:
        return None
    if event.verb == "edit" and not any(name in event.detail for name in _PRIORITY):
        return None
    return LABELS.get(event.verb)


def _also(label: str | None, event: Event) -> Values:
    """The document's additional properties."""
    if label == "TaskDispatch":
        return {"id": str(uuid.uuid4()), "dispatched_at": event.at, "status": "dispatched"}
    return _change_of_priority(event.detail) if label == "PriorityAudit" else {}


def _change_of_priority(detail: Mapping[str, Json]) -> Values:
    """Priorities as weights, and the override."""
    values: Values = {}
    match detail.get("priority"):
        case [int() | float() as old, int() | float() as new]:
            values |= {"old_priority": weight_of(old), "new_priority": weight_of(new)}
    match detail.get("override"):
        case [bool(), bool(new)]:
            values["user_priority_override"] = new
    return values


def event_from(row: Row) -> Event:
    try:
        return _event_from(row)
    except SENSELESS as error:
        raise senseless("event", str(row.get("seq"))) from error


def _event_from(row: Row) -> Event:
    detail = gathered(row, OF_EVENTS, "detail") if row["verb"] in SPREAD else json.loads(row["detail"])
    return Event(
        moment_from(row["timestamp"]), row["sender_hash"], row["task_id"], row["verb"], Outcome(row["outcome"]),
        row.get("agent_id"), row.get("run"), row.get("attempt"),
        status_from(row["source"]) if "source" in row else None,
        status_from(row["target"]) if "target" in row else None, row.get("reason"), detail, row["seq"],
    )  # fmt: skip
