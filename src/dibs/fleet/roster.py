"""Who belongs to the fleet: taking agents in, and letting them go with nothing left in their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import NotFound
from dibs.core.fleet import Assignment, dispatched, not_enrolled
from dibs.core.task import Status
from dibs.stores.port import Query, need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Member, Profile
    from dibs.core.task import Actor, Task
    from dibs.stores.port import Store


class Roster:
    def __init__(self, store: Store, by: Actor) -> None:
        self._store = store
        self._fleet = need(store.fleet, "fleet")
        self._by = by

    def add(self, profiles: Sequence[Profile]) -> list[Member]:
        """Who is a member already becomes what the profile says."""
        return [self._fleet.enrol(profile) for profile in [checks.profile(each) for each in profiles]]

    def members(self) -> list[Member]:
        return self._fleet.members()

    def get(self, agent: str) -> Member:
        found = [member for member in self._fleet.members() if member.agent == agent]
        if not found:
            raise not_enrolled(agent)
        return found[0]

    def holds(self, agent: str) -> list[Task]:
        """What it is working on or has been given."""
        free = self._store.find(Query(assigned_to=agent, statuses=(Status.READY,)))
        return [*self._store.find(Query(agent=agent, statuses=(Status.ACTIVE,))), *free]

    def remove(self, agent: str) -> tuple[Member, list[str]]:
        """As it was, and which tasks it had been given that are now anybody's. What it works on stays its own."""
        name = checks.name_of("agent", agent)
        try:
            member = self._fleet.dismiss(name)
        except NotFound:
            self.take_back(name)  # somebody may have been interrupted here
            raise
        return member, self.take_back(name)

    def assign(self, asked: Assignment) -> list[Task | DibsError]:
        return self._fleet.assign(asked, self._by)

    def take_back(self, agent: str, scope: str | None = None) -> list[str]:
        """What an agent has been given and nobody is working on goes back to the others."""
        idle = self._store.find(Query(scope, (Status.READY, Status.ACTIVE), assigned_to=agent))
        given = tuple((task.scope, task.id) for task in idle if dispatched(task))
        if not given:
            return []
        outcomes = self.assign(Assignment(given, None, agent))
        return [task for (_, task), outcome in zip(given, outcomes, strict=True) if not isinstance(outcome, Exception)]
