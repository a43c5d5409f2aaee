"""Blocked tasks that someone wanted to look at again by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.core.task import Task


def overdue_among(tasks: Iterable[Task], now: datetime) -> list[Task]:
    """The longest overdue comes first."""
    found = [
        (task.next_check_at, task.id, task)
        for task in tasks
        if task.status is Status.BLOCKED and task.next_check_at is not None and task.next_check_at <= now
    ]
    return [task for *_, task in sorted(found, key=lambda one: one[:2])]
