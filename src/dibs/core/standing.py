"""How a task stands: in a word, and the one thing to know beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.duration import in_words
from dibs.core.task import Holder, Status

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Task


def status_word(task: Task, now: datetime) -> str:
    """A task's status as one thinks of it: what waits is not ready, what expired is up for grabs."""
    if task.status is Status.READY and task.blockers:
        return "waiting"
    if task.status is Status.READY and task.not_before is not None and task.not_before > now:
        return "later"
    if task.status is Status.ACTIVE and not task.held(now):
        return "expired"
    return task.status.value


def remark(task: Task, now: datetime) -> str:
    """The one thing to know beside the status: who holds it, what it waits for, why it stopped."""
    lease = task.lease
    if lease is not None:
        if lease.holder is Holder.HUMAN:
            return f"held by {lease.agent}"
        if lease.live(now) and lease.expires_at is not None:
            return f"{lease.agent}, {in_words(lease.expires_at - now)} left"
        return f"was {lease.agent}'s"
    if task.status is Status.READY and task.blockers:
        return f"for {task.blockers} other{'s' if task.blockers > 1 else ''}"
    if task.status is Status.READY and task.not_before is not None and task.not_before > now:
        return f"in {in_words(task.not_before - now)}"
    if task.reason:
        return task.reason.partition("\n")[0]
    if task.status is Status.DONE and task.finished_by:
        return f"by {task.finished_by}"
    return f"for {task.assigned_to}" if task.assigned_to else ""
