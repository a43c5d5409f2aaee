"""The check before any work: may this task be claimed, and why (not)?"""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.duration import in_words
from dibs.core.lifecycle import ClaimRequest, refusal
from dibs.core.task import Task
from dibs.protocols.mesh.policy import MESH
from dibs.protocols.mesh.tasks import claimed_by, timeout_of

if TYPE_CHECKING:
    from dibs.core.errors import DibsError


class Decision(StrEnum):
    CLAIM = "CLAIM"
    SKIP = "SKIP"


class Preflight(NamedTuple):
    """`stale` is a claim that no longer counts, and would be taken over."""

    decision: Decision
    why: str
    stale: bool = False
    error: "DibsError | None" = None


def preflight(task: Task, agent: str, now: datetime) -> Preflight:
    error = refusal(task, ClaimRequest(agent, (), task.scope), now)
    holder = claimed_by(task)
    status = MESH.say(task.status)
    if error is None:
        if task.lease is None:
            return Preflight(Decision.CLAIM, f"{status} and claimed by nobody")
        return Preflight(Decision.CLAIM, f"{status}, but the claim of {holder} is stale", stale=True)
    if task.lease is not None and task.held(now):
        return Preflight(Decision.SKIP, f"{status}: {_active(task, now)}", error=error)
    if task.lease is None and not task.blockers and task.not_before is None and not task.assigned_to:
        why = f" ({task.reason})" if task.reason else ""
        return Preflight(Decision.SKIP, f"{status}{why}, not OPEN", error=error)
    return Preflight(Decision.SKIP, error.message, error=error)


def _active(task: Task, now: datetime) -> str:
    lease = task.lease
    if lease is None or lease.expires_at is None:
        return f"the claim of {claimed_by(task)} has no end"
    counts = in_words(timeout_of(task))
    return f"the claim of {lease.agent} is active for another {in_words(lease.expires_at - now)} of {counts}"
