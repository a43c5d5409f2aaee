"""Other queues' rules, put in the place of dibs' own to see what becomes of a fleet under them.

Each takes a worker's store and gives one that behaves as such a queue does; underneath, the store is the real one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from dibs.core.task import Claimed, Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.stores.port import Moved, Store

RULES = {
    "name-keyed": "dibs.lab.torture.rules:name_keyed",
    "no-fence": "dibs.lab.torture.rules:no_fence",
    "delete-on-dequeue": "dibs.lab.torture.rules:delete_on_dequeue",
}


_FOR_EVER = timedelta(days=30)


class Ruled:
    """A store that does some things in its own way, and leaves the rest to the real one."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


class _NameKeyed(Ruled):
    """A claim belongs to a name: who has a task already is given it again."""

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        mine = self.store.find(Query(request.scope, statuses=(Status.ACTIVE,), agent=request.agent))
        held = [Claimed(task) for task in mine if task.held(self.store.now())]
        return held[:1] if held and not request.ids else self.store.claim(request)


class _NoFence(Ruled):
    """Whoever says that a task is done is believed: nobody looks whose attempt it was."""

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        lease = self.store.get(move.scope, move.id).lease
        if lease is not None and move.token is not None and lease.live(self.store.now()):
            move = move._replace(token=lease.token)
        return self.store.move(move, on_cancel, then)


class _DeleteOnDequeue(Ruled):
    """To take a task is to take it off the list: there is no lease that could end, and it never comes back."""

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return self.store.claim(request._replace(lease=_FOR_EVER))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        following = None if then is None else then._replace(lease=_FOR_EVER)
        return self.store.move(move if move.lease is None else move._replace(lease=_FOR_EVER), on_cancel, following)


def name_keyed(store: Store) -> Any:
    return _NameKeyed(store)


def no_fence(store: Store) -> Any:
    return _NoFence(store)


def delete_on_dequeue(store: Store) -> Any:
    return _DeleteOnDequeue(store)
