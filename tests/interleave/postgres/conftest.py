"""Races that only PostgreSQL has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from interleave.postgres.player import Player
    from interleave.postgres.stage import Stage


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


@pytest.fixture
def store() -> str:
    return "postgres"


@pytest.fixture
def theatre(postgres_theatre: Stage) -> Stage:
    return postgres_theatre


@pytest.fixture
def players(theatre: Stage) -> tuple[Player, ...]:
    return theatre.players
