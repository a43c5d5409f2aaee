"""Why a task is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.conversation.plan import state, waits_text
from dibs.core.task import LinkKind, Status

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.chat.conversation.plan import Item, Plan
    from dibs.core.task import Task

_AHEAD = 5


def why_text(task: Task, plan: Plan, now: datetime) -> str:
    item = next(item for item in plan.order if item.task.id == task.id)
    if task.held(now):
        return f"'{task.title}' is not waiting: {state(item, now)}."
    if task.status in {Status.PAUSED, Status.BLOCKED, Status.ESCALATED, Status.REVIEW}:
        return f"'{task.title}' is {state(item, now)}." + (_also(item) if item.gated else "")
    if item.gated:
        return _gated(item, plan, now)
    ahead = [other.task.title for other in plan.order if _goes_before(other, item, plan)]
    if not ahead:
        return f"Nothing holds '{task.title}': it is {state(item, now)}, and next in line."
    shown = ", ".join(ahead[:_AHEAD]) + (f" and {len(ahead) - _AHEAD} more" if len(ahead) > _AHEAD else "")
    return f"Nothing holds '{task.title}': it is {state(item, now)}. Ahead of it in line: {shown}."


def _gated(item: Item, plan: Plan, now: datetime) -> str:
    lines = [f"'{item.task.title}' waits for:"]
    items = {one.task.id: one for one in plan.order}
    for wait in item.waits:
        if wait.kind is LinkKind.BLOCKS:
            why = f", {wait.because}" if wait.because else ""
            lines.append(f"  - {wait.on.title} [{state(items[wait.on.id], now)}]{why}")
    return "\n".join(lines)


def _also(item: Item) -> str:
    return f" It also waits for {waits_text(wait for wait in item.waits if wait.kind is LinkKind.BLOCKS)}."


def _goes_before(other: Item, item: Item, plan: Plan) -> bool:
    """What will be picked up earlier, of what can be picked up at all."""
    ready = other.task.status in {Status.READY, Status.ACTIVE} and not other.gated
    return ready and plan.order.index(other) < plan.order.index(item)
