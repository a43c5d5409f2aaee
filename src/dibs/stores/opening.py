"""The one place that turns a URL into a store."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Misconfigured
from dibs.stores.projects import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dibs.stores.port import Store

MEMORY = ":memory:"

_MISTYPED = re.compile(r"(?:sqlite|vault|postgres|postgresql|neo4j|bolt|notion)(?:\+\w+)?(?::|//)")


def open_store(url: str, *, create: bool = False, clock: Callable[[], datetime] | None = None) -> Store:
    """Open what the URL names: `sqlite:///relative/path`, `sqlite:////absolute/path`, just a file's path,
    `postgresql://host/database`, `neo4j://host:7687`, `vault:///folder`, `notion://database-id`, `https://server`, or
    `:memory:`.

    `clock` takes the place of the machine's, for a store that goes by it; those with a server go by the server's.
    """
    if url == MEMORY:
        return _open_memory(clock)
    scheme, separator, rest = url.partition("://")
    if not separator and _MISTYPED.match(url):
        raise InvalidInput(
            "That is not the URL of a store: write the scheme with '://', as in postgresql://host/database."
        )
    if not separator:
        place, query, options = url.partition("?")  # a plain path needs no decoding
        scheme, rest = "sqlite", f"/{place.replace('%', '%25')}{query}{options}"
    if scheme == "sqlite":
        return _open_sqlite(rest, create=create, clock=clock)
    if scheme in {"postgresql", "postgres"}:
        return _open_postgres(url, create=create)
    if scheme == "vault":
        return _open_vault(rest, create=create, clock=clock)
    if scheme == "notion":
        from dibs.stores.notion.connection import open_notion

        return open_notion(rest, open_store, create=create)
    if scheme in {"https", "http", "http+unix"}:
        from dibs.stores.http.store import HttpStore

        return HttpStore(url, create=create)
    if scheme.partition("+")[0] in {"neo4j", "bolt"}:
        return _open_neo4j(url, create=create)
    named = f"'{scheme}'" if scheme.isalnum() else "that"
    raise InvalidInput(f"No store is called {named}. Known are: sqlite, postgresql, neo4j, vault, notion, https.")


def _open_memory(clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.sqlite.store import SqliteStore

    return SqliteStore(MEMORY, create=True) if clock is None else SqliteStore(MEMORY, create=True, clock=clock)


def _open_sqlite(rest: str, *, create: bool, clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.sqlite.store import SqliteStore

    path, durable, timeout = _local(rest, "SQLite", "sqlite")
    if clock is None:
        return SqliteStore(path, create=create, durable=durable, timeout=timeout)
    return SqliteStore(path, create=create, durable=durable, timeout=timeout, clock=clock)


def _open_vault(rest: str, *, create: bool, clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.vault.store import VaultStore

    path, durable, timeout = _local(rest, "vault", "vault")
    if clock is None:
        return VaultStore(path, create=create, durable=durable, timeout=timeout)
    return VaultStore(path, create=create, durable=durable, timeout=timeout, clock=clock)


def _local(rest: str, kind: str, scheme: str) -> tuple[str, bool, float]:
    """The path, the durability and the patience that the URL of a store on this machine asks for."""
    place, _, query = rest.partition("?")
    options = dict(part.partition("=")[::2] for part in query.split("&") if part)
    durability = options.pop("durability", "full")
    timeout = options.pop("timeout", "30")
    if options or durability not in {"full", "normal"} or not (timeout.isascii() and timeout.isdigit()):
        raise InvalidInput(f"A {kind} URL takes durability=full|normal and timeout=SECONDS, nothing else.")
    if not place.startswith("/") or place == "/":
        raise InvalidInput(f"A {kind} URL is {scheme}:///relative/path or {scheme}:////absolute/path.")
    return os.path.abspath(unescaped(place[1:])), durability == "full", float(timeout)


def _open_postgres(url: str, *, create: bool) -> Store:
    try:
        from dibs.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "psycopg2":
            raise
        raise Misconfigured("PostgreSQL needs its driver: pip install 'dibs[postgres]'.") from None
    return PostgresStore(url, create=create)


def _open_neo4j(url: str, *, create: bool) -> Store:
    try:
        from dibs.stores.neo4j.store import Neo4jStore
    except ModuleNotFoundError as error:
        if error.name != "neo4j":
            raise
        raise Misconfigured("Neo4j needs its driver: pip install 'dibs[neo4j]'.") from None
    return Neo4jStore(url, create=create)
