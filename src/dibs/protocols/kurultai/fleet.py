"""kurultai's six as members of the fleet: held to their limit, and shown with how busy they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists
from dibs.core.fleet import TASK_LIMIT, Profile
from dibs.protocols.kurultai.policy import FLEET

if TYPE_CHECKING:
    from dibs.core.fleet import Member
    from dibs.desk import Desk
    from dibs.protocols.kurultai.records import AgentRecord


class Fleet:
    """`limit` is for those who are no members yet, and for all six when they register; else the store's word holds.

    None leaves everybody as they are, and newcomers get the usual limit.
    """

    def __init__(self, desk: Desk, limit: int | None) -> None:
        self._desk = desk
        self._limit = limit
        self._known: set[str] = set()

    def enrol(self, agent: str) -> None:
        """Whoever claims under this name from now on gets no more than the limit."""
        if agent in self._known:
            return
        if agent not in self._members():
            self._desk.enrol(Profile(agent, agent, (), self._limit or TASK_LIMIT))
        self._known.add(agent)

    def register(self) -> None:
        """All six, for people to see; but for a limit that was given, those that are there already stay as they are."""
        for profile in FLEET:
            self.enrol(profile.id)
            if self._limit is not None:
                self._desk.enrol(Profile(profile.id, profile.id, (), self._limit))
            try:
                self._desk.register(profile.id)
            except AlreadyExists:
                continue

    def agents(self) -> list[AgentRecord]:
        """Who does what, and how busy they are."""
        registered = {agent.id for agent in self._desk.agents() if agent.ended_at is None}
        members = self._members()
        return [
            {
                "id": profile.id,
                "name": profile.name,
                "role": profile.role,
                "does": profile.does,
                "failover_for": profile.failover_for,
                "load": members[profile.id].held if profile.id in members else 0,
                "limit": members[profile.id].limit if profile.id in members else self._limit or TASK_LIMIT,
                "registered": profile.id in registered,
            }
            for profile in FLEET
        ]

    def load(self, agent: str) -> int:
        members = self._members()
        return members[agent].held if agent in members else 0

    def _members(self) -> dict[str, Member]:
        return {member.agent: member for member in self._desk.members()}
