"""A desk of the public API in memory, by a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.testing import memory_desk
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dibs


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(clock: Clock) -> Iterator[dibs.Desk]:
    with memory_desk(clock, agent="ann") as desk:
        yield desk
