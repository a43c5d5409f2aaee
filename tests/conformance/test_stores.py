"""Our stores in the suite that every store has to pass."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.commands.top import Glance
from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.testing import StoreConformance
from dibs.testing.conformance.builders import SCOPE

from .harness import ArbitratedNotionHooks, Neo4jHooks, NotionHooks, PostgresHooks, SqliteHooks, VaultHooks

if TYPE_CHECKING:
    from dibs.stores.port import Store


class OurStore(StoreConformance):
    """The suite, and tests of parts of dibs that read a store as a whole."""

    def test_who_works_on_what_and_what_is_next_is_seen_at_a_glance(self, store: Store) -> None:
        desk = Desk(store, scope=SCOPE, by=Actor("boss"))
        for title in ("Write the parser", "Test the parser"):
            desk.add([Draft(title)])
        [claimed] = desk.claim("ann", lease=timedelta(minutes=5))
        shot = Glance(desk, anywhere=False, rows=10).look()
        assert [(one.name, [task.id for task in one.tasks]) for one in shot.agents] == [("ann", [claimed.task.id])]
        assert len(shot.ready) == shot.counts.claimable == 1
        assert shot.people == ()
        assert (shot.finished is not None) == store.capabilities.history


class TestSqlite(SqliteHooks, OurStore):
    pass


class TestPostgres(PostgresHooks, OurStore):
    pass


class TestNeo4j(Neo4jHooks, OurStore):
    pass


class TestVault(VaultHooks, OurStore):
    pass


class TestNotion(NotionHooks, OurStore):
    pass


class TestNotionWithAnArbiter(ArbitratedNotionHooks, OurStore):
    pass
