"""A desk on a real store, by a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Actor, Link
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

from .hands import add

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dibs.stores.port import Store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with SqliteStore(str(tmp_path / "desk.db"), create=True, durable=False, clock=clock) as store:
        yield store
        assert store.check(fix=False) == []


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store, scope="home", by=Actor("ann", "run-1"))


@pytest.fixture
def fruit(desk: Desk) -> Desk:
    """Three tasks; the banana waits for the apple."""
    add(desk, "apple", "banana", "cherry")
    desk.link([Link("banana", "apple")])
    return desk
