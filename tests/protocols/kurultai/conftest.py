"""An operational memory on an empty store of each kind that kurultai runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.harness import HARNESSES
from dibs.desk import Desk
from dibs.protocols.kurultai.memory import OperationalMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conformance.harness import StoreHarness
    from dibs.stores.port import Store
    from support.clock import Clock

KINDS = ("neo4j", "postgres", "sqlite")


@pytest.fixture(params=KINDS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    made = HARNESSES[request.param](str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def store(harness: StoreHarness) -> Iterator[Store]:
    opened = harness.open()
    yield opened
    assert opened.check(fix=False) == []
    opened.close()


@pytest.fixture
def memory(store: Store) -> OperationalMemory:
    return OperationalMemory(Desk(store), by="main")


@pytest.fixture
def clock(harness: StoreHarness) -> Clock:
    return harness.clock


@pytest.fixture
def local(tmp_path: Path) -> Iterator[OperationalMemory]:
    """On SQLite, for tests that do not depend on the store."""
    store = HARNESSES["sqlite"](str(tmp_path)).open()
    yield OperationalMemory(Desk(store), by="main")
    assert store.check(fix=False) == []
    store.close()
