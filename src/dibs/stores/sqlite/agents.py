"""Who is at work: registrations, which prove nothing and gate nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.agent import Agent, AgentStatus
from dibs.core.errors import AlreadyExists, NotFound
from dibs.stores.sqlite.rows import from_micros, micros_or_none, moment_or_none, to_micros

if TYPE_CHECKING:
    from dibs.stores.sqlite.database import Transaction
    from dibs.stores.sqlite.rows import Row


def register(tx: Transaction, agent: str, host: str | None, pid: int | None) -> Agent:
    known = tx.one("agent_by_id", (agent,))
    if known is not None and _agent(known).status is AgentStatus.ACTIVE:
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put(tx, Agent(agent, host, pid, tx.now))


def deregister(tx: Transaction, agent: str) -> Agent:
    row = tx.one("agent_by_id", (agent,))
    if row is None:
        raise NotFound(f"No agent '{agent}' is registered.")
    known = _agent(row)
    if known.status is AgentStatus.GONE:
        return known
    return _put(tx, known._replace(status=AgentStatus.GONE, ended_at=tx.now))


def everyone(tx: Transaction) -> list[Agent]:
    return [_agent(row) for row in tx.all("agents")]


def _put(tx: Transaction, agent: Agent) -> Agent:
    times = (to_micros(agent.started_at), agent.status.value, micros_or_none(agent.ended_at))
    tx.run("put_agent", (agent.id, agent.host, agent.pid, *times))
    return agent


def _agent(row: Row) -> Agent:
    name, host, pid, started_at, status, ended_at = row
    return Agent(name, host, pid, from_micros(started_at), AgentStatus(status), moment_or_none(ended_at))
