"""Which role a task is for: what it says itself, else what its kind of deliverable is routed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.fleet import ROLE_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Task

ROUTING: Mapping[str, str] = {
    "research": "researcher",
    "analysis": "analyst",
    "code": "developer",
    "content": "writer",
    "ops": "ops",
    "strategy": "analyst",
    "testing": "developer",
}
ROUTED_ELSE = "analyst"


def role_for(deliverable: str | None, routing: Mapping[str, str] = ROUTING) -> str:
    return routing.get(deliverable or "", ROUTED_ELSE)


def role_of(task: Task, routing: Mapping[str, str] = ROUTING) -> str:
    said = task.extra.get(ROLE_FIELD)
    return said if isinstance(said, str) and said else role_for(task.deliverable, routing)
