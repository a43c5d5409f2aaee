"""Races of claims and assignments of one agent: in every schedule it stays within its limit.

The tasks are in two scopes, so that no lock of a scope separates the two.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.fleet import dispatched
from dibs.desk import Desk
from interleave import acts

if TYPE_CHECKING:
    from interleave.conftest import StageMaker
    from interleave.postgres.stage import Outcome as ServersOutcome
    from interleave.stage import Outcome
    from interleave.stepper import Act


CLAIM_S = partial(acts.claim_in, scope="s", agent="ann", proof="t1")
CLAIM_R = partial(acts.claim_in, scope="r", agent="ann", proof="t2")
ASSIGN_S = partial(acts.assign, agent="ann", task="a")
ASSIGN_R = partial(acts.assign, agent="ann", task="b", scope="r")
TO_BOB = partial(acts.assign, agent="bob", task="a")
OWN = partial(acts.claim_in, scope="s", agent="ann", proof="t3", own=True)
NAMED = partial(acts.claim, agent="ann", proof="t4", ids=("a",))


def room_for_one(desk: Desk) -> None:
    """a in one scope, b in another; ann may hold one of them."""
    acts.add(desk, "a")
    acts.add(Desk(desk._store, scope="r", by=desk.by), "b")
    for agent in ("ann", "bob"):
        acts.enrol(desk, agent, 1)


def given_to_ann(desk: Desk) -> None:
    room_for_one(desk)
    acts.assign(desk, "ann", "a")


def load_of_ann(outcome: Outcome | ServersOutcome) -> int:
    """The tasks that ann holds or is assigned."""
    return sum(
        (task.lease is not None and task.lease.agent == "ann") or task.assigned_to == "ann" for task in outcome.tasks
    )


def over_the_limit(outcome: Outcome | ServersOutcome) -> bool:
    return load_of_ann(outcome) > 1


PAIRS = [(CLAIM_S, CLAIM_R), (ASSIGN_S, ASSIGN_R)]


@pytest.mark.parametrize(("first", "second"), [*PAIRS, (NAMED, CLAIM_R)], ids=["claims", "assignments", "by name"])
def test_two_claims_or_assignments_at_the_limit_have_one_winner(stage: StageMaker, first: Act, second: Act) -> None:
    for outcome in stage(room_for_one).always_serial(first, second):
        told = [str(answer.code or answer.value) for answer in (outcome.first, outcome.second)]
        assert "OVER_LIMIT" in told
        assert load_of_ann(outcome) == 1


def test_claim_between_counting_and_assigning_is_counted(stage: StageMaker) -> None:
    first, second = stage(room_for_one).always_serial(CLAIM_S, ASSIGN_R)
    assert (first.first.value, first.second.value) == (["a"], "OVER_LIMIT")
    assert (second.first.value, second.second.value) == (["a"], "ann"), "what waits for her keeps her from nothing"


def test_two_dispatchers_give_a_task_to_one_agent(stage: StageMaker) -> None:
    first, second = stage(room_for_one).always_serial(ASSIGN_S, TO_BOB)
    assert (first.first.value, first.second.value) == ("ann", "NOT_FOR_YOU")
    assert (second.first.value, second.second.value) == ("NOT_FOR_YOU", "bob")


def test_task_is_either_claimed_or_reassigned(stage: StageMaker) -> None:
    move_on = partial(TO_BOB, taken_from="ann")
    first, second = stage(given_to_ann).always_serial(OWN, move_on)
    assert (first.first.value, first.second.value) == (["a"], "HELD")
    assert (second.first.value, second.second.value) == ([], "bob")
    assert dispatched(second.task("a"))
