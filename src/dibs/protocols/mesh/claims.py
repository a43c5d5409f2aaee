"""Preflight and claims: checked right before, logged whatever comes of them, checked again before the end."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import (
    DibsError,
    IllegalMove,
    InvalidInput,
    LostLock,
    NotFound,
    NothingReady,
    Refused,
    StoreError,
    Unconfirmed,
)
from dibs.core.lifecycle import ClaimRequest, Verb, refusal
from dibs.core.task import Actor, Task
from dibs.core.times import in_words
from dibs.protocols.mesh.logs import CLAIM_ATTEMPT, CONFLICT, State, message, try_to_log
from dibs.protocols.mesh.policy import claimed_by, status_of, timeout_of
from dibs.protocols.mesh.settings import same_agent

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Claimed
    from dibs.desk import Desk


class Decision(StrEnum):
    CLAIM = "CLAIM"
    SKIP = "SKIP"


class Preflight(NamedTuple):
    """`stale` is a claim that no longer counts, and would be taken over."""

    decision: Decision
    why: str
    stale: bool = False
    error: DibsError | None = None


def preflight(task: Task, agent: str, now: datetime) -> Preflight:
    error = refusal(task, ClaimRequest(agent, (), task.scope), now)
    holder = claimed_by(task)
    status = status_of(task)
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


_CANDIDATES = 20  # that a claim of whatever is next looks at


def claim_next(desk: Desk, agent: str) -> Claimed:
    """The first in order that nobody else gets before us."""
    for task in desk.ready(limit=_CANDIDATES, agent=agent):
        try:
            return claim(desk, task.id, agent)
        except Refused:
            continue  # it was another's a moment later; that is in the log
    raise NothingReady("Nothing is OPEN that could be claimed now.")


def claim(desk: Desk, ref: str, agent: str) -> Claimed:
    """Preflight and claim; the attempt goes into the log, won or lost."""
    task = None
    try:
        task = desk.get(ref)
        found = preflight(task, agent, desk.now())
        if found.decision is Decision.SKIP:
            raise type(found.error or Refused(""))(f"SKIP: {task.id} is {found.why}.")
        (claimed,) = desk.claim(agent, refs=[ref], lease=timeout_of(task))
    except InvalidInput:
        raise  # that was no attempt at anything
    except DibsError as error:
        _log_attempt(desk, agent, ref, task, _state(error), _outcome(error))
        raise
    won = f"CLAIMED: {found.why}" if found.stale else "CLAIMED"
    _log_attempt(desk, agent, ref, claimed.task, State.RESOLVED, won)
    return claimed


def _outcome(error: DibsError) -> str:
    if isinstance(error, Refused):
        return error.message if error.message.startswith("SKIP") else f"LOST: {error.message}"
    kind = "UNCONFIRMED" if isinstance(error, Unconfirmed) else "ERROR"
    return f"{kind}: {error.message}"


def _state(error: DibsError) -> State:
    return State.BLOCKED if isinstance(error, Refused | NotFound) else State.TIMEOUT


def _log_attempt(desk: Desk, agent: str, ref: str, task: Task | None, state: State, outcome: str) -> None:
    entry = message(desk, CLAIM_ATTEMPT, agent, state, task=task, named=ref, resolution=outcome)
    try_to_log(desk, entry, task)


def own_move(desk: Desk, ref: str, nonce: str, verb: Verb, **brings: Any) -> Task:
    """A move of the claimer's own: its name and its nonce are checked first, and the nonce once more as it is made."""
    agent = desk.by.agent or ""
    task = desk.get(ref)
    try:
        desk.by = Actor(_own_name(task, agent))
        if verb is Verb.RENEW:
            brings["lease"] = timeout_of(task)
        return desk.move(verb, ref, token=nonce, **brings).task
    except LostLock as lost:
        error = _in_our_words(desk, ref, lost)
        entry = message(
            desk, CONFLICT, agent, State.BLOCKED, task=task, resolution=f"aborted {_SAID[verb]}: {error.message}"
        )
        try_to_log(desk, entry, task)
        raise error from None


def _in_our_words(desk: Desk, ref: str, error: LostLock) -> LostLock:
    """Read after the refusal: what became of it, if it can still be read."""
    try:
        task = desk.get(ref)
    except (NotFound, StoreError):
        return error
    if task.lease is not None:
        return error
    return LostLock(f"{task.id} is {status_of(task)}, and not yours. Nothing was changed; stop working on it.")


def free_move(desk: Desk, ref: str, verb: Verb, **brings: Any) -> Task:
    """A move of what nobody holds, by anybody."""
    try:
        return desk.move(verb, ref, **brings).task
    except IllegalMove:
        status = status_of(desk.get(ref))
        raise IllegalMove(f"{ref} is {status}; '{verb}' does not apply to that. Nothing was changed.") from None


_SAID = {Verb.RENEW: "heartbeat", Verb.DONE: "complete", Verb.BLOCK: "block", Verb.CANCEL: "cancel"}


def _own_name(task: Task, agent: str) -> str:
    """The claimer's name as the task has it: someone may have spelt it in another case."""
    holder = task.lease.agent if task.lease else agent
    if not same_agent(holder, agent):
        raise LostLock(f"{task.id} is claimed by {holder}, not by {agent}. Nothing was changed; stop working on it.")
    return holder
