"""The base class of the suite: it opens the stores under test, and selects the tests that a store can pass."""

from __future__ import annotations

from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck

from dibs.stores.port import Replaceable, Store
from dibs.testing import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path


Marked = TypeVar("Marked", bound="Callable[..., Any]")

_DECLARED = ("transactions", "links", "history", "scopes")
_PARTS = ("fleet", "vectors", "settings", "output")
_STRICT = frozenset({"strict claims", "exact leases"})
_FEWEST = 20


def needs(*capabilities: str) -> Callable[[Marked], Marked]:
    """Mark a test, or every test of a class, that only stores with these capabilities can pass."""

    def mark(marked: Marked) -> Marked:
        inside = [test for name, test in vars(marked).items() if name.startswith("test_")]
        tests: list[Any] = inside if isinstance(marked, type) else [marked]
        for test in tests:
            test.needs = needed(test) | set(capabilities)
        return marked

    return mark


def needed(test: object) -> frozenset[str]:
    """The capabilities that a test needs."""
    return getattr(test, "needs", frozenset())


def lacking(store: Store) -> frozenset[str]:
    """The capabilities and parts that a store declares it lacks."""
    declared = {name for name in _DECLARED if not getattr(store.capabilities, name)}
    missing = {name for name in _PARTS if getattr(store, name) is None}
    fixed = frozenset() if isinstance(store, Replaceable) else {"replacement"}
    timed = frozenset() if store.capabilities.exclusive == "strict" else _STRICT
    return frozenset(declared | missing | fixed | timed)


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
        """The clock of all stores of one test. `advance` must also set the clock of a server, if there is one."""
        return Clock()

    def clean_up(self) -> None:
        """Stop everything that was started for the stores of one test. The stores are closed already."""


class Harness(Generic[Kind_co]):
    """Opens any number of stores, each in its own folder. `clock.advance` moves the time of all."""

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


class Suite(StoreHooks[Store]):
    """The fixtures. Every store that a test opened must be sound afterwards."""

    def __init_subclass__(cls) -> None:
        """Leave out the tests of what the class says its store lacks."""
        super().__init_subclass__()
        for name in dir(cls):
            if needed(getattr(cls, name)) & cls.lacks:
                setattr(cls, name, None)

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness[Store]]:
        made = Harness(self, str(tmp_path))
        yield made
        made.close()

    @pytest.fixture
    def opened(self, harness: Harness[Store]) -> Iterator[list[Store]]:
        """Every store that a test has open; all are checked at its end."""
        stores = [harness.open()]
        yield stores
        for store in stores:
            assert store.check(fix=False) == []
            store.close()

    @pytest.fixture
    def store(self, opened: list[Store]) -> Store:
        return opened[0]

    @pytest.fixture
    def another(self, harness: Harness[Store], opened: list[Store]) -> Store:
        """One more empty store of the same kind."""
        opened.append(harness.open())
        return opened[-1]

    @pytest.fixture
    def beside(self, harness: Harness[Store], opened: list[Store]) -> Store:
        """The store under test through a second connection."""
        opened.append(harness.join(opened[0]))
        return opened[-1]

    @pytest.fixture
    def reopen(self, harness: Harness[Store], opened: list[Store]) -> Callable[[], Store]:
        """Closes the store under test and opens it again."""

        def again() -> Store:
            opened[0] = harness.reopen(opened[0])
            return opened[0]

        return again

    @pytest.fixture
    def clock(self, harness: Harness[Store]) -> Clock:
        return harness.clock

    @pytest.fixture(autouse=True)
    def _skip_what_it_lacks(self, request: pytest.FixtureRequest) -> None:
        if wanted := needed(request.function):
            opened: list[Store] = request.getfixturevalue("opened")
            if missing := wanted & lacking(opened[0]):
                pytest.skip(f"the store declares that it lacks {' and '.join(sorted(missing))}")

    @pytest.fixture(autouse=True)
    def _examples(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Give a slow store fewer random examples. Hypothesis has no other way to do so for one class of several."""
        test: Any = getattr(request.function, "__func__", None)
        if not hypothesis.is_hypothesis_test(test):
            yield
            return
        usual: hypothesis.settings = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = hypothesis.settings(
            usual,
            max_examples=min(usual.max_examples, max(_FEWEST, usual.max_examples // self.pace)),
            deadline=None,  # the first example may have to start something
            suppress_health_check=[
                *usual.suppress_health_check,
                HealthCheck.too_slow,
                HealthCheck.function_scoped_fixture,  # examples share a store, each in its own scope
                HealthCheck.differing_executors,  # the same test runs in a class for each store
            ],
        )
        yield
        test._hypothesis_internal_use_settings = usual
