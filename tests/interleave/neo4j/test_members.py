"""Races of claims and assignments of one agent on Neo4j, in two scopes, so that no scope's lock separates them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interleave.neo4j import mutants
from interleave.postgres.test_members import load_of_ann, over_the_limit
from interleave.test_members import ASSIGN_R, ASSIGN_S, CLAIM_S, PAIRS, TO_BOB, room_for_one

if TYPE_CHECKING:
    from interleave.neo4j.conftest import StageMaker
    from interleave.stepper import Act


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["claims", "assignments"])
def test_two_claims_or_assignments_at_the_limit_have_one_winner(stage: StageMaker, first: Act, second: Act) -> None:
    for outcome in stage(room_for_one).always_as_if_in_turn(first, second):
        told = [str(answer.code or answer.value) for answer in (outcome.first, outcome.second)]
        assert "OVER_LIMIT" in told
        assert load_of_ann(outcome) == 1


def test_claim_between_counting_and_assigning_is_counted(stage: StageMaker) -> None:
    first, second = stage(room_for_one).always_as_if_in_turn(CLAIM_S, ASSIGN_R)
    assert (first.first.value, first.second.value) == (["a"], "OVER_LIMIT")
    assert (second.first.value, second.second.value) == (["a"], "ann")


def test_two_dispatchers_give_a_task_to_one_agent(stage: StageMaker) -> None:
    first, second = stage(room_for_one).always_as_if_in_turn(ASSIGN_S, TO_BOB)
    assert (first.first.value, first.second.value) == ("ann", "NOT_FOR_YOU")
    assert (second.first.value, second.second.value) == ("NOT_FOR_YOU", "bob")


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["claims", "assignments"])
def test_count_without_the_agents_lock_is_detected(stage: StageMaker, first: Act, second: Act) -> None:
    scene = stage(room_for_one)
    bitten = any(over_the_limit(race.outcome) for race in scene.races(first, second, mutants.limit_unlocked))
    assert bitten, "no schedule of this pair notices the mistake"
    assert not over_the_limit(scene.one_by_one(first, second, mutants.limit_unlocked))
