"""Players start once and keep no state between two orders."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from interleave.stage import Stage
from interleave.stepper import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.desk import Desk


class StageMaker(Protocol):
    def __call__(self, setup: Callable[[Desk], object]) -> Stage: ...


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
def stage(tmp_path: Path, players: tuple[Player, ...]) -> StageMaker:
    return lambda setup: Stage(str(tmp_path), players, setup)
