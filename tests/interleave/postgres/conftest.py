"""Fixtures that create one schema with its conductor and four players for all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import psycopg2
import pytest

from interleave.postgres import player as gate
from interleave.postgres.player import Player
from interleave.postgres.stage import Stage, build
from interleave.postgres.stops import stops_of
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.desk import Desk


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


@pytest.fixture(scope="session")
def gates() -> Iterator[None]:
    """Let every connection of a player pass its gate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg2, "connect", gate.connect)
        yield


@pytest.fixture(scope="session")
def theatre(gates: None) -> Iterator[Stage]:  # noqa: ARG001 - for its side effect
    schema = f"interleave_{os.getpid()}"
    conductor, functions = build(shared_url(), schema)
    players = [Player(conductor, lane) for lane in range(1, 5)]
    scene = Stage(conductor, tuple(players), functions)
    yield scene
    scene.desk._store.close()
    for player in players:
        player.close()
    conductor.cursor.execute(f"DROP SCHEMA {schema} CASCADE; DROP SCHEMA {stops_of(schema)} CASCADE")
    conductor.close()


@pytest.fixture
def stage(theatre: Stage) -> StageMaker:
    def make(setup: Callable[[Desk], object]) -> Stage:
        theatre.set_up(setup)
        return theatre

    return make


@pytest.fixture
def players(theatre: Stage) -> tuple[Player, ...]:
    return theatre.players
