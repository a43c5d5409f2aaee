"""Fixtures: a PostgreSQL store with a controlled clock, and its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg2
import pytest

from conformance.harness import PostgresHarness
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

    from dibs.stores.postgres.store import PostgresStore
    from support.clock import Clock


@pytest.fixture
def harness(tmp_path: Path) -> PostgresHarness:
    return PostgresHarness(str(tmp_path))


@pytest.fixture
def store(harness: PostgresHarness) -> Iterator[PostgresStore]:
    store = harness.open()
    yield store
    assert store.check(fix=False) == []
    store.close()


@pytest.fixture
def clock(harness: PostgresHarness) -> Clock:
    return harness.clock


@pytest.fixture
def admin() -> Iterator[Cursor]:
    """A connection of a superuser, outside of any store."""
    connection = psycopg2.connect(shared_url())
    connection.autocommit = True
    yield connection.cursor()
    connection.close()
