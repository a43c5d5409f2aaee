"""Where ralph's tasks may lie: each kind of store that its sentences are tested on."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pytest


class Place(Protocol):
    """A store that nobody has used yet, and what a test can do behind its back."""

    url: str

    def let(self, seconds: float) -> None:
        """Let so much time pass, by the store's clock."""
        ...

    def written(self) -> object:
        """Changes whenever anyone writes a row, even with the same values."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Someone else is in the middle of writing to every task."""
        ...


class SqlitePlace:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = str(folder / "tasks.db")
        self.url = f"sqlite:///{self._path}"
        self._clock = Clock()
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self._clock)
        self._watcher: sqlite3.Connection | None = None

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def written(self) -> object:
        """SQLite counts the commits of others for whoever keeps a connection open."""
        if self._watcher is None:
            self._watcher = sqlite3.connect(self._path)
        return self._watcher.execute("PRAGMA data_version").fetchone()[0]

    @contextmanager
    def locked(self) -> Iterator[None]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE task SET title = title")
            yield
            other.execute("ROLLBACK")

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()


class PostgresPlace:
    """A schema of its own on the tests' server. Its clock is the server's, so other processes follow it too."""

    def __init__(self, _folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
        from support.postgres_schemas import ServerClock, fresh_schema
        from support.postgres_server import shared_url

        self._clock = ServerClock()
        self._schema = fresh_schema(self._clock)
        self._server = shared_url()
        self.url = f"{self._server}{'&' if '?' in self._server else '?'}schema={self._schema}"

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def written(self) -> object:
        """Every version of every row has the number of the transaction that wrote it."""
        import psycopg2

        with closing(psycopg2.connect(self._server)) as other, other, other.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self._schema,))
            found = []
            for (table,) in sorted(cursor.fetchall()):
                cursor.execute(f'SELECT xmin::text, ctid::text FROM "{self._schema}"."{table}" ORDER BY 2')
                found.append((table, cursor.fetchall()))
            return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        import psycopg2

        with closing(psycopg2.connect(self._server)) as other, other.cursor() as cursor:
            cursor.execute(f'SELECT 1 FROM "{self._schema}".task FOR UPDATE')
            yield
            other.rollback()

    def close(self) -> None:
        """The schema is free for the next test once the clock is forgotten."""


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], SqlitePlace | PostgresPlace]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
}
