"""The rules of the Task Claim Protocol, as data, and a task in its words."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.policy import Policy
from dibs.core.task import Status
from dibs.core.times import time_text

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Json, Task

TIMEOUT_MINUTES = 30  # of a task that does not say how long a claim on it counts
NOTION = "notion"  # among a task's extra fields: what is odd about its page, and the raw values that it shows
TIMEOUT = "claim_timeout_minutes"  # where it says so

MESH = Policy(
    name="mesh",
    lease=timedelta(minutes=TIMEOUT_MINUTES),
    short_ids=False,  # the id of a page is no beginning of another
    words={
        Status.READY: "OPEN",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.DONE: "COMPLETED",
        Status.CANCELED: "CANCELLED",
        # What the protocol itself never makes of a task, but other users of the same store may.
        Status.BACKLOG: "BACKLOG",
        Status.PAUSED: "PAUSED",
        Status.REVIEW: "REVIEW",
        Status.ESCALATED: "ESCALATED",
    },
    aliases={"CANCELED": Status.CANCELED, "DONE": Status.DONE},
)

AGENTS = ("Sandman", "Oracle")  # unless MESH_AGENTS names others


def timeout_of(task: Task) -> timedelta:
    """How long a claim on it counts: what the task says, else half an hour."""
    said = task.extra.get(TIMEOUT)
    good = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return timedelta(minutes=said if good else TIMEOUT_MINUTES)  # type: ignore[arg-type]  # a number, if good


def status_of(task: Task) -> str:
    """Its status in the words of the page, also where those mean nothing to the mesh."""
    said = _shown(task, "status")
    return str(said or MESH.say(task.status))


def _shown(task: Task, field: str) -> Json:
    """What an odd page in Notion says of a field."""
    odd = task.extra.get(NOTION)
    shows = odd.get("shows") if isinstance(odd, dict) else None
    return shows.get(field) if isinstance(shows, dict) else None


def claimed_by(task: Task) -> str | None:
    """Who has it, or has done it: that stays, because scores are counted by it."""
    if task.lease is not None:
        return task.lease.agent or None
    return task.finished_by if task.status is Status.DONE else None


def claimed_at(task: Task) -> datetime | None:
    """From when its timeout counts: every heartbeat begins it anew."""
    if _shown(task, "expires_at") is not None:
        return None  # nothing says until when, nor since when
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
        "status": status_of(task),
        "claimed_by": claimed_by(task),
        "claimed_at": None if since is None else time_text(since),
        TIMEOUT: timeout_of(task) / timedelta(minutes=1),
        "priority": priority_of(task),
        "reason": task.reason,
        "warnings": odd.get("warnings") if isinstance(odd := task.extra.get(NOTION), dict) else None,
    }
    return {key: value for key, value in told.items() if value is not None}
