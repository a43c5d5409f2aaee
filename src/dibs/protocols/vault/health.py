"""How an agent is doing, in figures that add up."""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from dibs.core.task import Json
from dibs.core.times import time_from, time_text
from dibs.stores.vault.names import SUFFIX, agent_folder
from dibs.stores.vault.places import IN_PROGRESS

HEALTHY, DEGRADED, ERROR = "healthy", "degraded", "error"

_FAILED_ROUNDS = 3  # in a row, and the agent counts as broken
_REMEMBERED = timedelta(minutes=5)  # for so long an error makes it count as degraded


class State(NamedTuple):
    """What an agent knows of itself, since its start."""

    agent: str
    role: str
    run: str
    pid: int
    started_at: datetime
    last_activity: datetime
    total_claims: int = 0
    lost: int = 0  # claims that others got first
    claim_errors: int = 0
    done: int = 0
    failed: int = 0
    lost_leases: int = 0
    error_count: int = 0
    last_error: str | None = None
    last_error_at: datetime | None = None
    failed_rounds: int = 0  # in a row
    offline: bool = False
    ended_at: datetime | None = None

    @property
    def success_rate(self) -> float:
        """Of all claims tried; without any, nothing has gone wrong."""
        tried = self.total_claims + self.lost + self.claim_errors
        return round(self.total_claims / tried, 4) if tried else 1.0

    def as_json(self) -> dict[str, Json]:
        return {**self._asdict(), **{name: time_text(when) for name in _TIMES if (when := getattr(self, name))}}


_TIMES = ("started_at", "last_activity", "last_error_at", "ended_at")


def state_from(data: Mapping[str, Json]) -> State:
    """Read back what `as_json` gave; ValueError, KeyError or TypeError if it is something else."""
    values = {name: data[name] for name in State._fields if name in data}
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = time_from(str(values[name]))  # type: ignore[assignment]  # a time again
    return State(**values)  # type: ignore[arg-type]  # its own fields


def report(state: State, active: int, now: datetime, *, running: bool = True) -> dict[str, Json]:
    """The document of /health, as the contract has it."""
    end = now if running or state.ended_at is None else state.ended_at
    return {
        "status": status_of(state, now) if running else ERROR,
        "timestamp": time_text(now),
        "last_activity": time_text(state.last_activity),
        "uptime_seconds": round((end - state.started_at).total_seconds(), 3),
        "error_count": state.error_count,
        "last_error": state.last_error,
        "running": running,
        "role": state.role,
        "offline": state.offline,
        "tasks": {"done": state.done, "failed": state.failed, "lost_leases": state.lost_leases},
        "coordination": {
            "agent_name": state.agent,
            "active_claims": active,
            "total_claims": state.total_claims,
            "claim_conflicts_avoided": state.lost,
            "claim_success_rate": state.success_rate,
        },
    }


def status_of(state: State, now: datetime) -> str:
    if state.failed_rounds >= _FAILED_ROUNDS:
        return ERROR
    recent = state.last_error_at is not None and now - state.last_error_at < _REMEMBERED
    return DEGRADED if state.offline or state.failed_rounds or recent else HEALTHY


def active_claims(root: str, agent: str) -> int:
    """How many files lie in the agent's folder: where they lie is what counts."""
    folder = os.path.join(root, IN_PROGRESS, agent_folder(agent))
    return sum(name.endswith(SUFFIX) and not name.startswith(".") for _, _, found in os.walk(folder) for name in found)
