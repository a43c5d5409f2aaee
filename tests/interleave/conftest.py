"""Stages of three stores. Their players start once and keep no state between two races."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from interleave.stage import Stage
from interleave.stepper import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.desk import Desk
    from interleave.neo4j.stage import Stage as Neo4jStage
    from interleave.postgres.stage import Stage as PostgresStage


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


@pytest.fixture(params=["sqlite", "postgres", "neo4j"])
def store(request: pytest.FixtureRequest) -> str:
    """The store of a race; the folder of one store has only that one."""
    return str(request.param)


@pytest.fixture
def stage(request: pytest.FixtureRequest, store: str) -> StageMaker:
    """A stage as the shared tests use it: all stores have one of this shape."""
    maker: StageMaker = request.getfixturevalue(f"{store}_stage")
    return maker


@pytest.fixture(scope="session")
def pool() -> Iterator[list[Player]]:
    started: list[Player] = [Player() for _ in range(4)]
    yield started
    with ExitStack() as stack:
        for player in started:
            stack.callback(player.close)


@pytest.fixture
def players(pool: list[Player]) -> tuple[Player, ...]:
    """Four players; one that a failed test left paused is replaced."""
    for at, player in enumerate(pool):
        if not player.idle:
            player.close()
            pool[at] = Player()
    return tuple(pool)


@pytest.fixture
def sqlite_stage(tmp_path: Path, players: tuple[Player, ...]) -> StageMaker:
    return lambda setup: Stage(str(tmp_path), players, setup)


@pytest.fixture(scope="session")
def postgres_theatre() -> Iterator[PostgresStage]:
    """One schema with its conductor and four players, each of whose connections passes a gate."""
    import psycopg2

    from interleave.postgres import player as gate
    from interleave.postgres.stage import Stage, build
    from interleave.postgres.stops import stops_of
    from support.postgres_server import shared_url

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg2, "connect", gate.connect)
        schema = f"interleave_{os.getpid()}"
        conductor, functions = build(shared_url(), schema)
        players = [gate.Player(conductor, lane) for lane in range(1, 5)]
        scene = Stage(conductor, tuple(players), functions)
        yield scene
        scene.desk._store.close()
        for player in players:
            player.close()
        conductor.cursor.execute(f"DROP SCHEMA {schema} CASCADE; DROP SCHEMA {stops_of(schema)} CASCADE")
        conductor.close()


@pytest.fixture
def postgres_stage(postgres_theatre: PostgresStage) -> Callable[[Callable[[Desk], object]], PostgresStage]:
    return postgres_theatre.prepared


@pytest.fixture(scope="session")
def neo4j_theatre() -> Iterator[Neo4jStage]:
    """One desk with four players, each of whose statements passes a gate."""
    import neo4j

    from interleave.neo4j import player as gate
    from interleave.neo4j.stage import Stage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neo4j.Transaction, "run", gate.run)
        patch.setattr(neo4j.Transaction, "commit", gate.commit)
        patch.setattr(neo4j.Session, "run", gate.run_alone)
        scene = Stage()
        yield scene
        scene.close()


@pytest.fixture
def neo4j_stage(neo4j_theatre: Neo4jStage) -> Callable[[Callable[[Desk], object]], Neo4jStage]:
    return neo4j_theatre.prepared
