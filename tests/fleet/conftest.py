"""Desks for workers: SQLite for most tests, and every shared store where stores differ."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest

from support.workers import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = _on_sqlite(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["neo4j", "postgres", "sqlite"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = _MAKERS[request.param](tmp_path)
    yield made
    made.close()


def _on_sqlite(folder: Path) -> Place:
    return Place(f"sqlite:///{folder}/desk.db?durability=normal", folder)


def on_postgres(folder: Path) -> Place:
    from support import postgres_server

    server, schema = postgres_server.shared_url(), f"fleet_{os.getpid()}_{next(_numbers)}"
    return Place(f"{server}{'&' if '?' in server else '?'}schema={schema}", folder, schema)


def _on_neo4j(folder: Path) -> Place:
    from support import neo4j

    return Place(f"{neo4j.shared_url()}?desk={neo4j.fresh_desk()}", folder)


_MAKERS = {"sqlite": _on_sqlite, "postgres": on_postgres, "neo4j": _on_neo4j}
_numbers = count()
