"""Calling a task off, without losing what was said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import Unsupported
from dibs.core.lifecycle import Verb
from dibs.protocols.ntask.answers import warn, warn_of_loss
from dibs.protocols.ntask.policy import NTASK

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk


def cancel(desk: Desk, ref: str, reason: str | None, token: str | None = None) -> Task:
    """What is over stays as it is. An earlier reason goes into a comment before the new one takes its place."""
    task = desk.get(ref)
    if task.finished:
        warn(f"{task.id} is {NTASK.say(task.status)} already; nothing was changed")
        return task
    if task.reason and task.reason != reason and (token is not None or task.lease is None):
        reason = _kept(desk, task, reason)
    after = desk.move(Verb.CANCEL, ref, token=token, reason=reason).task
    warn_of_loss(after, {"reason": reason})
    return after


def _kept(desk: Desk, task: Task, reason: str | None) -> str | None:
    """The reason to write now. Where nothing can be said in a comment, both stand in the one place there is."""
    before = f"Before it was canceled, {task.id} was {NTASK.say(task.status)}: {task.reason}"
    try:
        desk.comment(task.id, before)
    except Unsupported as error:
        warn(f"the earlier reason is kept beside the new one: {error.message}")
        return f"{reason}\n\n{before}" if reason else before
    return reason
