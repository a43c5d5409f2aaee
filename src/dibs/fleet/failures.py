"""What a task that failed for good means for those that wait for it: the rule for canceled prerequisites, applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import LinkKind, Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Actor, Task
    from dibs.stores.port import Store

_IDLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED})
_FAILED = frozenset({"fail", "exhaust"})  # how the last attempt of a task ended that has no retry left


class Failures:
    """Each is dealt with once by one that looks again and again; a second time would change nothing either."""

    def __init__(self, store: Store, by: Actor, scope: str | None, rule: CanceledBlocker) -> None:
        self._store = store
        self._by = by
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
        return self._store.find(Query(self._scope, (Status.ESCALATED,)))

    def _escalate_dependents(self, task: Task) -> list[str]:
        links = self._store.links(task.scope, task.id)
        waiting = [link.task for link in links if link.on == task.id and link.kind is LinkKind.BLOCKS]
        idle = [each for each in waiting if self._store.get(task.scope, each).status in _IDLE]
        why = f"prerequisite {task.id} failed"
        moves = [Move(Verb.ESCALATE, each, task.scope, self._by, reason=why) for each in idle]
        outcomes = self._store.move_all(moves, self._rule).outcomes if moves else ()
        return [each for each, outcome in zip(idle, outcomes, strict=True) if not isinstance(outcome, DibsError)]

    def _cancel(self, task: Task) -> list[str]:
        """What failed is called off; the store does with those that wait for it as the rule says."""
        why = f"failed for good: {task.reason}"
        move = Move(Verb.CANCEL, task.id, task.scope, self._by, reason=why)
        try:
            return [task.id, *self._store.move(move, self._rule).canceled]
        except DibsError:  # somebody has decided otherwise meanwhile
            return []


def _attempt(task: Task) -> tuple[str, str, int]:
    return task.scope, task.id, task.attempt
