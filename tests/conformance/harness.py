"""What the suite must know about a kind of store, and nothing more.

To put another store through the suite, write a harness class for it and add it to `HARNESSES`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import pytest

from clock import Clock
from dibs.stores.sqlite.store import SqliteStore
from vault_secrets import OpenVault

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store
    from dibs.stores.postgres.store import PostgresStore


class StoreHarness(Protocol):
    """One kind of store, opened as often as a test needs. `clock.advance` moves the time of all its stores."""

    clock: Clock

    def open(self) -> Store:
        """A new and empty store, that lives by `clock`."""
        ...

    def join(self, store: Store) -> Store:
        """The same store once more, as another process sees it."""
        ...

    def reopen(self, store: Store) -> Store:
        """The same store as a newcomer finds it: closed and opened again."""
        ...

    def close(self) -> None:
        """Stop what was started for it."""
        ...


class _NothingStarted:
    def close(self) -> None:
        """Its stores are all there is."""


class SqliteHarness(_NothingStarted):
    def __init__(self, folder: str) -> None:
        self.clock = Clock()
        self._folder = folder
        self._opened = 0

    def open(self) -> Store:
        self._opened += 1
        return self._at(os.path.join(self._folder, f"{self._opened}.db"))

    def join(self, store: Store) -> Store:
        return self._at(store.describe()["place"])

    def reopen(self, store: Store) -> Store:
        place = store.describe()["place"]
        store.close()
        return self._at(place)

    def _at(self, path: str) -> Store:
        return SqliteStore(path, create=True, durable=False, clock=self.clock)


class PostgresHarness(_NothingStarted):
    """Every store in a schema of its own, which the next test gets emptied."""

    def __init__(self, _folder: str) -> None:
        from postgres_schemas import ServerClock

        self.clock: Clock = ServerClock()
        self._schemas: dict[int, str] = {}

    def open(self) -> PostgresStore:
        from postgres_schemas import fresh_schema

        return self._at(fresh_schema(self.clock))

    def join(self, store: Store) -> PostgresStore:
        return self._at(self._schemas[id(store)])

    def reopen(self, store: Store) -> PostgresStore:
        store.close()
        return self._at(self._schemas[id(store)])

    def _at(self, schema: str) -> PostgresStore:
        from dibs.stores.postgres.store import PostgresStore
        from postgres_server import shared_url

        store = PostgresStore(shared_url(), schema=schema)
        self._schemas[id(store)] = schema
        return store


class VaultHarness(_NothingStarted):
    def __init__(self, folder: str) -> None:
        self.clock = Clock()
        self._folder = folder
        self._opened = 0
        self._tokens: dict[str, str] = {}

    def open(self) -> Store:
        self._opened += 1
        return self._at(os.path.join(self._folder, f"vault {self._opened}"))

    def join(self, store: Store) -> Store:
        return self._at(store.describe()["place"])

    def reopen(self, store: Store) -> Store:
        place = store.describe()["place"]
        store.close()
        return self._at(place)

    def _at(self, path: str) -> Store:
        return OpenVault(path, self.clock, self._tokens)


class Neo4jHarness(_NothingStarted):
    """Every store is a desk of its own on one server."""

    def __init__(self, _folder: str) -> None:
        self.clock = Clock()
        self._desks: dict[int, str] = {}

    def open(self) -> Store:
        from neo4j_desks import fresh_desk

        return self._at(fresh_desk())

    def join(self, store: Store) -> Store:
        return self._at(self._desks[id(store)])

    def reopen(self, store: Store) -> Store:
        store.close()
        return self._at(self._desks[id(store)])

    def _at(self, desk: str) -> Store:
        from dibs.stores.neo4j.store import Neo4jStore
        from neo4j_desks import shared_url

        store = Neo4jStore(shared_url(), desk=desk, clock=self.clock)
        self._desks[id(store)] = desk
        return store


class NotionHarness:
    """Every store is a database of its own in one emulated Notion, in the layout that keeps all of a task."""

    arbitrated = False

    def __init__(self, folder: str) -> None:
        from dibs.emulator.notion import Emulator
        from notion_place import skip_waiting

        self.clock = Clock()
        self._folder = folder
        self._patch = pytest.MonkeyPatch()
        skip_waiting(self._patch)
        self._notion = Emulator(self.clock)
        self._notion.start()
        self._tokens: dict[str, str] = {}

    def open(self) -> Store:
        from dibs.stores.notion.layout import DIBS
        from notion_secrets import schema_of

        return self._at(self._notion.database(schema_of(DIBS)).id)

    def join(self, store: Store) -> Store:
        return self._at(_place(store))

    def reopen(self, store: Store) -> Store:
        place = _place(store)
        store.close()
        return self._at(place)

    def close(self) -> None:
        self._notion.close()
        self._patch.undo()

    def _at(self, database: str) -> Store:
        from dibs.stores.notion.http import HttpGateway
        from dibs.stores.notion.known import Known
        from dibs.stores.notion.layout import DIBS
        from dibs.stores.notion.store import NotionStore
        from notion_secrets import OpenNotion

        store = NotionStore(
            database,
            DIBS,
            HttpGateway(self._notion.token, self._notion.url),
            Known(self._notion.url, database, self._folder),
            scope="home",
            clock=self.clock,
            look_every=0.1,
            arbiter=self._arbiter(database) if self.arbitrated else None,
        )
        return OpenNotion(store, self._tokens).as_store()

    def _arbiter(self, database: str) -> Store:
        path = os.path.join(self._folder, f"{database}.db")
        return SqliteStore(path, create=True, durable=False, clock=self.clock)


class StrictNotionHarness(NotionHarness):
    arbitrated = True


def _place(store: Store) -> str:
    return store.describe()["place"].removeprefix("notion://")


HARNESSES: dict[str, Callable[[str], StoreHarness]] = {
    "neo4j": Neo4jHarness,
    "notion": NotionHarness,
    "notion with an arbiter": StrictNotionHarness,
    "postgres": PostgresHarness,
    "sqlite": SqliteHarness,
    "vault": VaultHarness,
}

# How many times longer a step takes than with a store in this process: the random tests go that much less far.
PACE = {"neo4j": 25, "postgres": 8, "vault": 2}
_ENOUGH = 20


def examples(kind: str, usual: int) -> int:
    """How many random examples a store of this kind is given: what is odd about its values shows in a few."""
    return min(usual, max(_ENOUGH, usual // PACE.get(kind, 1)))


# What a kind of store declares it cannot do. Tests marked `needs` that are left out for it; that it refuses is tested.
_NOTION = frozenset({"transactions", "links", "history", "scopes", "vectors", "settings", "fleet"})
LACKS: dict[str, frozenset[str]] = {
    "vault": frozenset({"transactions", "vectors", "settings", "fleet"}),
    "notion": _NOTION | {"strict claims", "exact leases"},
    "notion with an arbiter": _NOTION,
}
