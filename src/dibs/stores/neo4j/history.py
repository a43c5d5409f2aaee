"""Events to nodes and back. Some are told a second time in the document's words, under a label of their own."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from dibs.core.events import Event, Outcome
from dibs.stores.neo4j.extras import gathered, spread, text_of
from dibs.stores.neo4j.names import LABELS, OF_EVENTS, SPREAD, WORDS, status_from, weight_of
from dibs.stores.neo4j.rows import SENSELESS, moment_from, senseless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Json
    from dibs.stores.neo4j.rows import Row, Values

_PRIORITY = ("priority", "override")


def event_values(event: Event, mark: str) -> Values:
    """An event without its number, and its label; `mark` is of the transaction that wrote it."""
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
    """Only a claim that was won sends anyone off, and most edits leave the priority alone."""
    if event.verb == "claim" and event.outcome is not Outcome.OK:
        return None
    if event.verb == "edit" and not any(name in event.detail for name in _PRIORITY):
        return None
    return LABELS.get(event.verb)


def _also(label: str | None, event: Event) -> Values:
    """What the document's node has beside the event's own properties."""
    if label == "TaskDispatch":
        return {"id": str(uuid.uuid4()), "dispatched_at": event.at, "status": "dispatched"}
    return _change_of_priority(event.detail) if label == "PriorityAudit" else {}


def _change_of_priority(detail: Mapping[str, Json]) -> Values:
    """As weights; where only a person's word changed, that."""
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
