"""The one order in which work is picked up, the same in every store: total, so two readers never disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dibs.core.task import ServiceClass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.core.task import Task

CLASS_RANK = {
    ServiceClass.EXPEDITE: 1,
    ServiceClass.FIXED_DATE: 2,
    ServiceClass.STANDARD: 3,
    ServiceClass.INTANGIBLE: 4,
}

OrderKey: TypeAlias = "tuple[int, bool, float, datetime, str, str]"


def page(tasks: Iterable[Task], after: OrderKey | None, limit: int | None) -> list[Task]:
    """The first of these that come after a place, in order: for who has no index that knows it."""
    beyond = (task for task in tasks if after is None or order_key(task) > after)
    return sorted(beyond, key=order_key)[:limit]


def order_key(task: Task) -> OrderKey:
    """Class, then what a user put first, then priority (lower first), then the queue, then id and scope."""
    rank = CLASS_RANK[task.service_class]
    return (rank, not task.override, task.priority, task.queued_at, task.id, task.scope)
