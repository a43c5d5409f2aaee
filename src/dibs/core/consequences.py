"""What the end of one task means for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import IncompleteSubtasks
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Actor, Task

# A prerequisite that will never be done is no reason to disturb work that is going on or already over.
_IDLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED, Status.ESCALATED})


class Consequences:
    """What a move did to other tasks."""

    def __init__(self) -> None:
        self.unblocked: list[str] = []
        self.escalated: list[str] = []
        self.canceled: list[str] = []

    def drawn(self, verb: Verb, task: str) -> None:
        (self.canceled if verb is Verb.CANCEL else self.escalated).append(task)

    def settle(self) -> None:
        """What went along with a canceled prerequisite is not ready, whatever its counter said on the way."""
        drawn = {*self.escalated, *self.canceled}
        self.unblocked = [task for task in self.unblocked if task not in drawn]


def pull(on_cancel: CanceledBlocker) -> Verb | None:
    """What a canceled prerequisite does to those who wait for it, by the policy."""
    return {CanceledBlocker.CASCADES: Verb.CANCEL, CanceledBlocker.ESCALATES: Verb.ESCALATE}.get(on_cancel)


def goes_along(task: Task, verb: Verb) -> bool:
    return task.status in _IDLE and not (task.status is Status.ESCALATED and verb is Verb.ESCALATE)


def going_along(task: str, scope: str, verb: Verb, canceled: str, by: Actor) -> Move:
    return Move(verb, task, scope, by, reason=f"prerequisite {canceled} was canceled")


def refuse_unfinished(task: Task, children: Sequence[str]) -> None:
    """A parent cannot be done before its children; some of the open ones are named."""
    if children:
        raise IncompleteSubtasks(
            f"{task.id} has unfinished sub-tasks: {', '.join(children)}. Finish or cancel them first."
        )
