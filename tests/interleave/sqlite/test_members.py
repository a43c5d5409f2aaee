"""The races of one agent on SQLite detect a count that comes before the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interleave import mutants
from interleave.test_members import PAIRS, over_the_limit, room_for_one

if TYPE_CHECKING:
    from interleave.conftest import StageMaker
    from interleave.stepper import Act


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["claims", "assignments"])
def test_count_before_the_queue_is_detected(stage: StageMaker, first: Act, second: Act) -> None:
    scene = stage(room_for_one)
    races = scene.races(first, second, mutants.counted_before_the_turn)
    assert any(over_the_limit(race.outcome) for race in races), "no schedule of this pair notices the mistake"
    assert not any(over_the_limit(scene.in_turn(*pair)) for pair in ((first, second), (second, first)))
