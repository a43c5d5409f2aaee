"""The base of all tests in the suite: the stores under test, and which tests are for which stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck

from dibs.stores.port import Store

from .harness import Harness, StoreHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.testing.clock import Clock

Marked = TypeVar("Marked", bound="Callable[..., Any]")

_DECLARED = ("transactions", "links", "history", "scopes")
_PARTS = ("fleet", "vectors", "settings")
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
    return frozenset(declared | missing) | (frozenset() if store.capabilities.exclusive == "strict" else _STRICT)


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
        """The store under test through a connection of its own."""
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
                HealthCheck.function_scoped_fixture,  # examples share a store, each in a scope of its own
                HealthCheck.differing_executors,  # the same test runs in a class for each store
            ],
        )
        yield
        test._hypothesis_internal_use_settings = usual
