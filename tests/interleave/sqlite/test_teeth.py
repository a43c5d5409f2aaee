"""The schedules detect defects: on a mutant of the store, each kind of race goes wrong and is found.

Without this, a race that finds nothing proves nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from interleave import acts, mutants
from interleave.stepper import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stage import Outcome, Race, Stage
    from interleave.stepper import Act, Mutant, Player

claim_ann = partial(acts.claim, agent="ann", proof="t1")
claim_bob = partial(acts.claim, agent="bob", proof="t2")
finish_a = partial(acts.finish, task="a", proof="t1")
finish_b = partial(acts.finish, task="b", proof="t2")
link_b_to_a = partial(acts.link, task="b", on="a")
link_a_to_b = partial(acts.link, task="a", on="b")


def one_task(desk: Desk) -> None:
    acts.add(desk, "a")


def two_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b")


def a_is_held(desk: Desk) -> None:
    two_tasks(desk)
    acts.claim(desk, "ann", "t1", ids=("a",))


def both_prerequisites_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("c", "a"), ("c", "b")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "bob", "t2", ids=("b",))


def two_holders(outcome: Outcome) -> bool:
    return bool(outcome.first.value and outcome.second.value)


def ring(outcome: Outcome) -> bool:
    return any("wait for each other" in finding.problem for finding in outcome.findings)


def wrong_count(outcome: Outcome) -> bool:
    return any("count of unfinished prerequisites" in finding.problem for finding in outcome.findings)


def stranded(outcome: Outcome) -> bool:
    """All prerequisites of the task are finished, but it cannot be claimed."""
    return (
        any("place in the queue" in finding.problem for finding in outcome.findings) and outcome.task("c").blockers == 0
    )


def both_believed(outcome: Outcome) -> bool:
    return outcome.first.code is None and outcome.second.code is None


def needless_error(outcome: Outcome) -> bool:
    """The driver failed at once on a snapshot that another writer had outdated."""
    return "STORE_BUSY" in {outcome.first.code, outcome.second.code}


CASES: list[tuple[Mutant, Callable[[Desk], None], Act, Act, Callable[[Outcome], bool]]] = [
    (mutants.autocommit, one_task, claim_ann, claim_bob, two_holders),
    (mutants.autocommit, a_is_held, finish_a, link_b_to_a, wrong_count),
    (mutants.autocommit, two_tasks, link_a_to_b, link_b_to_a, ring),
    (mutants.autocommit, a_is_held, finish_a, partial(acts.cancel, task="a"), both_believed),
    (mutants.deferred, one_task, claim_ann, claim_bob, needless_error),
    (mutants.deferred, two_tasks, link_a_to_b, link_b_to_a, needless_error),
    (mutants.read_first, one_task, claim_ann, claim_bob, two_holders),
    (mutants.read_first, two_tasks, link_a_to_b, link_b_to_a, ring),
    (mutants.read_first, a_is_held, finish_a, partial(acts.cancel, task="a"), both_believed),
    (mutants.cycle_check_first, two_tasks, link_a_to_b, link_b_to_a, ring),
    (mutants.dependents_first, a_is_held, finish_a, link_b_to_a, wrong_count),
    (mutants.sum_of_parents, both_prerequisites_held, finish_a, finish_b, stranded),
]


@pytest.mark.parametrize(
    ("mutant", "setup", "first", "second", "violation"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_mutant_is_detected(
    stage: StageMaker,
    mutant: Mutant,
    setup: Callable[[Desk], None],
    first: Act,
    second: Act,
    violation: Callable[[Outcome], bool],
) -> None:
    scene = stage(setup)
    found = [race.outcome for race in first_violation(scene, first, second, mutant, violation)]
    assert found, "no schedule of this pair notices the mistake"
    for one, other in ((first, second), (second, first)):
        assert not violation(scene.in_turn(one, other)), "it would notice it in a sound store as well"


def first_violation(
    scene: Stage, first: Act, second: Act, mutant: Mutant, violation: Callable[[Outcome], bool]
) -> list[Race]:
    return next(([race] for race in scene.races(first, second, mutant) if violation(race.outcome)), [])


@pytest.mark.parametrize(
    ("setup", "first", "second"),
    [(one_task, claim_ann, claim_bob), (a_is_held, finish_a, link_b_to_a)],
    ids=["claims", "finish-link"],
)
def test_writers_without_the_queue_still_exclude_each_other(
    stage: StageMaker, setup: Callable[[Desk], None], first: Act, second: Act
) -> None:
    """The queue adds fairness only: SQLite's own lock keeps writers apart."""
    scene = stage(setup)
    forth, back = scene.in_turn(first, second), scene.in_turn(second, first)
    for race in scene.races(first, second, mutants.without_queue):
        overtaken = race.outcome._replace(first=race.outcome.second, second=race.outcome.first)
        assert race.outcome == forth or (race.at == 1 and overtaken == back), race


def test_time_read_before_the_queue_accepts_a_late_holder(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(a_is_held)
    path = scene.fresh()
    writer, holder = players[:2]
    writer.start(scene.order(path, partial(acts.add_one, task="x")))
    assert isinstance(holder.start(scene.order(path, finish_a, mutants.clock_before_turn)), Waiting)
    scene.clock.advance(minutes=21)
    assert writer.finish().code is None
    assert holder.finish().code is None, "21 minutes into a lease of 20"


def test_store_without_token_check_accepts_a_late_finish(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(a_is_held)
    path = scene.fresh()
    with scene.open(path) as desk:
        scene.clock.advance(minutes=20)
        acts.claim(desk, "bob", "t2", ids=("a",))
        zombie = players[0].run(scene.order(path, finish_a, mutants.unfenced))
        assert zombie.code is None
        assert desk.get("a").status is Status.DONE, "under bob's hands"
