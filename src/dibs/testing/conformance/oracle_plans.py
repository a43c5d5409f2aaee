"""The oracle's way with plans: compare task by task, and change what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import CycleDetected, PlanInvalid
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Link, LinkKind, Status

from .oracle import OVER, Oracle, holder_or

if TYPE_CHECKING:
    from dibs.core.plan import Plan, PlannedTask
    from dibs.core.task import Actor, Task

REMOVED = "removed from the plan"


class Planned(NamedTuple):
    """What a plan changed, by name."""

    insert: list[str]
    edit: list[str]
    reopen: list[str]
    remove: list[str]
    link: list[tuple[str, str, str]]
    unlink: list[tuple[str, str, str]]
    skipped_done: list[str]
    skipped_active: list[str]
    skipped_canceled: list[str]


class PlanningOracle(Oracle):
    def apply_plan(self, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor) -> Planned:
        named = {planned.draft.id for planned in plan.tasks}
        for planned in plan.tasks:
            parent = [planned.draft.parent] if planned.draft.parent else []
            for name in [*planned.blocked_by, *planned.feeds_from, *parent]:
                if name not in named and (scope, name) not in self.tasks:
                    raise PlanInvalid(name)
        return self.atomically(lambda: self._apply(scope, plan, on_cancel, by))

    def _apply(self, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor) -> Planned:
        done = Planned([], [], [], [], [], [], [], [], [])
        for planned in plan.tasks:
            self._plan_one(scope, planned, by, done)
        for name in {name for s, name in self.tasks if s == scope}:
            if name in self._before_all(scope, name):
                raise CycleDetected([name, name])
        named = {planned.draft.id for planned in plan.tasks}
        for task in self.all():
            stray = task.scope == scope and task.id not in named and task.spec_ref in plan.specs
            if stray and task.status not in OVER:
                (done.skipped_active if self.live(task) else done.remove).append(task.id)
        for name in done.remove:
            self._remove(self.get(scope, name), by)
        if on_cancel is not CanceledBlocker.RESOLVES:
            for name in done.remove:
                self._draw_along(self.get(scope, name), by, on_cancel)
        return done

    def _before_all(self, scope: str, name: str) -> set[str]:
        seen: set[str] = set()
        look = list(self._before(scope, name))
        while look:
            here = look.pop()
            if here not in seen:
                seen.add(here)
                look += self._before(scope, here)
        return seen

    def _plan_one(self, scope: str, planned: PlannedTask, by: Actor, done: Planned) -> None:
        name = planned.draft.id
        wanted = dict.fromkeys(planned.feeds_from, LinkKind.FEEDS_INTO) | dict.fromkeys(
            planned.blocked_by, LinkKind.BLOCKS
        )
        task = self.tasks.get((scope, name))
        if task is None:
            done.insert.append(name)
            self._insert(scope, planned.draft, by)
            self._plan_links(scope, name, wanted, {}, by, done)
            return
        if task.status is Status.DONE:
            done.skipped_done.append(name)
            return
        removed = task.status is Status.CANCELED and task.reason == REMOVED
        if task.status is Status.CANCELED and not removed:
            done.skipped_canceled.append(name)
            return
        own = {edge.on: edge.kind for edge in self.edges_of(scope, name)}
        ordering = {on: kind for on, kind in own.items() if kind is not LinkKind.PARALLEL_OK}
        changes = self._differences(task, planned.edit)
        if not changes and not removed and ordering == wanted:
            return
        if self.live(task):
            done.skipped_active.append(name)
            return
        if removed:
            done.reopen.append(name)
            after = self._after_idling(task, Move(Verb.REOPEN, name, scope))
            after = after._replace(status=Status.READY, updated_at=self.now)
            self.put(after)
            self._tell(task, "reopen", by, Status.READY, None)
        if changes:
            done.edit.append(name)
            self._amend(self.tasks[scope, name], changes, by, check=False)
        self._plan_links(scope, name, wanted, own, by, done)

    def _plan_links(
        self, scope: str, name: str, wanted: dict[str, LinkKind], own: dict[str, LinkKind], by: Actor, done: Planned
    ) -> None:
        for on, kind in own.items():
            if kind is not LinkKind.PARALLEL_OK and on not in wanted:
                done.unlink.append((name, on, kind))
                self._unlink(scope, Link(name, on, kind), by)
        for on, kind in wanted.items():
            if own.get(on) is not kind:
                done.link.append((name, on, kind))
                self._put_link(scope, Link(name, on, kind, detected_by="plan"), by)

    def _remove(self, task: Task, by: Actor) -> None:
        after = self._without_lease(task, Verb.CANCEL) if task.lease else task
        self.put(after._replace(status=Status.CANCELED, reason=REMOVED, finished_at=self.now, updated_at=self.now))
        self._tell(task, "cancel", holder_or(task, by), Status.CANCELED, REMOVED)
