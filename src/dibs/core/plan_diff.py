"""The difference between a plan and what there is: that is what gets done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import PlanInvalid
from dibs.core.plan import REMOVED, PlanChanges
from dibs.core.task import Edit, Link, LinkKind, Status, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dibs.core.plan import Plan, PlannedTask


def diff(plan: Plan, tasks: Sequence[Task], links: Sequence[Link], known: set[str], now: datetime) -> PlanChanges:
    """Compare a plan with the tasks it names or may remove, and with their links.

    `tasks` are the store's tasks that the plan names or whose spec is among the plan's; `links` are those tasks' own;
    `known` are the ids that a planned task may depend on beside the planned ones.
    """
    current = {task.id: task for task in tasks}
    own: dict[str, dict[str, Link]] = {}
    for link in links:
        own.setdefault(link.task, {})[link.on] = link
    named = {planned.id for planned in plan.tasks}
    reachable = named | known
    found = _Changes()
    for planned in plan.tasks:
        _refuse_unknown(planned, reachable)
        task = current.get(planned.id)
        if task is not None and _left_alone(task, plan, found):
            continue
        _compare(planned, task, own.get(planned.id, {}), now, found)
    for task in sorted(tasks, key=lambda task: task.id):
        if task.id not in named and task.spec_ref in plan.specs and not task.finished:
            (found.skipped_active if task.held(now) else found.remove).append(task.id)
    return found.frozen()


class _Changes:
    """PlanChanges while they are being gathered."""

    def __init__(self) -> None:
        self.insert: list[PlannedTask] = []
        self.edit: list[tuple[str, Edit]] = []
        self.reopen: list[str] = []
        self.remove: list[str] = []
        self.link: list[Link] = []
        self.unlink: list[Link] = []
        self.skipped_done: list[str] = []
        self.skipped_active: list[str] = []
        self.skipped_canceled: list[str] = []

    def frozen(self) -> PlanChanges:
        return PlanChanges(**{name: tuple(getattr(self, name)) for name in PlanChanges._fields})


def _left_alone(task: Task, plan: Plan, found: _Changes) -> bool:
    """What is done stays done, and what a person called off stays so unless the plan says otherwise."""
    if task.status is Status.DONE:
        found.skipped_done.append(task.id)
        return True
    if task.status is Status.CANCELED and task.reason != REMOVED and not plan.revives:
        found.skipped_canceled.append(task.id)
        return True
    return False


def _compare(planned: PlannedTask, task: Task | None, own: Mapping[str, Link], now: datetime, found: _Changes) -> None:
    wanted = {link.on: link for link in planned.links()}
    if task is None:
        found.insert.append(planned)
        found.link += wanted.values()
        return
    edits = planned.edit.changed(task)
    missing = [link for on, link in wanted.items() if on not in own or own[on].kind is not link.kind]
    stale = [link for on, link in own.items() if link.kind is not LinkKind.PARALLEL_OK and on not in wanted]
    reopened = task.status is Status.CANCELED
    if not (edits or missing or stale or reopened):
        return
    if task.held(now):
        found.skipped_active.append(task.id)
        return
    if reopened:
        found.reopen.append(task.id)
    if edits:
        found.edit.append((task.id, Edit(**edits)))  # type: ignore[arg-type]  # a subset of an Edit's own fields
    found.link += missing
    found.unlink += stale


def _refuse_unknown(planned: PlannedTask, known: set[str]) -> None:
    parent = planned.draft.parent
    for on in (*planned.blocked_by, *planned.feeds_from, *([parent] if parent else [])):
        if on not in known:
            raise PlanInvalid(
                f"'{planned.id}' refers to '{on}', which is neither planned nor in the store", line=planned.line
            )
