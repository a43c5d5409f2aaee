"""What went wrong, in ntask's own words and under its own codes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, IllegalMove, LostLock, NotFound, Refused, StoreError, Unconfirmed
from dibs.core.lifecycle import RULES
from dibs.core.task import Holder, Status
from dibs.core.times import time_text
from dibs.protocols.ntask.answers import task_json
from dibs.protocols.ntask.policy import CODES, NTASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dibs.core.lifecycle import Verb
    from dibs.core.task import Json, Lease, Task
    from dibs.desk import Desk

_SPREAD_MS = (500, 5000)  # agents that lost the same race come back one by one


class Failure(Exception):
    """How a command ends that came to nothing: `code` is one of ntask's, `more` are the keys beside the error."""

    def __init__(
        self, code: str, message: str, more: Mapping[str, Json] | None = None, *, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.more = dict(more or {})


def failure_of(error: DibsError | Failure) -> Failure:
    if isinstance(error, Failure):
        return error
    code = CODES[error.code]
    if isinstance(error, NotFound):
        return Failure(code, f"{error.message} 'ntask list' shows what there is.")
    return conflict(error.message) if code == "CONFLICT" else Failure(code, error.message)


def conflict(message: str, more: Mapping[str, Json] | None = None) -> Failure:
    """Who comes off worse waits for a moment of its own: all that read the same list would else meet again."""
    from random import SystemRandom

    return Failure("CONFLICT", message, more, retry_after_ms=SystemRandom().randint(*_SPREAD_MS))


@contextmanager
def claiming(desk: Desk, ref: str, run: str, agent: str) -> Iterator[None]:
    """Tell why a claim failed; one that may stand after all is told with its token, to be released or tried again."""
    try:
        yield
    except Unconfirmed as error:
        task: dict[str, Json] = {"task_id": ref, "agent_run": run, "agent": agent, "lock_token": error.token}
        raise Failure("API_ERROR", f"{error.message} {_UNCONFIRMED}", {"task": task}) from None
    except Refused as error:
        found = _now(desk, ref)
        if found is None:
            raise conflict(f"{error.message} {_NEXT}") from None
        raise _not_claimable(desk, found, error) from None


_UNCONFIRMED = (
    "The claim was written but not confirmed: do not work on it. With the lock_token of this answer, "
    "'ntask heartbeat' tells whether it is yours, and 'ntask release' gives it back."
)
_NEXT = "Run 'ntask next' again to find another task."


def _not_claimable(desk: Desk, task: Task, error: Refused) -> Failure:
    more = {"task": task_json(desk, task)}
    if task.finished:
        return Failure("MISCONFIGURED", f"{task.id} is {NTASK.say(task.status)}: there is nothing left to claim.", more)
    if task.lease is not None and task.held(desk.now()):
        return conflict(f"{_holder(task.id, task.lease)} {_NEXT}", more)
    if isinstance(error, IllegalMove) and task.status is not Status.ACTIVE:
        why = f" ({task.reason})" if task.reason else ""
        return conflict(f"{task.id} is {NTASK.say(task.status)}{why}, not READY. {_NEXT}", more)
    return conflict(f"{error.message} {_NEXT}", more)


@contextmanager
def moving(desk: Desk, ref: str, verb: Verb) -> Iterator[None]:
    """Tell why a task could not be moved."""
    try:
        yield
    except LostLock as error:
        raise lost(desk, ref, error) from None
    except Refused as error:
        found = _now(desk, ref)
        if found is None:
            raise
        raise _not_movable(desk, found, verb, error) from None


def lost(desk: Desk, ref: str, error: LostLock) -> Failure:
    found = _now(desk, ref)
    if found is None:
        return Failure("LOST_LOCK", error.message)
    return Failure("LOST_LOCK", f"{_what_became(desk, found)} {_STOP}", {"task": task_json(desk, found)})


_STOP = "Nothing was changed. Stop working on it; 'ntask next' finds another task."


def _what_became(desk: Desk, task: Task) -> str:
    """Read after the refusal. That the caller's lock is gone is certain; this is what can be said about it."""
    lease = task.lease
    if lease is None:
        return f"Your lock on {task.id} is gone: it is {NTASK.say(task.status)}."
    if task.held(desk.now()):
        return f"That lock token and run id do not, or no longer, hold {task.id}: {_holder(task.id, lease)}"
    return f"The lock on {task.id} has expired."


def _not_movable(desk: Desk, task: Task, verb: Verb, error: Refused) -> Failure:
    more = {"task": task_json(desk, task)}
    if task.lease is not None and not task.held(desk.now()):
        late = "is IN_PROGRESS, and its lock has expired: claim it first. Nothing was changed."
        return conflict(f"{task.id} {late}", more)
    if task.lease is not None:
        needed = "Only with the --run-id and --lock-token of its claim can it be moved on. Nothing was changed."
        return conflict(f"{_holder(task.id, task.lease)} {needed}", more)
    if not isinstance(error, IllegalMove):
        return Failure("MISCONFIGURED", error.message, more)
    sources = " or ".join(NTASK.say(rule.source) for rule in RULES if rule.verb is verb and rule.source in _OURS)
    told = f"{task.id} is {NTASK.say(task.status)}; '{verb}' is for what is {sources}. Nothing was changed."
    return Failure("MISCONFIGURED", told, more)


_OURS = frozenset(Status) - {Status.PAUSED, Status.ESCALATED}


def _holder(task: str, lease: Lease) -> str:
    if lease.holder is Holder.HUMAN or lease.expires_at is None:
        return f"{task} is held by a person ({lease.agent})."
    run = f", run {lease.run}" if lease.run else ""
    return f"{task} is held by {lease.agent}{run}, until {time_text(lease.expires_at)}."


def _now(desk: Desk, ref: str) -> Task | None:
    """The task as it is after a refusal, if it can still be read: what to say is not worth another error."""
    try:
        return desk.get(ref)
    except (NotFound, StoreError):
        return None
