"""The fleet: registered agents, enrolled agents with their limits, and assignments.

Whatever adds to what a member has is done with its node locked, and counted in a statement after the one that locked
it. A member's node is locked after the scopes, and before the desk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, fleet
from dibs.core.errors import AlreadyExists, NotFound
from dibs.core.fleet import SEEN_EVERY, Agent, AgentStatus, Member
from dibs.stores.neo4j import tasks
from dibs.stores.neo4j.rows import agent_from, agent_values, moment_from

if TYPE_CHECKING:
    from dibs.core.errors import DibsError
    from dibs.core.fleet import Assignment, Profile
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Actor, Task
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction


class Neo4jFleet:
    """The optional part `fleet` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        return self._database.write(lambda tx: _register(tx, agent, host, pid), lock="lock_desk")

    def deregister(self, agent: str) -> Agent:
        return self._database.write(lambda tx: _deregister(tx, agent), lock="lock_desk")

    def agents(self) -> list[Agent]:
        return self._database.read(lambda tx: [agent_from(row["agent"]) for row in tx.all("agents")])

    def enrol(self, profile: Profile) -> Member:
        return self._database.write(lambda tx: _enrol(tx, profile), lock="look")

    def dismiss(self, agent: str) -> Member:
        return self._database.write(lambda tx: _dismiss(tx, agent), lock="look")

    def members(self) -> list[Member]:
        return self._database.read(lambda tx: [_member_from(row) for row in tx.all("members", agent=None, now=tx.now)])

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        scopes = {scope for scope, _ in asked.tasks}
        return self._database.write(lambda tx: _assign(tx, asked, by), scopes=scopes)


def _register(tx: Transaction, agent: str, host: str | None, pid: int | None) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is not None and agent_from(row["agent"]).status is AgentStatus.ACTIVE:
        if row["agent"].get("mark") == tx.mark:  # this very request; its answer was lost
            return agent_from(row["agent"])
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put_agent(tx, Agent(agent, host, pid, tx.now))


def _deregister(tx: Transaction, agent: str) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is None:
        raise NotFound(f"No agent '{agent}' is registered.")
    known = agent_from(row["agent"])
    if known.status is AgentStatus.GONE:
        return known
    return _put_agent(tx, known._replace(status=AgentStatus.GONE, ended_at=tx.now))


def _put_agent(tx: Transaction, agent: Agent) -> Agent:
    tx.all("put_agent", id=agent.id, values=agent_values(agent) | {"desk": tx.desk, "mark": tx.mark})
    return agent


def _enrol(tx: Transaction, profile: Profile) -> Member:
    said = {"role": profile.role, "capabilities": list(profile.can), "task_limit": profile.limit}
    tx.all("put_member", id=profile.agent, values=said, now=tx.now)
    return _member(tx, profile.agent)


def _dismiss(tx: Transaction, agent: str) -> Member:
    tx.one("lock_member", agent=agent)
    member = _member(tx, agent)
    tx.all("drop_member", agent=agent)
    return member


def _member(tx: Transaction, agent: str) -> Member:
    row = tx.one("members", agent=agent, now=tx.now)
    if row is None:
        raise fleet.not_enrolled(agent)
    return _member_from(row)


def _member_from(row: Row) -> Member:
    said = row["member"]
    times = (moment_from(said["enrolled_at"]), moment_from(said["seen_at"]))
    profile = (said["id"], said["role"], tuple(said["capabilities"]), said["task_limit"])
    return Member(*profile, *times, row["held"], row["waiting"])


def bounded(tx: Transaction, request: ClaimRequest) -> ClaimRequest | DibsError:
    """As much of a request as its asker may have; and a member that asks is seen."""
    row = tx.one("lock_member", agent=request.agent)
    if row is None:
        return request
    if tx.now - moment_from(row["seen_at"]) >= SEEN_EVERY:
        tx.all("see_member", agent=request.agent, now=tx.now)
    return fleet.bounded(request, tx.value("held_by", agent=request.agent, now=tx.now), row["limit"])


def _assign(tx: Transaction, asked: Assignment, by: Actor) -> list[Task | DibsError]:
    if asked.agent is not None:
        tx.one("lock_member", agent=asked.agent)
    member = None if asked.agent is None else _member(tx, asked.agent)
    return fleet.given_out(asked, member, lambda scope, task: _assigned(tx, scope, task, asked, by))


def _assigned(tx: Transaction, scope: str, task_id: str, asked: Assignment, by: Actor) -> Task:
    task = tasks.get(tx, scope, task_id)
    after = fleet.assigned(task, asked, tx.now)
    tasks.write(tx, task, after)
    tx.record(events.assigned(task, after, by))
    return after
