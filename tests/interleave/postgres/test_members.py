"""Races of one agent on PostgreSQL: no session deadlocks, and a count without a lock is detected."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Status
from interleave import acts
from interleave.postgres import mutants
from interleave.test_members import ASSIGN_R, ASSIGN_S, CLAIM_R, CLAIM_S, NAMED, TO_BOB, over_the_limit, room_for_one

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Mutant
    from interleave.stepper import Act


def at_work_with_more_to_come(desk: Desk) -> None:
    """ann holds a and may hold one more task; n is assigned to her."""
    acts.add(desk, "a", "n")
    acts.enrol(desk, "ann", 2)
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.assign(desk, "ann", "n")


def finish_batch_and_claim(desk: Desk) -> list[str]:
    then = ClaimRequest("ann", ("t5",), "s", lease=acts.LEASE, assigned=True)
    return [claimed.task.id for claimed in desk.move_all(Verb.DONE, {"a": "t1"}, then=then).next]


FINISH_AND_CLAIM = partial(acts.finish, task="a", proof="t1", then=("ann", "t5"), own=True)


@pytest.mark.parametrize("finish", [FINISH_AND_CLAIM, finish_batch_and_claim], ids=["one", "batch"])
@pytest.mark.parametrize("other", [NAMED, ASSIGN_S], ids=["claim", "assignment"])
def test_finish_that_claims_the_next_task_locks_the_member_before_its_task(
    stage: StageMaker, finish: Act, other: Act
) -> None:
    """Claims and assignments use this order too. The opposite order would deadlock."""
    scene = stage(at_work_with_more_to_come)
    for outcome in scene.always_serial(finish, other):
        assert {task.id: task.status for task in outcome.tasks} == {"a": Status.DONE, "n": Status.ACTIVE}
    assert any(race.waited for race in scene.races(finish, other)), "the two never met"


CASES: list[tuple[str, Act, Act]] = [
    ("limit_unlocked", CLAIM_S, CLAIM_R),
    ("limit_unlocked", ASSIGN_S, ASSIGN_R),
    ("limit_unlocked", NAMED, CLAIM_R),
    ("counted_with_the_lock", CLAIM_S, CLAIM_R),
]


@pytest.mark.parametrize(("name", "first", "second"), CASES)
def test_count_before_the_lock_is_detected(stage: StageMaker, name: str, first: Act, second: Act) -> None:
    mutant: Mutant = getattr(mutants, name)
    scene = stage(room_for_one)
    bitten = any(over_the_limit(race.outcome) for race in scene.races(first, second, mutant))
    assert bitten, "no schedule of this pair notices the mistake"
    assert not over_the_limit(scene.one_by_one(first, second, mutant))


def test_task_read_without_its_lock_is_assigned_twice(stage: StageMaker) -> None:
    scene = stage(room_for_one)
    both = [race.outcome for race in scene.races(ASSIGN_S, TO_BOB, mutants.look_then_write)]
    assert any((outcome.first.value, outcome.second.value) == ("ann", "bob") for outcome in both)
