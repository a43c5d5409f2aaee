"""What an agent shares with other clones of the vault, where it is one: claims before work, results after it."""

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
from dibs.stores.vault.reading import sealed
from dibs.sync.git.outcomes import Published

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.core.task import Task
    from dibs.sync.git import Clone, Group

_AGAIN = 1.0  # seconds between two looks at what waits to be published
_ALONE = 1.5  # seconds that a result of an agent by itself waits for its next claim
_OFFLINE = 5.0  # seconds, where the remote was out of reach


class Ending(NamedTuple):
    """How an attempt ended: for the log, and which counter of the agent's state to raise once the remote has it."""

    name: str
    how: str
    line: str
    counter: str


class News(NamedTuple):
    """What has become of something that was posted."""

    about: Ending
    fate: Published


class Publisher:
    """A vault that is no clone publishes nothing, and everything it does is accepted.

    Results are published by a thread of the agent, together with those of the clone's other agents, while it goes on.
    """

    def __init__(self, clone: Clone | None = None, every: float = 30.0) -> None:
        self._clone = clone
        self._every = every
        self._pulled_at = float("-inf")
        self.offline = False
        self._posted: dict[str, tuple[Group, Ending | None]] = {}
        self._done_here: list[Ending] = []  # where there is no remote
        self._told_offline: set[str] = set()
        self._errors: SimpleQueue[DibsError] = SimpleQueue()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._end = threading.Event()
        self.alone = False  # no other agent is at work

    @property
    def due_in(self) -> float:
        """Seconds until others are asked again."""
        if self._clone is None:
            return float("inf")
        soon = _AGAIN if self._posted else float("inf")
        return min(soon, max(0.0, self._pulled_at + self._every - time.monotonic()))

    @property
    def clone(self) -> Clone | None:
        return self._clone

    def begin(self) -> None:
        """Publish what an earlier run could not."""
        if self._clone is not None:
            self._pulled_at = time.monotonic()
            self._clone.guard()
            self._clone.settle()

    def pull(self) -> tuple[str, ...]:
        """Bring in what others did, if it is time; what gave way to it is returned."""
        if self._clone is None or self._pulled_at + self._every > time.monotonic():
            return ()
        self._pulled_at = time.monotonic()
        was_offline = self.offline
        pulled = self._clone.pull()
        self.offline = not pulled.reached
        if was_offline and not self.offline:
            self._clone.settle()
        return pulled.dropped

    def turn(self) -> AbstractContextManager[None]:
        """What is changed and posted belongs into one, so that no pull comes in between."""
        return nullcontext() if self._clone is None else self._clone.turn()

    # Claims

    def taken(self, now: datetime) -> Collection[str]:
        """Tasks that are held by the remote, and the units of which something waits to be published."""
        if self._clone is None:
            return ()
        held = {task for task, claim in self._clone.claims().items() if claim.live(now)}
        return held | self._clone.posted()

    def others(self, agent: str) -> bool:
        """Whether agents of other names hold tasks by the remote."""
        return self._clone is not None and any(
            claim.agent != agent and not claim.ended for claim in self._clone.claims().values()
        )

    def renew(self, task: Task, token: str, until: datetime) -> None:
        """Let the remote know first: until then the lease lasts no longer. LostLock if others have the task."""
        if self._clone is None:
            return
        offer = self._clone.renew(self._clone.identity(path_of(task)), sealed(token), until)
        if offer is None or offer.outcome is Published.ACCEPTED:
            return
        if offer.outcome is Published.REFUSED:
            raise LostLock(f"{task.id} was claimed by {offer.claim.agent} in another clone. Stop working on it.")
        raise StoreUnavailable(f"The remote is out of reach, so the lease on {task.id} could not be renewed.")

    def give_up(self, token: str) -> None:
        """Nobody works under this claim any more."""
        if self._clone is not None:
            proof = sealed(token)
            for claim in [claim for claim in self._clone.claims().values() if claim.proof == proof]:
                self._clone.end(claim)

    def give_up_idle(self, agent: str, run: str, working: Sequence[Task]) -> None:
        """Give up claims of this run that never came to a file in progress: their agent, or its push, was cut off."""
        if self._clone is None:
            return
        idle = [claim for claim in self._clone.claims().values() if (claim.agent, claim.run) == (agent, run)]
        if idle and not self._clone.posted():
            proofs = {task.lease.token for task in working if task.lease is not None}
            for claim in idle:
                if claim.proof not in proofs and not claim.ended:
                    self._clone.end(claim)

    # Results

    def post(self, paths: Sequence[str], message: str, about: Ending | None = None, *, claim: bool = False) -> None:
        """Have these paths published soon. In the turn that changed them."""
        if self._clone is None or not paths:
            self._done_here += [about] if about is not None else []
            return
        group = self._clone.post(paths, message, claim=claim)
        self._posted[group.name] = group, about
        self._wake.set()

    @property
    def pending(self) -> bool:
        """Something of ours waits to be published."""
        return bool(self._posted)

    def news(self) -> list[News]:
        """What has become of what was posted, each told once; also, once, that it has to wait for the remote."""
        found = [News(about, Published.ACCEPTED) for about in self._done_here]
        self._done_here.clear()
        for name, (group, about) in list(self._posted.items()):
            fate = Published.OFFLINE if self._clone is None else self._clone.fate(group)
            if fate is not Published.OFFLINE:
                del self._posted[name]
            elif not self.offline or name in self._told_offline:
                continue
            self._told_offline.add(name)
            found += [News(about, fate)] if about is not None else []
        return found

    def error(self) -> DibsError | None:
        """What went wrong in the thread, one at a time."""
        return None if self._errors.empty() else self._errors.get()

    def flush(self) -> Published:
        """Publish all that waits now, and say what became of what was posted last."""
        if self._clone is None:
            return Published.ACCEPTED
        last = list(self._posted)[-1:]
        self.offline = not self._clone.flush().reached
        fates = [self._clone.fate(self._posted.pop(name)[0]) for name in last if self._posted[name][1] is None]
        return Published.OFFLINE if self.offline else fates[0] if fates else Published.ACCEPTED

    def start(self) -> None:
        """Publish from a thread from now on."""
        if self._clone is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._clone,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and publish what is left."""
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
                self._end.wait(_ALONE)  # its next claim may take the result along
            if self._ending:
                return
            try:
                if clone.waiting:
                    self.offline = not clone.flush(young=False).reached
            except DibsError as error:
                self._errors.put(error)
            pause = (_OFFLINE if self.offline else _AGAIN) if self._posted else None


def is_taken(task: Task, taken: Collection[str]) -> bool:
    """As far as the name of its file tells."""
    if not taken:
        return False
    from dibs.sync.git.folder import identity
    from dibs.sync.git.trees import unit_of

    path = path_of(task)
    return unit_of(path) in taken or identity((path, b"")) in taken


def publisher_of(root: str, *, alone: bool = False) -> Publisher:
    """With the other clones, where the vault is a clone that has a remote and sharing was not declined."""
    from dibs.sync.git import Clone, is_clone

    every = span_from("SYNC_INTERVAL", os.environ.get("SYNC_INTERVAL")) or timedelta(seconds=30)
    patience = span_from("SYNC_TIMEOUT", os.environ.get("SYNC_TIMEOUT")) or timedelta(seconds=60)
    if alone or not is_clone(root):
        return Publisher()
    remote = os.environ.get("GIT_REMOTE") or "origin"
    branch = os.environ.get("GIT_BRANCH") or None
    clone = Clone(root, remote=remote, branch=branch, timeout=patience.total_seconds())
    return Publisher(clone, every.total_seconds())
