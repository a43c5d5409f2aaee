"""Claim and verify a task, as the contract describes."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import DibsError, Held, LostLock, NotFound, Refused, StoreError, StoreUnavailable
from dibs.core.task import Claimed, Status, Task
from dibs.core.times import in_words
from dibs.desk import mint_token
from dibs.protocols.vault.publishing import identity_of, is_taken
from dibs.protocols.vault.settings import VAULT
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.vault.reading import sealed
from dibs.sync.git.claims import Claim
from dibs.sync.git.outbox import Offer, Published

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from dibs.desk import Desk
    from dibs.protocols.vault.publishing import Publisher
    from dibs.protocols.vault.workplace import TrackedDesk
    from dibs.sync.git import Clone

_MISSED = (Published.REFUSED, Published.OFFLINE)
PAUSES = (0.1, 0.2, 0.4)  # seconds before each further try; after the last there is none


class Outcome(StrEnum):
    CLAIMED = "CLAIMED"
    LOST = "LOST"  # another agent has it, or it cannot be claimed
    ERROR = "ERROR"  # the disk or the remote failed; worth another try


class Attempt(NamedTuple):
    outcome: Outcome
    claimed: Claimed | None = None
    error: DibsError | None = None


def claim(
    desk: Desk,
    task_id: str,
    agent: str,
    *,
    run: str | None = None,
    lease: timedelta | None = None,
    token: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Attempt:
    """Claim one file. Errors are retried, a lost claim is not.

    Every try has the same token, so that a retry completes a claim whose lease had no room on the disk.
    """
    token = token or mint_token()
    for pause in (*PAUSES, None):
        try:
            (claimed,) = desk.claim(agent, refs=[task_id], run=run, lease=lease, tokens=[token])
            return Attempt(Outcome.CLAIMED, claimed)
        except (Refused, NotFound) as error:
            return Attempt(Outcome.LOST, error=error)
        except StoreError as error:
            failed = Attempt(Outcome.ERROR, error=error)
        except DibsError as error:
            return Attempt(Outcome.ERROR, error=error)  # not an error of the disk: a retry would not help
        if pause is not None:
            sleep(pause)
    return failed


def claim_published(
    tracked: TrackedDesk,
    publisher: Publisher,
    task: Task,
    *,
    lease: timedelta | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Attempt:
    """Claim one file. In a clone the remote decides first, and only then the folder changes."""
    clone = publisher.clone
    if clone is None:
        return _claim_here(tracked, task, lease, None, sleep)
    identity = identity_of(task)
    with clone.alone(identity) as alone:
        now = tracked.desk.now()
        refused = _refusal_in_clone(tracked, publisher, clone, task, alone=alone)
        if refused is not None:
            return Attempt(Outcome.LOST, error=refused)
        token = mint_token()
        attempt = task.attempt + 1
        until = now + (lease or VAULT.lease)
        run = tracked.desk.by.run or ""
        wanted = Claim(identity, tracked.agent, run, attempt, sealed(token), until)
        try:
            asked = clone.publish_rename(path_of(task), now)
            offer = Offer(asked, wanted) if asked in _MISSED else clone.offer(wanted, path_of(task), now)
        except DibsError as error:
            return Attempt(Outcome.ERROR, error=error)
        publisher.offline = offer.outcome is Published.OFFLINE
        if publisher.offline:
            return Attempt(Outcome.ERROR, error=_out_of_reach(task))
        if offer.outcome is Published.REFUSED:
            return Attempt(Outcome.LOST, error=Held(f"{name_of(task)} was claimed or changed in another clone first."))
        return _take(tracked, publisher, task, offer.claim, token, sleep)


def _refusal_in_clone(
    tracked: TrackedDesk, publisher: Publisher, clone: Clone, task: Task, *, alone: bool
) -> DibsError | None:
    """Why the claim would fail, as far as this clone knows, or None. Saves a push."""
    now = tracked.desk.now()
    holder = clone.claims().get(identity_of(task))
    if holder is not None and holder.live(now):
        return _held(task, holder.agent, holder.until - now)
    if not alone or is_taken(task, publisher.taken(now)):
        return Held(f"{name_of(task)} is being claimed or published by another agent.")
    if clone.outdated(path_of(task)):
        clone.resolve()
        return Held(f"{name_of(task)} has moved on under another name.")
    return _refusal(tracked, task)


def _take(
    tracked: TrackedDesk, publisher: Publisher, task: Task, claim: Claim, token: str, sleep: Callable[[float], None]
) -> Attempt:
    """Claim in the folder after the remote has accepted. If a person was quicker, give the claim up."""
    clone = publisher.clone
    assert clone is not None
    attempt = Attempt(Outcome.ERROR)
    try:
        with clone.turn():
            if claim.attempt > task.attempt + 1:
                clone.raise_attempt(path_of(task), claim.attempt - 1)
            left = max(claim.until - tracked.desk.now(), checks.LEASE_MIN)
            attempt = _claim_here(tracked, task, left, token, sleep)
            if attempt.claimed is not None:
                paths = [path_of(task), path_of(attempt.claimed.task)]
                publisher.post(paths, f"{tracked.agent} claims {task.id}", claim=True)
    finally:
        if attempt.claimed is None:
            clone.withdraw(claim)
    return attempt


def _claim_here(
    tracked: TrackedDesk, task: Task, lease: timedelta | None, token: str | None, sleep: Callable[[float], None]
) -> Attempt:
    desk = tracked.desk.at(task.scope)
    return claim(desk, task.id, tracked.agent, run=tracked.desk.by.run, lease=lease, token=token, sleep=sleep)


def _refusal(tracked: TrackedDesk, task: Task) -> DibsError | None:
    """Why the folder would refuse the claim, or None."""
    try:
        now = tracked.desk.at(task.scope).get(task.id)
    except DibsError as error:
        return error
    lease, moment = now.lease, tracked.desk.now()
    if now.held(moment) and lease is not None and lease.expires_at is not None:
        return _held(task, lease.agent, lease.expires_at - moment)
    if now.status not in {Status.READY, Status.ACTIVE} or now.held(moment):
        return Held(f"{name_of(task)} is {now.status}; it cannot be claimed now.")
    return None


def _held(task: Task, agent: str, left: timedelta) -> Held:
    return Held(
        f"{task.id} is held by {agent} for another {in_words(left)}; pick another task, or try again later.",
        holder=agent,
    )


def _out_of_reach(task: Task) -> StoreUnavailable:
    return StoreUnavailable(
        f"The remote is out of reach, so {name_of(task)} cannot be claimed. Nothing in the folder was changed."
    )


def was_edited(task: Task) -> bool:
    """Whether a person has edited the task while it was held. Its lease then ends when it began."""
    lease = task.lease
    return lease is not None and lease.expires_at is not None and lease.expires_at <= lease.claimed_at


def verify(desk: Desk, task_id: str, agent: str, token: str | None = None) -> Task:
    """The task, if it is in the agent's folder under its valid lease; else LostLock."""
    try:
        task = desk.get(task_id)
    except NotFound:
        raise LostLock(f"{task_id}.md is not in the vault any more. Stop working on it.") from None
    lease, name = task.lease, name_of(task)
    if task.status is not Status.ACTIVE or lease is None:
        raise LostLock(f"{name} is not in progress; it is in {path_of(task).partition('/')[0]}. Stop working on it.")
    if lease.agent != agent:
        raise LostLock(f"{name} is claimed by {lease.agent}, not by {agent}.", holder=lease.agent)
    if token is not None and lease.token != sealed(token):
        raise LostLock(f"{name} has been claimed again since (attempt {lease.attempt}). Stop working on it.")
    now = desk.now()
    if was_edited(task):
        raise LostLock(f"{name} was edited by someone while you held it. Stop working on it.")
    if lease.expires_at is not None and not lease.live(now):
        raise LostLock(f"The lease on {name} ended {in_words(now - lease.expires_at)} ago. Stop working on it.")
    return task
