"""Enrolled agents, the role that a task is for, and the agent that gets it.

A task names its role, or its kind of deliverable is routed to one. Tasks come in the order in which they would be
claimed. Each goes to the least loaded agent that has the role, the capabilities and room, and is present. A task that
no agent can take now waits; a task that no agent could ever do is an error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import NotFound
from dibs.core.fleet import ANY_ROLE, ROLE_FIELD, Assignment, Member, dispatched, not_enrolled
from dibs.core.task import Status, Task
from dibs.core.times import backoff
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Member, Profile
    from dibs.core.task import Task
    from dibs.desk import Desk


class Roster:
    """Enrolled agents. Raises Unsupported for a store without them."""

    def __init__(self, desk: Desk) -> None:
        desk.need_fleet()
        self._desk = desk

    def add(self, profiles: Sequence[Profile]) -> list[Member]:
        """Enrol agents, or change the profiles of enrolled ones."""
        for profile in profiles:
            checks.profile(profile)  # all of them, before the first is enrolled
        return [self._desk.enrol(profile) for profile in profiles]

    def members(self) -> list[Member]:
        return self._desk.members()

    def get(self, agent: str) -> Member:
        found = [member for member in self.members() if member.agent == agent]
        if not found:
            raise not_enrolled(agent)
        return found[0]

    def holds(self, agent: str) -> list[Task]:
        """The tasks that an agent holds or is assigned."""
        free = self._desk.find(Query(assigned_to=agent, statuses=(Status.READY,)))
        return [*self._desk.find(Query(agent=agent, statuses=(Status.ACTIVE,))), *free]

    def remove(self, agent: str) -> tuple[Member, list[str]]:
        """Remove an agent and unassign its tasks, but not those that it holds. Return its last state and the tasks."""
        name = checks.name_of("agent", agent)
        try:
            member = self._desk.dismiss(name)
        except NotFound:
            self.take_back(name)  # an earlier removal may have been interrupted here
            raise
        return member, self.take_back(name)

    def assign(self, asked: Assignment) -> list[Task | DibsError]:
        return self._desk.assign(asked)

    def take_back(self, agent: str, scope: str | None = None) -> list[str]:
        """Unassign the tasks of an agent that it does not hold."""
        idle = self._desk.find(Query(scope, (Status.READY, Status.ACTIVE), assigned_to=agent))
        given = tuple((task.scope, task.id) for task in idle if dispatched(task))
        if not given:
            return []
        outcomes = self.assign(Assignment(given, None, agent))
        return [task for (_, task), outcome in zip(given, outcomes, strict=True) if not isinstance(outcome, Exception)]


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


def covers(role: str, task: Task, routing: Mapping[str, str] = ROUTING) -> bool:
    """Whether an agent with this role may claim unassigned tasks."""
    return role_of(task, routing) in {role, ANY_ROLE}


class QueuedTask(NamedTuple):
    """A task that waits for a role, and the number of tasks before it."""

    task: Task
    role: str
    ahead: int


class RoutingProblem(NamedTuple):
    task: Task
    error: str


class Placement(NamedTuple):
    """`given` has the tasks for each agent, in order; `room` is how many tasks present agents can still take."""

    given: Mapping[str, Sequence[Task]]
    queued: tuple[QueuedTask, ...]
    troubles: tuple[RoutingProblem, ...]
    room: int


def place(
    ready: Sequence[Task], members: Sequence[Member], now: datetime, routing: Mapping[str, str] = ROUTING
) -> Placement:
    """Place free tasks, in their order, on agents with their current load."""
    free = {member.agent: member.limit - member.load for member in members if member.present(now)}
    given: dict[str, list[Task]] = {}
    lines: dict[str, int] = {}
    queued, troubles = [], []
    for task in ready:
        if resting(task, now):
            continue
        role = role_of(task, routing)
        able = [one for one in members if covers(one.role, task, routing) and set(task.requires) <= set(one.can)]
        if not able:
            troubles.append(RoutingProblem(task, _why_unroutable(task, role, members)))
            continue
        willing = [one for one in able if free.get(one.agent, 0) > 0]
        if not willing:
            queued.append(QueuedTask(task, role, lines.get(role, 0)))
            lines[role] = lines.get(role, 0) + 1
            continue
        chosen = min(willing, key=lambda one: (one.limit - free[one.agent], one.agent)).agent
        free[chosen] -= 1
        given.setdefault(chosen, []).append(task)
    return Placement(given, tuple(queued), tuple(troubles), sum(room for room in free.values() if room > 0))


def resting(task: Task, now: datetime) -> bool:
    """Whether it failed a short while ago and sets no pause."""
    if task.status is not Status.READY or task.ended != "fail" or task.not_before is not None:
        return False
    return now < task.updated_at + backoff(max(0, task.retries - 1))


def _why_unroutable(task: Task, role: str, members: Sequence[Member]) -> str:
    if not any(one.role == role for one in members):
        return f"No enrolled agent has the role '{role}'."
    return f"No agent with the role '{role}' can do what it requires: {', '.join(task.requires)}."


_SHOWN = 3  # scopes named in one line
_LOOK_EVERY = 5.0  # seconds


class Unserved:
    """Reports each scope once that has work which agents of a single scope cannot claim."""

    def __init__(self, desk: Desk, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._tell, self._clock = desk, tell, clock
        self._known: set[str] = set()
        self._due = 0.0

    def look(self) -> None:
        """Look, if the interval is over."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _LOOK_EVERY
        fresh = [scope for scope in self._desk.scopes(claimable=True) if scope not in {self._desk.scope, *self._known}]
        if fresh:
            self._known.update(fresh)
            names = ", ".join(scope if len(scope) <= _NAME else f"{scope[:_NAME]}…" for scope in fresh[:_SHOWN])
            more = f" and {len(fresh) - _SHOWN} more" if len(fresh) > _SHOWN else ""
            self._tell(
                f"Work is ready in {names}{more}, which is not served here: only '{self._desk.scope}' is. "
                "Add --any-scope to serve all of them."
            )


_NAME = 24  # characters of a scope that are shown
