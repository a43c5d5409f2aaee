"""A task as the mesh sees it: its status, who claimed it, when, and for how long that counts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.protocols.mesh.policy import MESH, TIMEOUT, TIMEOUT_MINUTES

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Json, Task


def timeout_of(task: Task) -> timedelta:
    """How long a claim on it counts: what the task says, else half an hour."""
    said = task.extra.get(TIMEOUT)
    good = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return timedelta(minutes=said if good else TIMEOUT_MINUTES)  # type: ignore[arg-type]  # a number, if good


def claimed_by(task: Task) -> str | None:
    """Who has it, or has done it: that stays, because scores are counted by it."""
    if task.lease is not None:
        return task.lease.agent
    return task.finished_by if task.status is Status.DONE else None


def claimed_at(task: Task) -> datetime | None:
    """From when its timeout counts: every heartbeat begins it anew."""
    if task.lease is not None:
        return task.lease.expires_at - timeout_of(task) if task.lease.expires_at else task.lease.claimed_at
    return task.started_at if task.status is Status.DONE else None


def priority_of(task: Task) -> float:
    """The mesh counts points by it, so the higher number comes first; the core counts the other way round."""
    return max(0, -task.priority)


def mesh_json(task: Task) -> dict[str, Json]:
    since = claimed_at(task)
    told: dict[str, Json] = {
        "id": task.id,
        "title": task.title,
        "status": MESH.say(task.status),
        "claimed_by": claimed_by(task),
        "claimed_at": None if since is None else time_text(since),
        TIMEOUT: timeout_of(task) / timedelta(minutes=1),
        "priority": priority_of(task),
        "reason": task.reason,
    }
    return {key: value for key, value in told.items() if value is not None}
