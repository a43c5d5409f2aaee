"""What kurultai shows of a task: the record of its document, field by field, under its names.

What dibs has no field for is kept among a task's extra fields, under the same name.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, NotRequired, TypedDict

from dibs.core.errors import InvalidInput
from dibs.core.task import Claimed, Input, Json, Link, LinkKind, Status, Task
from dibs.core.times import time_from, time_text
from dibs.protocols.kurultai.policy import ANYONE, agent_for, agent_id, blocked_reason_of, status_of, weight_of


class TaskRecord(TypedDict):
    """`unmet_dependencies` is derived, as is whether it is ready; `claim_attempt_id` is for its holder alone."""

    id: str
    type: str
    description: str
    status: str
    assigned_to: str | None
    claimed_by: str | None
    delegated_by: str | None
    created_at: datetime
    updated_at: datetime
    sender_hash: str
    window_expires_at: datetime | None
    deliverable_type: str | None
    priority_weight: float
    user_priority_override: bool
    merged_into: str | None
    merged_from: list[str]
    notion_synced_at: datetime | None
    notion_page_id: str | None
    notion_url: str | None
    external_priority_source: str | None
    external_priority_weight: float | None
    quality_score: float | None
    blocked_reason: str | None
    blocked_at: datetime | None
    escalation_count: int
    result_summary: str | None
    started_at: datetime | None
    completed_at: datetime | None
    lease_expires_at: datetime | None
    unmet_dependencies: int
    claim_attempt_id: NotRequired[str]


class Prerequisite(TypedDict):
    """What a finished task hands to one that waited for it."""

    id: str
    description: str
    result_summary: str | None
    artifacts: list[str]


class ClaimRecord(NamedTuple):
    """A claimed task with its `claim_attempt_id`, the proof of the claim, and what came before it."""

    task: TaskRecord
    claim_attempt_id: str
    prerequisites: tuple[Prerequisite, ...] = ()

    def __repr__(self) -> str:
        """Without the proof: a repr ends up in logs."""
        return f"ClaimRecord({self.task['id']} by {self.task['claimed_by']})"


class Change(NamedTuple):
    """A task after a change, and the tasks it unblocked, escalated or aborted."""

    task: TaskRecord
    unblocked: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


class Dependency(TypedDict):
    """`task_id` depends on `depends_on_id`."""

    task_id: str
    depends_on_id: str
    type: str
    weight: float
    detected_by: str
    confidence: float


class AgentRecord(TypedDict):
    id: str
    name: str
    role: str
    does: str
    failover_for: str | None
    load: int
    limit: int
    registered: bool


def record_of(task: Task) -> TaskRecord:
    kept, lease = task.extra, task.lease
    done = task.status is Status.DONE
    return {
        "id": task.id,
        "type": task.category or task.deliverable or "task",
        "description": task.description or task.title,
        "status": status_of(task),
        "assigned_to": task.assigned_to,
        "claimed_by": lease.agent if lease else task.finished_by if done else None,
        "delegated_by": _text(kept, "delegated_by"),
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "sender_hash": task.scope,
        "window_expires_at": _time(kept, "window_expires_at"),
        "deliverable_type": task.deliverable,
        "priority_weight": weight_of(task),
        "user_priority_override": task.override,
        "merged_into": task.merged_into,
        "merged_from": _texts(kept, "merged_from"),
        "notion_synced_at": _time(kept, "notion_synced_at"),
        "notion_page_id": _text(kept, "notion_page_id"),
        "notion_url": _text(kept, "notion_url"),
        "external_priority_source": _text(kept, "external_priority_source"),
        "external_priority_weight": _number(kept, "external_priority_weight"),
        "quality_score": _number(kept, "quality_score"),
        "blocked_reason": blocked_reason_of(task),
        "blocked_at": _time(kept, "blocked_at") if task.status is Status.BLOCKED else None,
        "escalation_count": escalations_of(task),
        "result_summary": summary_of(task.result),
        "started_at": task.started_at,
        "completed_at": task.finished_at if done else None,
        "lease_expires_at": lease.expires_at if lease else None,
        "unmet_dependencies": task.blockers,
    }


def escalations_of(task: Task) -> int:
    count = task.extra.get("escalation_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def summary_of(result: Json) -> str | None:
    """A result as text. Others that share the store may have left any JSON."""
    if result is None or isinstance(result, str):
        return result
    import json

    return json.dumps(result, ensure_ascii=False)


def claim_of(claimed: Claimed) -> ClaimRecord:
    token = claimed.task.lease.token if claimed.task.lease else ""
    task = record_of(claimed.task)
    task["claim_attempt_id"] = token
    return ClaimRecord(task, token, tuple(_prerequisite(given) for given in claimed.inputs))


def _prerequisite(given: Input) -> Prerequisite:
    return {
        "id": given.id,
        "description": given.title,
        "result_summary": summary_of(given.result),
        "artifacts": list(given.artifacts),
    }


def dependency_of(link: Link) -> Dependency:
    return {
        "task_id": link.task,
        "depends_on_id": link.on,
        "type": str(link.kind),
        "weight": link.weight,
        "detected_by": link.detected_by,
        "confidence": link.confidence,
    }


def as_json(record: Mapping[str, object]) -> dict[str, Json]:
    """With times as text; what is unset is left out."""
    told = {name: time_text(value) if isinstance(value, datetime) else value for name, value in record.items()}
    return {name: value for name, value in told.items() if value is not None}  # type: ignore[misc]  # a record's values are JSON but for its times


def kept(fields: Iterable[tuple[str, object]]) -> dict[str, Json]:
    """Extra fields as they are stored: those that are set, times as text."""
    return as_json(dict(fields))


def _text(extra: Mapping[str, Json], name: str) -> str | None:
    value = extra.get(name)
    return value if isinstance(value, str) else None


def _texts(extra: Mapping[str, Json], name: str) -> list[str]:
    value = extra.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _number(extra: Mapping[str, Json], name: str) -> float | None:
    value = extra.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(extra: Mapping[str, Json], name: str) -> datetime | None:
    """A time, if it is one: extra fields are anybody's to write."""
    value = extra.get(name)
    if not isinstance(value, str):
        return None
    try:
        return time_from(value)
    except InvalidInput:
        return None


_TITLE = 120  # characters of a description that stand for it


def title_of(description: str) -> str:
    """What stands for a task in lists: its first line, cut where that is long."""
    first = next((line.strip() for line in description.splitlines() if line.strip()), "")
    if not first:
        raise InvalidInput("A task needs a description.")
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


def assignee(said: str | None, deliverable: str | None) -> str | None:
    """Who is to do it: who is named, anyone at all, or whom the deliverable is routed to."""
    if said is None:
        return agent_for(deliverable)
    return None if said.casefold() == ANYONE else agent_id(said)


def link_kind(dep_type: str) -> LinkKind:
    if dep_type not in set(LinkKind):
        raise InvalidInput(f"A dependency is {', '.join(LinkKind)}, not {dep_type[:40]!r}.")
    return LinkKind(dep_type)


def quality(score: float | None) -> dict[str, Json]:
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        raise InvalidInput("A quality score is a number from 0 to 1.")
    return kept([("quality_score", score)])


def reason_of(text: str) -> str:
    if not text.strip():
        raise InvalidInput("Say why: the reason is empty.")
    return text.strip()


def new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
