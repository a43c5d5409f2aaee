"""The record of what happened: every transition and every claim attempt, with who, when and why."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dibs.core.task import Json, Status


class Outcome(StrEnum):
    """How it ended: `lost` is a holder who came too late, `refused` anyone who may not, or not now."""

    OK = "ok"
    LOST = "lost"
    REFUSED = "refused"


OTHER_VERBS = frozenset({"add", "edit", "link", "unlink", "import", "repair", "configure", "assign"})


class Event(NamedTuple):
    """`verb` is a lifecycle verb, one of OTHER_VERBS, or a protocol's own. `seq` is given by the store."""

    at: datetime
    scope: str
    task: str
    verb: str
    outcome: Outcome = Outcome.OK
    agent: str | None = None
    run: str | None = None
    attempt: int | None = None
    source: Status | None = None
    target: Status | None = None
    reason: str | None = None
    detail: Mapping[str, Json] = {}
    seq: int = 0
