"""Ten thousand simulations in virtual time; `make torture` (DIBS_TORTURE=1) runs ten times as many.

They have stalls, 429s, writes that succeed without an answer, with an error, or after their sender stopped waiting,
lists that are two minutes old, outdated pages, wrong clocks, crashes and edits by people.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interleave.notion import unguarded
from interleave.notion.simulation import HAUL, RUSH, Simulation

if TYPE_CHECKING:
    from interleave.notion.simulation import Claim

CHUNKS = 100 if os.environ.get("DIBS_TORTURE") else 10
CHUNK = 1_000


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_two_agents_never_believe_that_they_hold_the_task(chunk: int) -> None:
    claimed, calm = 0, []
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        world = Simulation(seed).run()
        assert not world.overlaps(), f"schedule {seed}: {world.overlaps()[0]}\n" + "\n".join(world.log)
        claimed += bool(world.claimed)
        if world.calm:
            calm.append(world.claimed)
    assert claimed > 0.8 * CHUNK, "too little was claimed to tell anything"
    assert min(calm) > 0, "in calm weather every fleet gets somewhere"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_naive_claim_often_has_two_winners_in_the_same_schedules(chunk: int) -> None:
    worlds = [Simulation(seed, unguarded.naive) for seed in range(chunk * CHUNK, chunk * CHUNK + CHUNK // 10)]
    doubled = [world for world in worlds if world.run().overlaps()]
    assert len(doubled) > 0.05 * len(worlds)
    assert {world.pace for world in doubled} == {RUSH, HAUL}


@pytest.mark.parametrize("claim", [unguarded.unbounded, unguarded.stubborn])
def test_claim_without_one_of_the_bounds_is_detected(claim: Claim) -> None:
    assert any(Simulation(seed, claim).run().overlaps() for seed in range(CHUNK))
