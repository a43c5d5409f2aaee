"""Tasks to try things on, made with as few words as the test needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Holder, Lease, Status, Task

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(minutes=5)
TOKEN = "0b0e8d1c-7f6a-4c53-9a43-5d1f2f3a4b5c"  # noqa: S105 - a sample
OTHER_TOKEN = "c0ffee00-1111-4222-8333-444455556666"  # noqa: S105 - a sample
LEASE = timedelta(minutes=20)


def make_lease(token: str = TOKEN, agent: str = "ada", **fields: Any) -> Lease:
    stated: dict[str, Any] = {
        "attempt": 1,
        "run": None,
        "holder": Holder.AGENT,
        "claimed_at": NOW,
        "expires_at": NOW + LEASE,
        **fields,
    }
    return Lease(token=token, agent=agent, **stated)


def make_task(task_id: str = "a", **fields: Any) -> Task:
    stated: dict[str, Any] = {"title": f"Task {task_id}", "created_at": NOW, "updated_at": NOW, "queued_at": NOW}
    return Task(scope="desk", id=task_id, **{**stated, **fields})


def task_in(status: Status, **fields: Any) -> Task:
    """A task as it looks in this status when it got there by living."""
    lived: dict[Status, dict[str, Any]] = {
        Status.ACTIVE: {"lease": make_lease(), "attempt": 1, "started_at": NOW},
        Status.BLOCKED: {"reason": "needs a key", "unblock_action": "ask Bo", "next_check_at": SOON},
        Status.PAUSED: {"reason": "later", "paused_from": Status.BACKLOG},
        Status.REVIEW: {"finished_by": "ada", "result": {"pull_request": 7}, "attempt": 1},
        Status.ESCALATED: {"reason": "gave up", "retries": 4, "max_retries": 3, "attempt": 4},
        Status.DONE: {"finished_at": NOW, "finished_by": "ada", "attempt": 1},
        Status.CANCELED: {"reason": "not needed", "finished_at": NOW},
    }
    return make_task(status=status, **{**lived.get(status, {}), **fields})


def human_lease(agent: str = "bo") -> Lease:
    return make_lease(agent=agent, holder=Holder.HUMAN, expires_at=None)


def request(agent: str = "ada", **fields: Any) -> ClaimRequest:
    return ClaimRequest(agent, (TOKEN,), "desk", **fields)
