"""What the suite must know about a store, and the stores that a test has open."""

from __future__ import annotations

from tempfile import mkdtemp
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from dibs.stores.port import Store
from dibs.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

Kind_co = TypeVar("Kind_co", bound=Store, covariant=True)
AnyStore = TypeVar("AnyStore", bound=Store)


class StoreHooks(Generic[Kind_co]):
    """How to open stores of one kind. Only `make_store` has no default."""

    # What the store declares it lacks. Tests that need it are left out; if it is not named here, they are skipped.
    lacks: ClassVar[AbstractSet[str]] = frozenset()

    # How many times slower the store is than one in this process. Random tests run that many times fewer examples.
    pace: ClassVar[int] = 1

    def make_store(self, folder: str, clock: Clock) -> Kind_co:
        """Open the store that belongs to this folder, which is empty at first. The same folder is the same store."""
        raise NotImplementedError("define make_store(self, folder, clock) in your test class")

    def join_store(self, folder: str, clock: Clock) -> Kind_co:
        """Open a store that is open already, as another process would."""
        return self.make_store(folder, clock)

    def reopen_store(self, store: Store, folder: str, clock: Clock) -> Kind_co:
        """Close a store and open it again."""
        store.close()
        return self.join_store(folder, clock)

    def make_clock(self) -> Clock:
        """The clock of all stores of one test. A server with a clock of its own must be set to it on `advance`."""
        return Clock()

    def clean_up(self) -> None:
        """Stop everything that was started for the stores of one test. The stores are closed already."""


class Harness(Generic[Kind_co]):
    """Opens stores as often as a test needs, each in a folder of its own. `clock.advance` moves the time of all."""

    def __init__(self, hooks: StoreHooks[Kind_co], folder: str) -> None:
        self.clock = hooks.make_clock()
        self._hooks = hooks
        self._folder = folder
        self._folders: dict[int, str] = {}

    def open(self) -> Kind_co:
        """A new and empty store."""
        folder = mkdtemp(prefix="store-", dir=self._folder)
        return self._kept(self._hooks.make_store(folder, self.clock), folder)

    def join(self, store: Store) -> Kind_co:
        """The same store through a second connection."""
        folder = self._folders[id(store)]
        return self._kept(self._hooks.join_store(folder, self.clock), folder)

    def reopen(self, store: Store) -> Kind_co:
        """The same store, closed and opened again."""
        folder = self._folders[id(store)]
        return self._kept(self._hooks.reopen_store(store, folder, self.clock), folder)

    def close(self) -> None:
        self._hooks.clean_up()

    def _kept(self, store: AnyStore, folder: str) -> AnyStore:
        self._folders[id(store)] = folder
        return store
