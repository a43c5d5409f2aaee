"""The fleet: registered agents, enrolled agents with their limits, and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, fleet
from dibs.core.errors import AlreadyExists, DibsError, NotFound
from dibs.core.fleet import SEEN_EVERY, Agent, AgentStatus, Member
from dibs.stores.sqlite.rows import from_micros, micros_or_none, moment_or_none, task_from, to_json, to_micros
from dibs.stores.sqlite.tasks import write_edited

if TYPE_CHECKING:
    from dibs.core.fleet import Assignment, Profile
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Actor, Task
    from dibs.stores.sqlite.database import Database, Transaction
    from dibs.stores.sqlite.rows import Row


class SqliteFleet:
    """The optional part `fleet` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        return self._database.change(lambda tx: _register(tx, agent, host, pid))

    def deregister(self, agent: str) -> Agent:
        return self._database.change(lambda tx: _deregister(tx, agent))

    def agents(self) -> list[Agent]:
        with self._database.read() as tx:
            return [_agent(row) for row in tx.all("agents")]

    def enrol(self, profile: Profile) -> Member:
        return self._database.change(lambda tx: _enrol(tx, profile))

    def dismiss(self, agent: str) -> Member:
        return self._database.change(lambda tx: _dismiss(tx, agent))

    def members(self) -> list[Member]:
        with self._database.read() as tx:
            return [_member_from(row) for row in tx.all("members", {"agent": None, "now": tx.micros})]

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        return self._database.change(lambda tx: _assign(tx, asked, by))


def _register(tx: Transaction, agent: str, host: str | None, pid: int | None) -> Agent:
    known = tx.one("agent_by_id", (agent,))
    if known is not None and _agent(known).status is AgentStatus.ACTIVE:
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put_agent(tx, Agent(agent, host, pid, tx.now))


def _deregister(tx: Transaction, agent: str) -> Agent:
    row = tx.one("agent_by_id", (agent,))
    if row is None:
        raise NotFound(f"No agent '{agent}' is registered.")
    known = _agent(row)
    if known.status is AgentStatus.GONE:
        return known
    return _put_agent(tx, known._replace(status=AgentStatus.GONE, ended_at=tx.now))


def _enrol(tx: Transaction, profile: Profile) -> Member:
    stated = (profile.agent, profile.role, to_json(profile.can), profile.limit)
    tx.run("put_member", (*stated, tx.micros, tx.micros))
    return _member(tx, profile.agent)


def _dismiss(tx: Transaction, agent: str) -> Member:
    member = _member(tx, agent)
    tx.run("drop_member", (agent,))
    return member


def _assign(tx: Transaction, asked: Assignment, by: Actor) -> list[Task | DibsError]:
    member = None if asked.agent is None else _member(tx, asked.agent)
    return fleet.given_out(asked, member, lambda scope, task: _assigned(tx, scope, task, asked, by))


def _put_agent(tx: Transaction, agent: Agent) -> Agent:
    times = (to_micros(agent.started_at), agent.status.value, micros_or_none(agent.ended_at))
    tx.run("put_agent", (agent.id, agent.host, agent.pid, *times))
    return agent


def _agent(row: Row) -> Agent:
    name, host, pid, started_at, status, ended_at = row
    return Agent(name, host, pid, from_micros(started_at), AgentStatus(status), moment_or_none(ended_at))


def _member(tx: Transaction, agent: str) -> Member:
    row = tx.one("members", {"agent": agent, "now": tx.micros})
    if row is None:
        raise fleet.not_enrolled(agent)
    return _member_from(row)


def _member_from(row: Row) -> Member:
    import json

    agent, role, can, limit, enrolled_at, seen_at, held, waiting = row
    times = (from_micros(enrolled_at), from_micros(seen_at))
    return Member(agent, role, tuple(json.loads(can)), limit, *times, held, waiting)


def bounded(tx: Transaction, request: ClaimRequest, limit: int, seen_at: int, held: int) -> ClaimRequest | DibsError:
    """As much of a request as a member may have that has so many; and who asks is seen."""
    if tx.now - from_micros(seen_at) >= SEEN_EVERY:
        tx.run("see_member", (tx.micros, request.agent))
    return fleet.bounded(request, held, limit)


def _assigned(tx: Transaction, scope: str, task_id: str, asked: Assignment, by: Actor) -> Task:
    row = tx.one("task_by_id", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    task = task_from(row)
    after = fleet.assigned(task, asked, tx.now)
    write_edited(tx, row, after, events.assigned(task, after, by))
    return after
