"""Tasks as records with the fields of kurultai's document. Fields that dibs lacks are extra fields of the task."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, NotRequired, TypedDict

from dibs.core.errors import InvalidInput
from dibs.core.task import Claimed, Input, Json, Link, LinkKind, Status, Task
from dibs.core.times import time_from, time_text
from dibs.fleet.routing import role_of
from dibs.protocols.kurultai.policy import (
    ANYONE,
    DEFAULT_WEIGHT,
    agent_for,
    agent_id,
    blocked_reason_of,
    status_of,
    weight_of,
)


class TaskRecord(TypedDict):
    """A held or done task is assigned to its holder or finisher. A task without an agent is `routed_to` a role.

    `unmet_dependencies` is derived. Only the holder gets `claim_attempt_id`.
    """

    id: str
    type: str
    description: str
    status: str
    assigned_to: str | None
    routed_to: str | None
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
    """The result of a finished prerequisite."""

    id: str
    description: str
    result_summary: str | None
    artifacts: list[str]


class ClaimRecord(NamedTuple):
    """A claimed task, the proof of the claim, and the results of its prerequisites."""

    task: TaskRecord
    claim_attempt_id: str
    prerequisites: tuple[Prerequisite, ...] = ()

    def __repr__(self) -> str:
        """Without the proof, because a repr ends up in logs."""
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
    agent = lease.agent if lease else task.finished_by if done else None
    assigned_to = agent or task.assigned_to
    return {
        "id": task.id,
        "type": task.category or task.deliverable or "task",
        "description": task.description or task.title,
        "status": status_of(task),
        "assigned_to": assigned_to,
        "routed_to": role_of(task) if assigned_to is None else None,
        "claimed_by": agent,
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
        "external_priority_source": _priority_source(task),
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


def _priority_source(task: Task) -> str:
    """The source of the priority: `notion` only while Notion's weight is unchanged."""
    said = _text(task.extra, "external_priority_source")
    if said == "notion" and _number(task.extra, "external_priority_weight") == weight_of(task) and not task.override:
        return said
    changed = task.override or weight_of(task) != DEFAULT_WEIGHT
    return "user" if said in {"user", "notion"} or changed else "auto"


def escalations_of(task: Task) -> int:
    count = task.extra.get("escalation_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def summary_of(result: Json) -> str | None:
    """A result as text. Other programs may write any JSON."""
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
    """The fields that are set, with times as text."""
    told = {name: time_text(value) if isinstance(value, datetime) else value for name, value in record.items()}
    return {name: value for name, value in told.items() if value is not None}  # type: ignore[misc]  # a record's values are JSON but for its times


def kept(fields: Iterable[tuple[str, object]]) -> dict[str, Json]:
    """Extra fields for the store."""
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
    """The time, or None for other values, because any program can write extra fields."""
    value = extra.get(name)
    if not isinstance(value, str):
        return None
    try:
        return time_from(value)
    except InvalidInput:
        return None


_TITLE = 120  # characters


def title_of(description: str) -> str:
    """The first line of a description, shortened."""
    first = next((line.strip() for line in description.splitlines() if line.strip()), "")
    if not first:
        raise InvalidInput("A task needs a description.")
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


def assignee(said: str | None, deliverable: str | None) -> str | None:
    """The named agent, None for any agent, or the agent that the deliverable is routed to."""
    if said is None:
        return agent_for(deliverable)
    return None if said.casefold() == ANYONE else agent_id(said)


def role_said(assigned_to: str | None) -> str | None:
    """The role `any`, for a task that any agent may claim."""
    return ANYONE if assigned_to is not None and assigned_to.casefold() == ANYONE else None


def link_kind(dep_type: str) -> LinkKind:
    if dep_type not in set(LinkKind):
        raise InvalidInput(f"A dependency must be one of {', '.join(LinkKind)}, not {dep_type[:40]!r}.")
    return LinkKind(dep_type)


def quality(score: float | None) -> dict[str, Json]:
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        raise InvalidInput("A quality score must be a number from 0 to 1.")
    return kept([("quality_score", score)])


def reason_of(text: str) -> str:
    if not text.strip():
        raise InvalidInput("The reason is empty. Give one.")
    return text.strip()


def new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
