"""The fleet: registered agents, enrolled agents with their limits, and assignments.

A transaction that gives tasks to an enrolled agent locks the agent's row and counts its tasks in a later statement: the
locking statement may have waited, so its snapshot may be old. An agent's row is locked before any task's row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, fleet
from dibs.core.errors import AlreadyExists, DibsError, NotFound
from dibs.core.fleet import SEEN_EVERY, Member
from dibs.stores.postgres.rows import agent_from, task_from
from dibs.stores.postgres.tasks import write_edited

if TYPE_CHECKING:
    from dibs.core.fleet import Agent, Assignment, Profile
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Actor, Task
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row
    from dibs.stores.postgres.transaction import Transaction


class PostgresFleet:
    """The optional part `fleet` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        row = self._database.write(lambda tx: tx.one("register", (agent, host, pid)))
        if row is None:
            raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
        return agent_from(row)

    def deregister(self, agent: str) -> Agent:
        row = self._database.write(lambda tx: tx.one("deregister", (agent,)))
        if row is None:
            raise NotFound(f"No agent '{agent}' is registered.")
        return agent_from(row)

    def agents(self) -> list[Agent]:
        return [agent_from(row) for row in self._database.rows("agents")]

    def enrol(self, profile: Profile) -> Member:
        return self._database.write(lambda tx: _enrol(tx, profile))

    def dismiss(self, agent: str) -> Member:
        return self._database.write(lambda tx: _dismiss(tx, agent))

    def members(self) -> list[Member]:
        return self._database.read(
            lambda tx: [_member_from(row) for row in tx.all("members", {"agent": None, "now": tx.now})]
        )

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        return self._database.write(lambda tx: _assign(tx, asked, by))


def _enrol(tx: Transaction, profile: Profile) -> Member:
    tx.run("put_member", (profile.agent, profile.role, list(profile.can), profile.limit, tx.now, tx.now))
    return _member(tx, profile.agent)


def _dismiss(tx: Transaction, agent: str) -> Member:
    lock(tx, agent)
    member = _member(tx, agent)
    tx.run("drop_member", (agent,))
    return member


def _member(tx: Transaction, agent: str) -> Member:
    row = tx.one("members", {"agent": agent, "now": tx.now})
    if row is None:
        raise fleet.not_enrolled(agent)
    return _member_from(row)


def _member_from(row: Row) -> Member:
    agent, role, can, *rest = row
    return Member(agent, role, tuple(can), *rest)


def lock(tx: Transaction, agent: str) -> Row | None:
    """An enrolled agent's limit and last request, or None."""
    return tx.one("lock_member", (agent,))


def bounded(tx: Transaction, request: ClaimRequest) -> ClaimRequest | DibsError:
    """Reduce a request to the agent's limit, and record that the agent asked."""
    row = lock(tx, request.agent)
    if row is None:
        return request
    limit, seen_at = row
    if tx.now - seen_at >= SEEN_EVERY:
        tx.run("see_member", (tx.now, request.agent))
    return fleet.bounded(request, tx.value("held_by", (tx.now, request.agent)), limit)


def _assign(tx: Transaction, asked: Assignment, by: Actor) -> list[Task | DibsError]:
    if asked.agent is not None:
        lock(tx, asked.agent)
    member = None if asked.agent is None else _member(tx, asked.agent)
    tx.hint()
    return fleet.given_out(asked, member, lambda scope, task: _assigned(tx, scope, task, asked, by))


def _assigned(tx: Transaction, scope: str, task_id: str, asked: Assignment, by: Actor) -> Task:
    row = tx.one("lock_task", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    task = task_from(row)
    after = fleet.assigned(task, asked, tx.now)
    write_edited(tx, row, after, events.assigned(task, after, by))
    return after
