"""A server on a fresh SQLite store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.http import Server, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a module; each test has its own scope."""
    variables = {"DIBS_SENDER_SECRET": "a secret that senders are hashed under"}
    server = Server(new_store(tmp_path_factory.mktemp("served")), variables=variables)
    yield server
    server.end()


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:100]
