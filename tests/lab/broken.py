"""Broken stores for the lab's workers, each with a defect of a real one; more are in dibs.lab.torture.experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from dibs.core.lifecycle import Verb
from dibs.lab.torture.experiments import AlteredStore
from dibs.stores.notion import guard
from dibs.stores.sqlite import links
from interleave.notion import unguarded

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Claimed
    from dibs.stores.port import Moved, Store
    from dibs.stores.sqlite.store import SqliteStore


def naive_notion(store: Store) -> Store:
    """Write, read back at once, and believe it."""
    guard.claim = unguarded.naive
    return store


class _ReusedAttempts(AlteredStore):
    """The number of an attempt is how many hold the task, not how often it was given out."""

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return [self._first(each) for each in self.store.claim(request)]

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        moved = self.store.move(move, on_cancel, then)
        return moved._replace(next=tuple(map(self._first, moved.next)))

    def _first(self, claimed: Claimed) -> Claimed:
        lease = claimed.task.lease
        assert lease is not None
        return claimed._replace(task=claimed.task._replace(lease=lease._replace(attempt=1), attempt=1))


def reused_attempts(store: Store) -> Any:
    return _ReusedAttempts(store)


class _NonAtomicUnblock(AlteredStore):
    """Reads the dependents at the claim instead of the finish, so tasks that are linked later are never unblocked."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known: dict[str, set[int]] = {}

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return [self._remembered(each) for each in self.store.claim(request)]

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        late = self._waiting(move.scope, move.id) - self._known.get(move.token or "", set())
        moved = self.store.move(move, on_cancel, then)
        if move.verb is Verb.DONE and move.token in self._known and not moved.repeated:
            with cast("SqliteStore", self.store)._database.write() as tx:
                for missed in late:
                    tx.run("gate", (missed,))
        return moved._replace(next=tuple(map(self._remembered, moved.next)))

    def _remembered(self, claimed: Claimed) -> Claimed:
        task = claimed.task
        if task.lease is not None:
            self._known[task.lease.token] = self._waiting(task.scope, task.id)
        return claimed

    def _waiting(self, scope: str, task: str) -> set[int]:
        with cast("SqliteStore", self.store)._database.read() as tx:
            return {row[0] for row in tx.all("gated_dependents", (links.key_of(tx, scope, task),))}


def non_atomic_unblock(store: Store) -> Any:
    return _NonAtomicUnblock(store)
