"""Our kinds of stores, as the suite and other tests open them."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pytest

from dibs.stores.port import Store
from dibs.stores.sqlite.store import SqliteStore
from dibs.testing.conformance.suite import Harness, StoreHooks
from support.vault_secrets import OpenVault

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.emulator import Emulator
    from dibs.stores.postgres.store import PostgresStore
    from dibs.testing import Clock
    from support.remote import RemoteServer

StoreHarness: TypeAlias = Harness[Store]


class SqliteHooks(StoreHooks[SqliteStore]):
    def make_store(self, folder: str, clock: Clock) -> SqliteStore:
        return SqliteStore(os.path.join(folder, "dibs.db"), create=True, durable=False, clock=clock)


class PostgresHooks(StoreHooks["PostgresStore"]):
    """Each store in a separate schema, emptied for the next test. The server uses the tests' clock."""

    pace = 8

    def make_clock(self) -> Clock:
        from support.postgres_schemas import ServerClock

        return ServerClock()

    def make_store(self, folder: str, clock: Clock) -> PostgresStore:
        from support.postgres_schemas import fresh_schema

        self._schemas[folder] = fresh_schema(clock)
        return self.join_store(folder, clock)

    def join_store(self, folder: str, clock: Clock) -> PostgresStore:  # noqa: ARG002 - the schema knows its clock
        from dibs.stores.postgres.store import PostgresStore
        from support.postgres_server import shared_url

        return PostgresStore(shared_url(), schema=self._schemas[folder])

    @cached_property
    def _schemas(self) -> dict[str, str]:
        return {}


class VaultHooks(StoreHooks[OpenVault]):
    lacks = frozenset({"transactions", "vectors", "settings", "fleet", "output", "replacement"})
    pace = 2

    def make_store(self, folder: str, clock: Clock) -> OpenVault:
        return OpenVault(os.path.join(folder, "vault"), clock, self._tokens)

    @cached_property
    def _tokens(self) -> dict[str, str]:
        return {}


class Neo4jHooks(StoreHooks[Store]):
    """Each store is a separate desk on one server."""

    lacks = frozenset({"output"})
    pace = 25

    def make_store(self, folder: str, clock: Clock) -> Store:
        from support.neo4j import fresh_desk

        self._desks[folder] = fresh_desk()
        return self.join_store(folder, clock)

    def join_store(self, folder: str, clock: Clock) -> Store:
        from dibs.stores.neo4j.store import Neo4jStore
        from support.neo4j import shared_url

        return Neo4jStore(shared_url(), desk=self._desks[folder], clock=clock)

    @cached_property
    def _desks(self) -> dict[str, str]:
        return {}


class NotionHooks(StoreHooks[Store]):
    """Each store is a separate database in one emulated Notion, in the layout that stores all fields."""

    lacks = frozenset(
        {"transactions", "links", "history", "scopes", "vectors", "settings", "fleet", "output", "replacement"}
    ) | {
        "strict claims",
        "exact leases",
    }

    def make_store(self, folder: str, clock: Clock) -> Store:
        from dibs.stores.notion.layout import DIBS
        from support.notion_secrets import schema_of

        self._databases[folder] = self._notion(clock).database(schema_of(DIBS)).id
        return self.join_store(folder, clock)

    def join_store(self, folder: str, clock: Clock) -> Store:
        from dibs.stores.notion.database import Cache
        from dibs.stores.notion.http import HttpGateway
        from dibs.stores.notion.layout import DIBS
        from dibs.stores.notion.store import NotionStore
        from support.notion_secrets import OpenNotion

        notion, database = self._notion(clock), self._databases[folder]
        store = NotionStore(
            database,
            DIBS,
            HttpGateway(notion.token, notion.url),
            Cache(notion.url, database, folder),
            scope="home",
            clock=clock,
            look_every=0.1,
            arbiter=self.arbiter(folder, clock),
        )
        return OpenNotion(store, self._tokens).as_store()

    def arbiter(self, folder: str, clock: Clock) -> Store | None:  # noqa: ARG002 - another kind has one
        return None

    def clean_up(self) -> None:
        for notion in self._started:
            notion.close()
        self._patch.undo()

    def _notion(self, clock: Clock) -> Emulator:
        """Start it for the first store."""
        from dibs.lab.emulator import Emulator
        from support.notion import skip_waiting

        if not self._started:
            skip_waiting(self._patch)
            self._started.append(Emulator(clock))
            self._started[0].start()
        return self._started[0]

    @cached_property
    def _started(self) -> list[Emulator]:
        return []

    @cached_property
    def _patch(self) -> pytest.MonkeyPatch:
        return pytest.MonkeyPatch()

    @cached_property
    def _databases(self) -> dict[str, str]:
        return {}

    @cached_property
    def _tokens(self) -> dict[str, str]:
        return {}


class ArbitratedNotionHooks(NotionHooks):
    lacks = NotionHooks.lacks - {"strict claims", "exact leases"}

    def arbiter(self, folder: str, clock: Clock) -> Store:
        return SqliteStore(os.path.join(folder, "arbiter.db"), create=True, durable=False, clock=clock)


class _HttpHooks(StoreHooks[Store]):
    """Each store behind its own server, which opens it once per connection."""

    def behind(self) -> StoreHooks[Store]:
        """The stores that are served."""
        raise NotImplementedError

    def make_clock(self) -> Clock:
        return self._behind.make_clock()

    def make_store(self, folder: str, clock: Clock) -> Store:
        from support.remote import RemoteServer

        self._behind.make_store(folder, clock).close()
        self._servers[folder] = RemoteServer(lambda: self._behind.join_store(folder, clock))
        return self.join_store(folder, clock)

    def join_store(self, folder: str, clock: Clock) -> Store:  # noqa: ARG002 - the server has the clock
        from dibs.stores.http.store import HttpStore

        return HttpStore(self._servers[folder].url)

    def clean_up(self) -> None:
        for server in self._servers.values():
            server.end()

    @cached_property
    def _behind(self) -> StoreHooks[Store]:
        return self.behind()

    @cached_property
    def _servers(self) -> dict[str, RemoteServer]:
        return {}


class HttpSqliteHooks(_HttpHooks):
    pace = 12

    def behind(self) -> StoreHooks[Store]:
        return SqliteHooks()


class HttpPostgresHooks(_HttpHooks):
    pace = 25

    def behind(self) -> StoreHooks[Store]:
        return PostgresHooks()


class SqliteHarness(Harness[SqliteStore]):
    def __init__(self, folder: str) -> None:
        super().__init__(SqliteHooks(), folder)


class PostgresHarness(Harness["PostgresStore"]):
    def __init__(self, folder: str) -> None:
        super().__init__(PostgresHooks(), folder)


HARNESSES: dict[str, Callable[[str], StoreHarness]] = {
    "http": lambda folder: Harness(HttpSqliteHooks(), folder),
    "neo4j": lambda folder: Harness(Neo4jHooks(), folder),
    "notion": lambda folder: Harness(NotionHooks(), folder),
    "notion with an arbiter": lambda folder: Harness(ArbitratedNotionHooks(), folder),
    "postgres": PostgresHarness,
    "sqlite": SqliteHarness,
    "vault": lambda folder: Harness(VaultHooks(), folder),
}
