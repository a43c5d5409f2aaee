"""What the suite must know about a kind of store, and nothing more.

To put another store through the suite, write a harness class for it and add it to `HARNESSES`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

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


class SqliteHarness:
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


class PostgresHarness:
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


class VaultHarness:
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


class Neo4jHarness:
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


HARNESSES: dict[str, Callable[[str], StoreHarness]] = {
    "neo4j": Neo4jHarness,
    "postgres": PostgresHarness,
    "sqlite": SqliteHarness,
    "vault": VaultHarness,
}

# How many times longer a step takes than with a store in this process: the random tests go that much less far.
PACE = {"neo4j": 25, "postgres": 5}

# What a kind of store declares it cannot do. Tests marked `needs` that are left out for it; that it refuses is tested.
LACKS: dict[str, frozenset[str]] = {"vault": frozenset({"transactions"})}
