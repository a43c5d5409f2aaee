"""The races of one agent on Neo4j detect a count without the agent's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interleave.neo4j import mutants
from interleave.test_members import PAIRS, over_the_limit, room_for_one

if TYPE_CHECKING:
    from interleave.neo4j.conftest import StageMaker
    from interleave.stepper import Act


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["claims", "assignments"])
def test_count_without_the_agents_lock_is_detected(stage: StageMaker, first: Act, second: Act) -> None:
    scene = stage(room_for_one)
    bitten = any(over_the_limit(race.outcome) for race in scene.races(first, second, mutants.limit_unlocked))
    assert bitten, "no schedule of this pair notices the mistake"
    assert not over_the_limit(scene.one_by_one(first, second, mutants.limit_unlocked))
