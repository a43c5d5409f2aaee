"""What an agent shares with other clones of the vault, where it is one: claims before work, results after it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.protocols.vault.settings import span_from
from dibs.sync.git.outcomes import Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from dibs.sync.git import Clone


class Publisher:
    """A vault of its own shares nothing, and everything it does is accepted."""

    def __init__(self, clone: Clone | None = None, every: float = 30.0) -> None:
        self._clone = clone
        self._every = every
        self._pulled_at = float("-inf")
        self.offline = False

    @property
    def due_in(self) -> float:
        """Seconds until others are asked again."""
        if self._clone is None:
            return float("inf")
        return max(0.0, self._pulled_at + self._every - time.monotonic())

    @property
    def clone(self) -> Clone | None:
        return self._clone

    def begin(self) -> None:
        """Publish what an earlier run could not."""
        if self._clone is not None:
            self._clone.settle()

    def pull(self) -> tuple[str, ...]:
        """Bring in what others did, if it is time; what gave way to it is returned."""
        if self._clone is None or self.due_in > 0:
            return ()
        was_offline = self.offline
        with self._clone.turn():
            dropped = self._pull(self._clone)
        if was_offline and not self.offline:
            self._clone.settle()
        return dropped

    def _pull(self, clone: Clone) -> tuple[str, ...]:
        self._pulled_at = time.monotonic()
        pulled = clone.pull()
        self.offline = not pulled.reached
        return pulled.dropped

    @contextmanager
    def claiming(self) -> Iterator[bool]:
        """A turn in which to claim and publish; False if the remote is out of reach, and no claim would count."""
        if self._clone is None:
            yield True
            return
        with self._clone.turn():
            self._pull(self._clone)
            yield not self.offline

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._clone is None else self._clone.turn()

    def claim(self, paths: Sequence[str], message: str, sleep: Callable[[float], None]) -> Published:
        """Publish a claim. One that stays unheard is undone: nobody may work on it."""
        if self._clone is None:
            return Published.ACCEPTED
        published = Published.OFFLINE
        try:
            for pause in (*_PAUSES, None):
                published = self._publish(self._clone, paths, message)
                if published is not Published.OFFLINE or pause is None:
                    break
                sleep(pause)
        finally:
            if published is Published.OFFLINE:
                self._clone.undo(paths)
        return published

    def publish(self, paths: Sequence[str], message: str) -> Published:
        """Publish what was done. Out of reach, it stays here and is published later."""
        if self._clone is None or not paths:
            return Published.ACCEPTED
        return self._publish(self._clone, paths, message)

    def _publish(self, clone: Clone, paths: Sequence[str], message: str) -> Published:
        published = clone.publish(paths, message)
        self.offline = published is Published.OFFLINE
        return published


def publisher_of(root: str, *, alone: bool = False) -> Publisher:
    """With the other clones, where the vault is a clone that has a remote and publisher was not declined."""
    from dibs.sync.git import Clone, is_clone

    every = span_from("SYNC_INTERVAL", os.environ.get("SYNC_INTERVAL")) or timedelta(seconds=30)
    patience = span_from("SYNC_TIMEOUT", os.environ.get("SYNC_TIMEOUT")) or timedelta(seconds=60)
    if alone or not is_clone(root):
        return Publisher()
    remote = os.environ.get("GIT_REMOTE") or "origin"
    branch = os.environ.get("GIT_BRANCH") or None
    clone = Clone(root, remote=remote, branch=branch, timeout=patience.total_seconds())
    return Publisher(clone, every.total_seconds())


_PAUSES = (0.5, 1.0, 2.0)  # seconds between two tries to reach the remote with a claim
