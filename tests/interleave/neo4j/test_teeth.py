"""The schedules detect defects on Neo4j too: a store without the scope's lock goes wrong and is found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from interleave import acts
from interleave.neo4j import mutants
from interleave.postgres.test_teeth import (
    Case,
    claim_ann,
    lease_lost,
    release,
    ring,
    take_ann,
    two_holders,
    wrong_count,
)
from interleave.test_claims import CLAIM_BOB, TAKE_BOB, held, one_task
from interleave.test_links import finish_a, two_held
from interleave.test_rings import edge, half_a_ring

if TYPE_CHECKING:
    from interleave.neo4j.conftest import StageMaker
    from interleave.postgres.stage import Mutant

CASES = [
    Case("no_lock", one_task, claim_ann, CLAIM_BOB, two_holders),
    Case("no_lock", one_task, take_ann, TAKE_BOB, two_holders),
    Case("one_bypasses", one_task, claim_ann, TAKE_BOB, two_holders),
    Case("no_lock", held, release, TAKE_BOB, lease_lost, before=19, meanwhile=2),
    Case("no_lock", held, partial(release, verb=Verb.BLOCK), TAKE_BOB, lease_lost, before=19, meanwhile=2),
    # Where two links share an end, the server's own locks on it suffice.
    Case("no_lock", half_a_ring, edge("plan", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("no_lock", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("one_bypasses", half_a_ring, edge("parent", "c", "b"), edge("blocks", "a", "d"), ring),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mutant_is_detected(stage: StageMaker, case: Case) -> None:
    scene = stage(case.setup)
    scene.later(minutes=case.before)
    mutant: Mutant = getattr(mutants, case.mutant)
    passing = partial(scene.advance, minutes=case.meanwhile)
    races = scene.races(case.first, case.second, mutant, meanwhile=passing)
    assert any(case.wrong(race.outcome) for race in races), "no schedule of this pair notices the mistake"
    for race in scene.races(case.first, case.second, meanwhile=passing):
        assert not case.wrong(race.outcome), f"the sound store does no better: {race}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mutant_passes_without_a_race(stage: StageMaker, case: Case) -> None:
    scene = stage(case.setup)
    scene.later(minutes=case.before)
    mutant: Mutant = getattr(mutants, case.mutant)
    assert not case.wrong(scene.one_by_one(case.first, case.second, mutant))
    assert not case.wrong(scene.one_by_one(case.second, case.first, mutant).swapped())


def test_shared_dependent_is_counted_right_without_the_scope_lock(stage: StageMaker) -> None:
    """The dependent's own lock protects its counter; the scope's lock is for other cases."""
    finish_b = partial(acts.finish, task="b", proof="t2")
    for race in stage(two_held).races(finish_a, finish_b, mutants.no_lock):
        assert not wrong_count(race.outcome)
