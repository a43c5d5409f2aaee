"""Who is at work: registrations, which prove nothing and gate nothing, in one small file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dibs.core.agent import Agent, AgentStatus
from dibs.core.errors import AlreadyExists, NotFound, StoreCorrupt
from dibs.core.times import time_from, time_text
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from dibs.stores.vault.turns import Alone, Turn


def register(tx: Alone, agent: str, host: str | None, pid: int | None) -> Agent:
    known = {one.id: one for one in everyone(tx)}
    if agent in known and known[agent].status is AgentStatus.ACTIVE:
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put(tx, known, Agent(agent, host, pid, tx.now))


def deregister(tx: Alone, agent: str) -> Agent:
    known = {one.id: one for one in everyone(tx)}
    if agent not in known:
        raise NotFound(f"No agent '{agent}' is registered.")
    if known[agent].status is AgentStatus.GONE:
        return known[agent]
    return _put(tx, known, known[agent]._replace(status=AgentStatus.GONE, ended_at=tx.now))


def everyone(tx: Turn) -> list[Agent]:
    path = tx.vault.path(HOME, "agents.json")
    try:
        said = json.loads(tx.vault.disk.read(path).data)
        found = [_agent(item) for item in said]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError):
        raise StoreCorrupt(f"{path} is not what dibs wrote there. Delete it; it holds registrations only.") from None
    return sorted(found, key=lambda agent: (agent.started_at, agent.id))


def _put(tx: Alone, known: dict[str, Agent], agent: Agent) -> Agent:
    known[agent.id] = agent
    text = json.dumps([_json(one) for one in known.values()], ensure_ascii=False, indent=1)
    tx.vault.disk.replace(tx.vault.path(HOME, "agents.json"), f"{text}\n".encode())
    return agent


def _json(agent: Agent) -> dict[str, Any]:
    ended = agent.ended_at and time_text(agent.ended_at)
    return {**agent._asdict(), "started_at": time_text(agent.started_at), "ended_at": ended}


def _agent(item: dict[str, Any]) -> Agent:
    ended = item["ended_at"] and time_from(item["ended_at"])
    started = time_from(item["started_at"])
    return Agent(item["id"], item["host"], item["pid"], started, AgentStatus(item["status"]), ended)
