"""Desks for workers: the embedded one for most, and all that several hosts can share for what they differ in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(f"sqlite:///{tmp_path}/desk.db?durability=normal", tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["neo4j", "postgres", "sqlite"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(_url(request.param, tmp_path), tmp_path)
    yield made
    made.close()


def _url(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/desk.db?durability=normal"
    if kind == "postgres":
        import postgres_server

        return f"{postgres_server.shared_url()}&schema=fleet_{abs(hash(str(folder)))}"
    import neo4j_desks

    return f"{neo4j_desks.shared_url()}?desk={neo4j_desks.fresh_desk()}"
