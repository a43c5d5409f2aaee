"""The server of a run: the tests' launcher with durable settings, and a separate database for every participant."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # tests are no package

from support.postgres_server import Server as Launched

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOM = "max_connections=200"  # peers keep pools, and eight processes of them want room
_SHOWN = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "autovacuum")


class Server:
    """A server with PostgreSQL's default settings, on which databases are created and dropped by name."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of a new database, which is dropped at the end."""
        self.run(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def settle(self, database: str) -> None:
        """Give every participant the same start: new statistics, and no pages left to write."""
        self.run("VACUUM ANALYZE", database)
        self.run("CHECKPOINT", database)

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        connection = psycopg2.connect(self.url(database))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def describe(self) -> str:
        version = str(self.run("SHOW server_version")[0][0]).split()[0]
        shown = ", ".join(f"{name}={self.run(f'SHOW {name}')[0][0]}" for name in _SHOWN)
        return f"PostgreSQL {version} on a unix socket, client and server on the same cores, {shown}"


@contextmanager
def running() -> Iterator[Server]:
    """`TMPDIR` chooses the disk. On a memory disk, fsync would mean nothing."""
    launched = Launched(durable=True, settings=(_ROOM,))
    try:
        yield Server(launched.folder)
    finally:
        launched.remove()
