"""Publish an agent's claims and results to other clones of the vault."""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, LostLock, StoreUnavailable
from dibs.protocols.vault.settings import span_from
from dibs.protocols.vault.workplace import path_of
from dibs.stores.vault.places import scope_folder
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.vault import host_clock
from dibs.sync.git.outbox import Published

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.core.task import Task
    from dibs.sync.git import Clone, Group

_AGAIN = 1.0  # seconds between two looks for waiting changes
_ALONE = 1.5  # seconds that the result of a single agent waits for its next claim
_COLLECT = 3600.0  # seconds between two deletions of old references
_OFFLINE = 5.0  # seconds, after the remote was out of reach


class AttemptEnd(NamedTuple):
    """The end of an attempt: its log line, and the counter to raise once the remote has it."""

    name: str
    how: str
    line: str
    counter: str


class News(NamedTuple):
    """The outcome of a posted change."""

    about: AttemptEnd
    fate: Published


class Publisher:
    """Publishes from a thread, together with the results of the clone's other agents.

    In a vault that is not a clone it publishes nothing, and every change is accepted.
    """

    def __init__(self, clone: Clone | None = None, every: float = 30.0) -> None:
        self._clone = clone
        self._every = every
        self._pulled_at = self._collected_at = float("-inf")
        self.offline = False
        self._posted: dict[str, tuple[Group, AttemptEnd | None]] = {}
        self._done_here: list[AttemptEnd] = []  # without a remote
        self._reported_offline: set[str] = set()
        self._errors: SimpleQueue[DibsError] = SimpleQueue()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._end = threading.Event()
        self.alone = False  # no other agent is running

    @property
    def due_in(self) -> float:
        """Seconds until the next pull or look for outcomes."""
        if self._clone is None:
            return float("inf")
        soon = _AGAIN if self._posted else float("inf")
        return min(soon, max(0.0, self._pulled_at + self._every - time.monotonic()))

    @property
    def clone(self) -> Clone | None:
        return self._clone

    def begin(self) -> None:
        """Publish changes that an earlier run could not."""
        if self._clone is not None:
            self._pulled_at = time.monotonic()
            self._clone.guard()
            self._clone.settle()
            self._collect(self._clone)

    def pull(self) -> tuple[str, ...]:
        """Pull if it is time, and return the local changes that gave way."""
        if self._clone is None or self._pulled_at + self._every > time.monotonic():
            return ()
        self._pulled_at = time.monotonic()
        was_offline = self.offline
        pulled = self._clone.pull()
        self.offline = not pulled.reached
        if was_offline and not self.offline:
            self._clone.settle()
        if not self.offline and self._collected_at + _COLLECT < time.monotonic():
            self._collect(self._clone)
        return pulled.dropped

    def _collect(self, clone: Clone) -> None:
        self._collected_at = time.monotonic()
        clone.collect(host_clock())

    def turn(self) -> AbstractContextManager[None]:
        """A turn of the clone: change and post within one, so that no pull comes in between."""
        return nullcontext() if self._clone is None else self._clone.turn()

    # Claims

    def taken(self, now: datetime) -> Collection[str]:
        """Tasks that are claimed at the remote, and units with unpublished changes."""
        if self._clone is None:
            return ()
        held = {task for task, claim in self._clone.claims().items() if claim.live(now)}
        return held | self._clone.posted()

    def others(self, agent: str) -> bool:
        """Whether other agents have claims at the remote."""
        return self._clone is not None and any(
            claim.agent != agent and not claim.ended for claim in self._clone.claims().values()
        )

    def renew(self, task: Task, token: str, until: datetime) -> None:
        """Extend the claim at the remote. LostLock if another agent has the task."""
        if self._clone is None:
            return
        offer = self._clone.renew(identity_of(task), sealed(token), until)
        if offer is None or offer.outcome is Published.ACCEPTED:
            return
        if offer.outcome is Published.REFUSED:
            raise LostLock(f"{task.id} was claimed by {offer.claim.agent} in another clone. Stop working on it.")
        raise StoreUnavailable(f"The remote is out of reach, so the lease on {task.id} could not be renewed.")

    def give_up(self, token: str) -> None:
        """End the claim with this token."""
        if self._clone is not None:
            proof = sealed(token)
            for claim in [claim for claim in self._clone.claims().values() if claim.proof == proof]:
                self._clone.end(claim)

    def end_idle_claims(self, agent: str, run: str, working: Sequence[Task]) -> None:
        """End claims of this run that have no file in progress, because the agent or its push was interrupted."""
        if self._clone is None:
            return
        idle = [claim for claim in self._clone.claims().values() if (claim.agent, claim.run) == (agent, run)]
        if idle and not self._clone.posted():
            proofs = {task.lease.token for task in working if task.lease is not None}
            for claim in idle:
                if claim.proof not in proofs and not claim.ended:
                    self._clone.end(claim)

    # Results

    def post(self, paths: Sequence[str], message: str, about: AttemptEnd | None = None, *, claim: bool = False) -> None:
        """Post changed paths for publishing, in the turn that changed them."""
        if self._clone is None or not paths:
            self._done_here += [about] if about is not None else []
            return
        group = self._clone.post(paths, message, claim=claim)
        self._posted[group.name] = group, about
        self._wake.set()

    @property
    def pending(self) -> bool:
        """Whether a change of this agent waits to be published."""
        return bool(self._posted)

    def news(self) -> list[News]:
        """The outcomes of posted changes, each once. A change that must wait for the remote is reported once, too."""
        found = [News(about, Published.ACCEPTED) for about in self._done_here]
        self._done_here.clear()
        for name, (group, about) in list(self._posted.items()):
            fate = Published.OFFLINE if self._clone is None else self._clone.fate(group)
            if fate is not Published.OFFLINE:
                del self._posted[name]
            elif not self.offline or name in self._reported_offline:
                continue
            self._reported_offline.add(name)
            found += [News(about, fate)] if about is not None else []
        return found

    def unpublished_ends(self) -> list[AttemptEnd]:
        """Ended attempts that still wait for the remote when the agent exits."""
        left = [about for _, about in self._posted.values() if about is not None]
        self._posted.clear()
        return left

    def error(self) -> DibsError | None:
        """The next error of the thread, or None."""
        return None if self._errors.empty() else self._errors.get()

    def flush(self) -> Published:
        """Publish all waiting changes, and return the outcome of the last."""
        if self._clone is None:
            return Published.ACCEPTED
        last = list(self._posted)[-1:]
        self.offline = not self._clone.flush().reached
        fates = [self._clone.fate(self._posted.pop(name)[0]) for name in last if self._posted[name][1] is None]
        return Published.OFFLINE if self.offline else fates[0] if fates else Published.ACCEPTED

    def start(self) -> None:
        """Start the publishing thread."""
        if self._clone is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._clone,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and publish the rest."""
        if self._thread is not None:
            self._ending = True
            self._end.set()
            self._wake.set()
            self._thread.join()
            self._thread = None
        if self._clone is not None and self._posted:
            self.offline = not self._clone.flush().reached

    def _run(self, clone: Clone) -> None:
        pause: float | None = None
        while not self._ending:
            self._wake.wait(pause)
            self._wake.clear()
            if self.alone and not self._ending:
                self._end.wait(_ALONE)  # its next claim may be published with the result
            if self._ending:
                return
            try:
                if clone.waiting:
                    self.offline = not clone.flush(young=False).reached
            except DibsError as error:
                self._errors.put(error)
            pause = (_OFFLINE if self.offline else _AGAIN) if self._posted else None


def identity_of(task: Task) -> str:
    """The name of a task at the remote: its domain and id. Renaming its file does not change it."""
    from dibs.sync.git.repository import identity

    return identity(scope_folder(task.scope), task.id)


def is_taken(task: Task, taken: Collection[str]) -> bool:
    """Whether a task is claimed at the remote, or has unpublished changes."""
    if not taken:
        return False
    from dibs.sync.git.repository import unit_of

    return unit_of(path_of(task)) in taken or identity_of(task) in taken


def publisher_of(root: str, *, alone: bool = False) -> Publisher:
    """A publisher, with the clone if the vault is one and `alone` is false."""
    from dibs.sync.git import Clone, is_clone

    every = span_from("SYNC_INTERVAL", os.environ.get("SYNC_INTERVAL")) or timedelta(seconds=30)
    patience = span_from("SYNC_TIMEOUT", os.environ.get("SYNC_TIMEOUT")) or timedelta(seconds=60)
    if alone or not is_clone(root):
        return Publisher()
    remote = os.environ.get("GIT_REMOTE") or "origin"
    branch = os.environ.get("GIT_BRANCH") or None
    clone = Clone(root, remote=remote, branch=branch, timeout=patience.total_seconds())
    return Publisher(clone, every.total_seconds())
