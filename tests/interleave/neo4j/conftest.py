"""Fixtures that create one desk and four players for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import neo4j
import pytest

from interleave.neo4j import player as gate
from interleave.neo4j.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.desk import Desk
    from interleave.neo4j.player import Player


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


@pytest.fixture(scope="session")
def theatre() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neo4j.Transaction, "run", gate.run)
        patch.setattr(neo4j.Transaction, "commit", gate.commit)
        patch.setattr(neo4j.Session, "run", gate.run_alone)
        scene = Stage()
        yield scene
        scene.close()


@pytest.fixture
def stage(theatre: Stage) -> StageMaker:
    def make(setup: Callable[[Desk], object]) -> Stage:
        theatre.set_up(setup)
        return theatre

    return make


@pytest.fixture
def players(theatre: Stage) -> tuple[Player, ...]:
    return theatre.players
