"""Races that only Neo4j has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from interleave.neo4j.player import Player
    from interleave.neo4j.stage import Stage


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


@pytest.fixture
def store() -> str:
    return "neo4j"


@pytest.fixture
def theatre(neo4j_theatre: Stage) -> Stage:
    return neo4j_theatre


@pytest.fixture
def players(theatre: Stage) -> tuple[Player, ...]:
    return theatre.players
