"""Desks for models: SQLite for most tests, all shared stores for the long one."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest
from mcp.client import stdio

from dibs.fleet import attempt
from dibs.fleet.supervisor.protocol import clock
from dibs.serve.mcp import sessions
from support.mcp import PATIENCE, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_numbers = count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class OwnClock:
    """The clock of this process for its leases; the store's clock is unchanged."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return clock() + self._ahead

    def advance(self, **span: float) -> None:
        self._ahead += timedelta(**span).total_seconds()


@pytest.fixture(autouse=True)
def _patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients kill a server that takes two seconds to end; on a slow machine that is too soon."""
    for limit in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT", "_WRITER_FLUSH_TIMEOUT"):
        monkeypatch.setattr(stdio, limit, PATIENCE)


@pytest.fixture
def own_clock(monkeypatch: pytest.MonkeyPatch) -> OwnClock:
    moved = OwnClock()
    monkeypatch.setattr(attempt, "clock", moved)
    monkeypatch.setattr(sessions, "_LONGEST", 0.05)  # notices a moved clock soon
    return moved


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path}/desk.db?durability=normal", tmp_path)


@pytest.fixture(params=["neo4j", "postgres", "sqlite"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path}/desk.db?durability=normal", tmp_path)
    elif request.param == "neo4j":
        from support import neo4j

        yield Place(f"{neo4j.shared_url()}?desk={neo4j.fresh_desk()}", tmp_path)
    else:
        yield from _on_postgres(tmp_path)


def _on_postgres(folder: Path) -> Iterator[Place]:
    import psycopg2

    from support import postgres_server

    server, schema = postgres_server.shared_url(), f"mcp_{os.getpid()}_{next(_numbers)}"
    yield Place(f"{server}{'&' if '?' in server else '?'}schema={schema}", folder)
    connection = psycopg2.connect(server)
    connection.autocommit = True
    connection.cursor().execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    connection.close()
