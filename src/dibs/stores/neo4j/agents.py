"""Who is at work: registrations, which prove nothing and gate nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.agent import Agent, AgentStatus
from dibs.core.errors import AlreadyExists, NotFound
from dibs.stores.neo4j.rows import agent_from, agent_values

if TYPE_CHECKING:
    from dibs.stores.neo4j.transaction import Transaction


def register(tx: Transaction, agent: str, host: str | None, pid: int | None) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is not None and agent_from(row["agent"]).status is AgentStatus.ACTIVE:
        if row["agent"].get("mark") == tx.mark:  # this very request; its answer was lost
            return agent_from(row["agent"])
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put(tx, Agent(agent, host, pid, tx.now))


def deregister(tx: Transaction, agent: str) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is None:
        raise NotFound(f"No agent '{agent}' is registered.")
    known = agent_from(row["agent"])
    if known.status is AgentStatus.GONE:
        return known
    return _put(tx, known._replace(status=AgentStatus.GONE, ended_at=tx.now))


def everyone(tx: Transaction) -> list[Agent]:
    return [agent_from(row["agent"]) for row in tx.all("agents")]


def _put(tx: Transaction, agent: Agent) -> Agent:
    tx.all("put_agent", id=agent.id, values=agent_values(agent) | {"desk": tx.desk, "mark": tx.mark})
    return agent
