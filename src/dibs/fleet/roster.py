"""The enrolled agents: enrol them, and dismiss them with no task left assigned to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import NotFound
from dibs.core.fleet import Assignment, dispatched, not_enrolled
from dibs.core.task import Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Member, Profile
    from dibs.core.task import Task
    from dibs.desk import Desk


class Roster:
    """Raises Unsupported for a store that keeps no fleet."""

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
        """The tasks that an agent works on or is assigned."""
        free = self._desk.find(Query(assigned_to=agent, statuses=(Status.READY,)))
        return [*self._desk.find(Query(agent=agent, statuses=(Status.ACTIVE,))), *free]

    def remove(self, agent: str) -> tuple[Member, list[str]]:
        """Dismiss an agent: its last state, and the tasks that are no longer assigned. It keeps the tasks it holds."""
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
