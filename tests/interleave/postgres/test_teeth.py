"""The schedules detect defects: on a mutant of the store, each kind of race goes wrong and is found.

Without this, a race that finds nothing proves nothing. Each mutant passes when the sessions run one after the other.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.core.lifecycle import Verb
from interleave import acts
from interleave.postgres import mutants
from interleave.postgres.test_links import old_and_done, prune_tasks
from interleave.test_claims import CLAIM_BOB, FINISH, PASSERS_BY, RENEW, TAKE_BOB, for_bob, held, one_task
from interleave.test_links import (
    a_is_held,
    batch,
    canceled_prerequisite,
    finish_a,
    reopen_a,
    two_held,
)
from interleave.test_rings import edge, half_a_ring, two_tasks
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Mutant, Outcome
    from interleave.stepper import Act

TOMORROW = Clock().time + timedelta(days=1)

claim_ann = partial(acts.claim, agent="ann", proof="t1")
take_ann = partial(acts.claim, agent="ann", proof="t1", ids=("a",))
link_b_to_a = partial(acts.link, task="b", on="a")
release = partial(acts.move, verb=Verb.RELEASE, task="a", proof="t1")
release_c = partial(release, task="c", proof="u")


# Failures


def two_holders(outcome: Outcome) -> bool:
    return bool(outcome.first.value and outcome.second.value)


def overlooked(outcome: Outcome) -> bool:
    """A task was claimable all the time, and the second got none."""
    return not outcome.second.value


def both_believed(outcome: Outcome) -> bool:
    return outcome.first.code is None and outcome.second.code is None


def believed_in_batch(outcome: Outcome) -> bool:
    return both_believed(outcome) and outcome.first.value != ["LOST_LOCK"]


def wrong_count(outcome: Outcome) -> bool:
    return any("count of unfinished prerequisites" in finding.problem for finding in outcome.findings)


def wrong_place(outcome: Outcome) -> bool:
    return any("claimable or wake_at does not match" in finding.problem for finding in outcome.findings)


def ring(outcome: Outcome) -> bool:
    return any("wait for each other" in finding.problem for finding in outcome.findings)


def lease_lost(outcome: Outcome) -> bool:
    """The second claimed the task, but its lease is gone."""
    return bool(outcome.second.value) and all(task.lease is None or task.lease.agent != "bob" for task in outcome.tasks)


def link_gone(outcome: Outcome) -> bool:
    return both_believed(outcome) and not any(row[0] == "link" for row in outcome.rest)


# Setups


def held_past_a_canceled_task(desk: Desk) -> None:
    canceled_prerequisite(desk)
    acts.claim(desk, "bob", "u", ids=("c",))


def third_of_a_ring(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("b", "a"),))


def linked_to_held(desk: Desk) -> None:
    """c is active although its prerequisite a is unfinished."""
    acts.add(desk, "a", "c")
    acts.claim(desk, "bob", "u", ids=("c",))
    acts.link(desk, "c", "a")


class Case(NamedTuple):
    mutant: str
    setup: Callable[[Desk], None]
    first: Act
    second: Act
    wrong: Callable[[Outcome], bool]
    before: float = 0  # minutes after the setup
    meanwhile: float = 0  # minutes that pass while the first is paused

    def __str__(self) -> str:
        return f"{self.mutant}-{self.wrong.__name__}"


CASES = [
    # A completion that also unblocks, as one statement: its snapshot is older than the wait for the row.
    Case("one_statement", a_is_held, link_b_to_a, finish_a, wrong_count),
    Case("no_share", a_is_held, link_b_to_a, finish_a, wrong_count),
    Case("no_share", a_is_held, partial(acts.add_one, task="d", on=("a",)), finish_a, wrong_count),
    Case("no_share", a_is_held, partial(acts.unlink, task="c", on="a"), finish_a, wrong_count),
    Case("no_share", canceled_prerequisite, partial(acts.unlink, task="c", on="a"), reopen_a, wrong_count),
    Case("all_done", two_held, finish_a, partial(acts.finish, task="b", proof="t2"), wrong_count),
    # Claims
    Case("double_claim", one_task, claim_ann, CLAIM_BOB, two_holders),
    Case("hasty_by_name", one_task, take_ann, TAKE_BOB, two_holders),
    Case("hasty_by_name", one_task, claim_ann, TAKE_BOB, two_holders),
    Case("no_second_look", for_bob, PASSERS_BY["a claim that is refused"], CLAIM_BOB, overlooked),
    Case("impatient_by_name", for_bob, PASSERS_BY["a claim that is refused"], TAKE_BOB, overlooked),
    # Late holders
    Case("unfenced_finish", held, FINISH, TAKE_BOB, both_believed, before=21),
    Case("unfenced_batch", held, partial(batch, a="t1"), TAKE_BOB, believed_in_batch, before=21),
    Case("unfenced_renew", held, RENEW, TAKE_BOB, both_believed, before=21),
    Case("look_then_write", held, release, TAKE_BOB, lease_lost, before=19, meanwhile=2),
    Case("look_then_write", held, partial(release, verb=Verb.BLOCK), TAKE_BOB, lease_lost, before=19, meanwhile=2),
    Case("look_then_write", held, partial(release, verb=Verb.FAIL), CLAIM_BOB, lease_lost, before=19, meanwhile=2),
    Case("hasty_wake", held, RENEW, CLAIM_BOB, two_holders, before=19, meanwhile=2),
    # Dependents of a canceled or reopened task
    Case("look_then_write", linked_to_held, release_c, partial(acts.cancel, task="a"), wrong_place),
    Case("look_then_write", held_past_a_canceled_task, release_c, reopen_a, wrong_place),
    Case("look_then_write", one_task, partial(acts.move, verb=Verb.CANCEL, task="a"), TAKE_BOB, lease_lost),
    Case("prune_at_random", old_and_done, partial(prune_tasks, before=TOMORROW), link_b_to_a, link_gone),
    # Cycles
    Case("no_locks", two_tasks, edge("blocks", "a", "b"), edge("blocks", "b", "a"), ring),
    Case("no_locks", two_tasks, edge("plan", "a", "b"), edge("blocks", "b", "a"), ring),
    Case("no_locks", third_of_a_ring, edge("blocks", "c", "b"), edge("feeds", "a", "c"), ring),
    Case("ends_only", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("ends_only", half_a_ring, edge("plan", "c", "b"), edge("parent", "a", "d"), ring),
    Case("lock_with_the_check", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("stale_snapshot", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("one_bypasses", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("serializable_alone", half_a_ring, edge("blocks", "c", "b"), edge("blocks", "a", "d"), ring),
    Case("one_bypasses", half_a_ring, edge("parent", "c", "b"), edge("blocks", "a", "d"), ring),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mutant_is_detected(stage: StageMaker, case: Case) -> None:
    scene = stage(case.setup)
    scene.later(minutes=case.before)
    mutant: Mutant = getattr(mutants, case.mutant)
    passing = partial(scene.advance, minutes=case.meanwhile)
    races = scene.races(case.first, case.second, mutant, meanwhile=passing)
    bitten = next((race for race in races if case.wrong(race.outcome)), None)
    assert bitten is not None, "no schedule of this pair notices the mistake"
    for race in scene.races(case.first, case.second, meanwhile=passing):
        assert not case.wrong(race.outcome), f"the sound store does no better: {race}"


@pytest.mark.parametrize("case", [case for case in CASES if not case.mutant.startswith("unfenced")], ids=str)
def test_mutant_passes_without_a_race(stage: StageMaker, case: Case) -> None:
    """Except those that do not compare tokens, which fail without a race."""
    scene = stage(case.setup)
    scene.later(minutes=case.before)
    mutant: Mutant = getattr(mutants, case.mutant)
    assert not case.wrong(scene.one_by_one(case.first, case.second, mutant))
    assert not case.wrong(scene.one_by_one(case.second, case.first, mutant).swapped())
