"""Short words for what the desk tests do all the time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dibs.core.task import Draft
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk

HOUR = timedelta(hours=1)


def add(desk: Desk, *ids: str, **fields: Any) -> list[Task]:
    return desk.add([Draft(f"Task {task}", id=task, **fields) for task in ids])


def hold(desk: Desk, ref: str, agent: str = "ann", **more: Any) -> str:
    (claimed,) = desk.claim(agent, refs=[ref], **more)
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def state(desk: Desk) -> list[Task]:
    return desk.find(Query("home"))
