"""Which role a task is for, and which agent gets it: a decision about known tasks and agents, without I/O.

A task names its role, or its kind of deliverable is routed to one. Tasks come in the order in which they would be
claimed. Each goes to the least loaded agent that has the role, the capabilities and room, and is present. A task that
no agent can take now waits; a task that no agent could ever do is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.core.fleet import ROLE_FIELD, Member
from dibs.core.task import Status, Task
from dibs.core.times import backoff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

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


class Queued(NamedTuple):
    """A task that has to wait for a role, and how many are before it in that line."""

    task: Task
    role: str
    ahead: int


class Trouble(NamedTuple):
    task: Task
    error: str


class Placing(NamedTuple):
    """`given` has the tasks for each agent, in order; `room` is how much all who are there could still take."""

    given: Mapping[str, Sequence[Task]]
    queued: tuple[Queued, ...]
    troubles: tuple[Trouble, ...]
    room: int


def place(
    ready: Sequence[Task], members: Sequence[Member], now: datetime, routing: Mapping[str, str] = ROUTING
) -> Placing:
    """`ready` are free tasks, `members` with what each has already."""
    free = {member.agent: member.limit - member.load for member in members if member.present(now)}
    given: dict[str, list[Task]] = {}
    lines: dict[str, int] = {}
    queued, troubles = [], []
    for task in ready:
        if resting(task, now):
            continue
        role = role_of(task, routing)
        able = [one for one in members if one.role == role and set(task.requires) <= set(one.can)]
        if not able:
            troubles.append(Trouble(task, _why_nobody(task, role, members)))
            continue
        willing = [one for one in able if free.get(one.agent, 0) > 0]
        if not willing:
            queued.append(Queued(task, role, lines.get(role, 0)))
            lines[role] = lines.get(role, 0) + 1
            continue
        chosen = min(willing, key=lambda one: (one.limit - free[one.agent], one.agent)).agent
        free[chosen] -= 1
        given.setdefault(chosen, []).append(task)
    return Placing(given, tuple(queued), tuple(troubles), sum(room for room in free.values() if room > 0))


def resting(task: Task, now: datetime) -> bool:
    """It failed a short while ago, and nobody said how long it is to be left alone."""
    if task.status is not Status.READY or task.ended != "fail" or task.not_before is not None:
        return False
    return now < task.updated_at + backoff(max(0, task.retries - 1))


def _why_nobody(task: Task, role: str, members: Sequence[Member]) -> str:
    if not any(one.role == role for one in members):
        return f"No member of the fleet has the role '{role}'."
    return f"Nobody who has the role '{role}' can do what it requires: {', '.join(task.requires)}."
