"""What a task that failed for good means for those that wait for it: the rule for canceled prerequisites, applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import LinkKind, Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk

_IDLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED})
_FAILED = frozenset({"fail", "exhaust"})  # how the last attempt of a task ended that has no retry left


class Failures:
    """Each is dealt with once by one that looks again and again; a second time would change nothing either."""

    def __init__(self, desk: Desk, scope: str | None, rule: CanceledBlocker) -> None:
        self._desk = desk
        self._scope = scope
        self._rule = rule
        self._settled: set[tuple[str, str, int]] = set()

    def settle(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What was escalated and what was canceled."""
        escalated: list[str] = []
        canceled: list[str] = []
        while fresh := [task for task in self._escalated() if _attempt(task) not in self._settled]:
            self._settled.update(_attempt(task) for task in fresh)
            for task in fresh:
                if self._rule is CanceledBlocker.ESCALATES:
                    escalated += self._escalate_dependents(task)
                elif task.ended in _FAILED:
                    canceled += self._cancel(task)
        return tuple(escalated), tuple(canceled)

    def _escalated(self) -> list[Task]:
        return self._desk.find(Query(self._scope, (Status.ESCALATED,)))

    def _escalate_dependents(self, task: Task) -> list[str]:
        desk = self._desk.at(task.scope)
        links = desk.links(task.id)
        waiting = [link.task for link in links if link.on == task.id and link.kind is LinkKind.BLOCKS]
        idle = [each for each in waiting if desk.get(each).status in _IDLE]
        why = f"prerequisite {task.id} failed"
        asked = dict.fromkeys(idle)
        outcomes = desk.move_all(Verb.ESCALATE, asked, reason=why, on_cancel=self._rule).outcomes if idle else ()
        return [each for each, outcome in zip(idle, outcomes, strict=True) if not isinstance(outcome, DibsError)]

    def _cancel(self, task: Task) -> list[str]:
        """What failed is called off; the store does with those that wait for it as the rule says."""
        why = f"failed for good: {task.reason}"
        try:
            moved = self._desk.at(task.scope).move(Verb.CANCEL, task.id, reason=why, on_cancel=self._rule)
        except DibsError:  # a person has decided otherwise in the meantime
            return []
        return [task.id, *moved.canceled]


def _attempt(task: Task) -> tuple[str, str, int]:
    return task.scope, task.id, task.attempt
