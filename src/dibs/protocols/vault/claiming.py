"""Claim, verify, release: the three operations of the contract, by the name of a file."""

import time
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, Held, LostLock, NotFound, Refused, StoreError, StoreUnavailable
from dibs.core.task import Claimed, Status, Task
from dibs.core.times import in_words
from dibs.desk import mint_token
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.vault.reading import sealed
from dibs.sync.git.outcomes import Published

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.protocols.vault.publishing import Publisher
    from dibs.protocols.vault.workplace import TrackedDesk

PAUSES = (0.1, 0.2, 0.4)  # seconds before each further try; after the last there is none


class Outcome(StrEnum):
    CLAIMED = "CLAIMED"
    LOST = "LOST"  # someone else has it, or it is not to be had
    ERROR = "ERROR"  # the vault could not do it; worth another try


class Attempt(NamedTuple):
    outcome: Outcome
    claimed: Claimed | None = None
    error: DibsError | None = None


def claim(
    desk: "Desk",
    task_id: str,
    agent: str,
    *,
    run: str | None = None,
    lease: timedelta | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Attempt:
    """Claim one file. Only an error is tried again: what is lost is lost.

    Every try has the same token, so a claim that stands but found no room for its lease is completed.
    """
    token = mint_token()
    for pause in (*PAUSES, None):
        try:
            (claimed,) = desk.claim(agent, refs=[task_id], run=run, lease=lease, tokens=[token])
            return Attempt(Outcome.CLAIMED, claimed)
        except (Refused, NotFound) as error:
            return Attempt(Outcome.LOST, error=error)
        except StoreError as error:
            failed = Attempt(Outcome.ERROR, error=error)
        except DibsError as error:
            return Attempt(Outcome.ERROR, error=error)  # no disk got in the way; it will not get better
        if pause is not None:
            sleep(pause)
    return failed


def claim_published(
    tracked: "TrackedDesk",
    publisher: "Publisher",
    task: Task,
    *,
    lease: timedelta | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Attempt:
    """Claim one file, and let it count only where every clone of the vault knows of it."""
    agent = tracked.agent
    with publisher.claiming() as in_reach:
        if not in_reach:
            return Attempt(Outcome.ERROR, error=_out_of_reach(task))
        attempt = claim(tracked.desk.at(task.scope), task.id, agent, run=tracked.desk.by.run, lease=lease, sleep=sleep)
        if attempt.claimed is None:
            return attempt
        paths = [path_of(task), path_of(attempt.claimed.task)]
        published = publisher.claim(paths, f"{agent} claims {task.id}", sleep)
    if published is Published.REFUSED:
        return Attempt(Outcome.LOST, error=Held(f"{name_of(task)} was claimed in another clone first."))
    return attempt if published is Published.ACCEPTED else Attempt(Outcome.ERROR, error=_out_of_reach(task))


def _out_of_reach(task: Task) -> StoreUnavailable:
    return StoreUnavailable(
        f"The remote is out of reach, so a claim of {name_of(task)} would count here only. Nothing was claimed."
    )


def was_edited(task: Task) -> bool:
    """Someone has edited the task while it was held: a lease that ended as it began."""
    lease = task.lease
    return lease is not None and lease.expires_at is not None and lease.expires_at <= lease.claimed_at


def verify(desk: "Desk", task_id: str, agent: str, token: str | None = None) -> Task:
    """The task, as long as it lies in the agent's folder, claimed by it, under a lease that lasts; else LostLock."""
    try:
        task = desk.get(task_id)
    except NotFound:
        raise LostLock(f"{task_id}.md is not in the vault any more. Stop working on it.") from None
    lease, name = task.lease, name_of(task)
    if task.status is not Status.ACTIVE or lease is None:
        raise LostLock(f"{name} is not in progress; it lies in {path_of(task).partition('/')[0]}. Stop working on it.")
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
