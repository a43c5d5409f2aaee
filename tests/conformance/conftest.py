"""The stores under test. Whatever a test did, its stores must be sound afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from .harness import HARNESSES, LACKS, examples

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a store says it cannot do: there is nothing to run, so nothing is skipped either."""
    left_out = {item for item in items if _needs(item) & _lacks(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _needs(item: pytest.Item) -> set[str]:
    return {marker.args[0] for marker in item.iter_markers("needs")}


def _lacks(item: pytest.Item) -> frozenset[str]:
    return LACKS.get(_kind(item), frozenset())


def _kind(item: pytest.Item) -> str:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return str(parameters.get("harness"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A slow store gets fewer random examples. Hypothesis has no other way to say so for one of a test's parameters."""
    test: Any = item.obj if isinstance(item, pytest.Function) else None
    if not hypothesis.is_hypothesis_test(test):
        return (yield)
    usual: hypothesis.settings = test._hypothesis_internal_use_settings
    paced = hypothesis.settings(usual, max_examples=examples(_kind(item), usual.max_examples))
    test._hypothesis_internal_use_settings = paced
    try:
        return (yield)
    finally:
        test._hypothesis_internal_use_settings = usual


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    made = HARNESSES[request.param](str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def opened(harness: StoreHarness) -> Iterator[list[Store]]:
    """Every store that a test has open; all are checked at its end."""
    stores = [harness.open()]
    yield stores
    for store in stores:
        assert store.check(fix=False) == []
        store.close()


@pytest.fixture
def store(opened: list[Store]) -> Store:
    return opened[0]


@pytest.fixture
def another(harness: StoreHarness, opened: list[Store]) -> Store:
    """One more empty store of the same kind."""
    opened.append(harness.open())
    return opened[-1]


@pytest.fixture
def beside(harness: StoreHarness, opened: list[Store]) -> Store:
    """The store under test through a connection of its own."""
    opened.append(harness.join(opened[0]))
    return opened[-1]


@pytest.fixture
def reopen(harness: StoreHarness, opened: list[Store]) -> Callable[[], Store]:
    """Closes the store under test and opens it again."""

    def again() -> Store:
        opened[0] = harness.reopen(opened[0])
        return opened[0]

    return again


@pytest.fixture
def clock(harness: StoreHarness) -> Clock:
    return harness.clock
