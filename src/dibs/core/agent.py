"""Who has said that it is at work. A registration is a courtesy to people; it proves nothing and gates nothing."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class AgentStatus(StrEnum):
    ACTIVE = "active"
    GONE = "gone"


class Agent(NamedTuple):
    """One registered agent. `id` is unique within a store; `pid` and `host` say where it runs."""

    id: str
    host: str | None
    pid: int | None
    started_at: datetime
    status: AgentStatus = AgentStatus.ACTIVE
    ended_at: datetime | None = None
