"""Nodes to tasks and back. What a task's properties are called, and how each is read, stand side by side."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.agent import Agent, AgentStatus
from dibs.core.errors import StoreCorrupt
from dibs.core.fields import FIELDS, LISTS, Kind
from dibs.core.order import order_key
from dibs.core.task import Holder, Input, Lease, Link, LinkKind, ServiceClass, Status, Task
from dibs.stores.neo4j.extras import gathered, spread, text_of
from dibs.stores.neo4j.names import OF_TASKS, PROPERTIES, WORDS, priority_from, status_from, weight_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.core.fields import Field, Filter
    from dibs.core.order import OrderKey
    from dibs.core.task import Json

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
    """A place in the order of the desk as one text: texts compare as the tuples of `core.order` do."""
    rank, behind, priority, queued_at, task, scope = place
    (bits,) = struct.unpack(">Q", struct.pack(">d", priority + 0.0))
    sortable = bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 1 << 63
    queued = (queued_at - _FIRST) // _MICROSECOND
    return f"{rank}{int(behind)}{sortable:016x}{queued:018d}{task}\x00{scope}"


def schedule_of(task: Task, now: datetime) -> Values:
    """The derived properties: when time will open a task, and its place among those that are open now."""
    lease = task.lease
    wakes_at, place = None, None
    if task.status is Status.ACTIVE and lease is not None and lease.holder is Holder.AGENT:
        # Even when this is past: waking is where a lease without a retry left is told from one that is handed on.
        wakes_at = lease.expires_at
    elif task.status is Status.READY:
        if task.not_before is not None and task.not_before > now:
            wakes_at = task.not_before
        elif task.blockers == 0:
            place = order_text(order_key(task))
    return {"wakes_at": wakes_at, "place": place}


def _word(status: Status | None) -> str | None:
    return None if status is None else WORDS[status]


def _text_or_none(value: Json) -> str | None:
    return None if value is None else text_of(value)


def _read_list(value: list[str] | None) -> tuple[str, ...]:
    return tuple(value or ())  # a node from before the field has none


# How a node holds each kind of value, if not as it is. Times are read as text.
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
# Lease and extra are several properties each; `blockers` is written by those who count.
_PROPERTIES = {
    field.name: (PROPERTIES.get(field.name, field.name), _WRITTEN.get(field.kind))
    for field in FIELDS
    if field.name not in {"lease", "spent_token", "extra", "blockers"}
}
_BY_PLACE = [(Task._fields.index(field), name, made) for field, (name, made) in _PROPERTIES.items()]
_ORDERING = frozenset({"service_class", "user_priority_override", "priority_weight", "queued_at"})


def properties_of(task: Task) -> Values:
    """All that a task says of itself."""
    own: Values = {name: made(task[place]) if made else task[place] for place, name, made in _BY_PLACE}
    derived = {"order_key": order_text(order_key(task))}
    return own | _leased(task) | derived | spread(task.extra, OF_TASKS, "extra")


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
    """What to write so that one task becomes the other. Always with what is derived: time may have changed it."""
    changed: Values = {
        name: made(after[place]) if made else after[place]
        for place, name, made in _BY_PLACE
        if after[place] is not task[place]
    }
    if after.lease is not task.lease or after.spent_token is not task.spent_token:
        before = _leased(task)
        changed |= {name: value for name, value in _leased(after).items() if value != before[name]}
    if not _ORDERING.isdisjoint(changed):
        changed["order_key"] = order_text(order_key(after))
    if after.extra is not task.extra:
        changed |= _other_extra(task, after)
    return changed | schedule_of(after, now)


def _other_extra(task: Task, after: Task) -> Values:
    """Also where 1 becomes 1.0 or true, which are equal."""
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
        f"The {what} {name} holds a value that no dibs wrote there. Restore it from an export or a backup."
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
    """What is not on a node reads as None."""
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


def link_from(row: Row) -> Link:
    try:
        kind = LinkKind(row["type"])
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
    return agent._asdict() | {"status": str(agent.status)}
