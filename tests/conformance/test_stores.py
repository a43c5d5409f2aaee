"""Our stores in the suite that every store has to pass."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.commands.top import StorePoller
from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.testing import StoreConformance
from dibs.testing.conformance.builders import SCOPE
from dibs.testing.conformance.capabilities import CapabilitiesTests, ErrorsTests, WaitingTests
from dibs.testing.conformance.leases import LeasesTests

from .harness import (
    ArbitratedNotionHooks,
    HttpPostgresHooks,
    HttpSqliteHooks,
    Neo4jHooks,
    NotionHooks,
    PostgresHooks,
    SqliteHooks,
    VaultHooks,
)

if TYPE_CHECKING:
    from dibs.stores.port import Store


class OurStore(StoreConformance):
    """The suite, and tests of parts of dibs that read a store as a whole."""

    def test_top_shows_holders_and_next_tasks(self, store: Store) -> None:
        desk = Desk(store, scope=SCOPE, by=Actor("boss"))
        for title in ("Write the parser", "Test the parser"):
            desk.add([Draft(title)])
        [claimed] = desk.claim("ann", lease=timedelta(minutes=5))
        shot = StorePoller(desk, anywhere=False, rows=10).look()
        assert [(one.name, [task.id for task in one.tasks]) for one in shot.agents] == [("ann", [claimed.task.id])]
        assert len(shot.ready) == shot.counts.claimable == 1
        assert shot.people == ()
        assert (shot.finished is not None) == store.capabilities.history


class TestSqlite(SqliteHooks, OurStore):
    pass


class TestPostgres(PostgresHooks, OurStore):
    pass


class TestHttp(HttpSqliteHooks, OurStore):
    """Through a server on SQLite."""


class SomeOfTheSuite(CapabilitiesTests, ErrorsTests, WaitingTests, LeasesTests):
    """The tests most likely to fail behind a server. With DIBS_TORTURE=1, the whole suite is run instead."""


class TestHttpOnPostgres(HttpPostgresHooks, OurStore if os.environ.get("DIBS_TORTURE") else SomeOfTheSuite):  # type: ignore[misc]  # one of two
    """Through a server on PostgreSQL."""


class TestNeo4j(Neo4jHooks, OurStore):
    pass


class TestVault(VaultHooks, OurStore):
    pass


class TestNotion(NotionHooks, OurStore):
    pass


class TestNotionWithAnArbiter(ArbitratedNotionHooks, OurStore):
    pass
