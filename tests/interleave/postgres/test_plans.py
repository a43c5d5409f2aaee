"""Plans that are applied while others work, and two plans at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from interleave import acts
from interleave.test_claims import got
from interleave.test_plans import WITHOUT_A, changes, new_plan, planned

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker


def held(desk: Desk) -> None:
    planned(desk)
    acts.claim(desk, "ann", "t1", ids=("c",))


def test_a_plan_leaves_the_task_alone_that_is_being_claimed(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_as_if_in_turn(new_plan, claim)
    assert got(first.second) == got(second.second) == ["a"]
    assert (first.task("a").title, second.task("a").title) == ("A, reworded", "A")
    for outcome in (first, second):
        assert (outcome.task("b").blockers, outcome.task("d").blockers) == (1, 2)


def test_a_task_that_a_plan_removes_is_either_claimed_or_gone(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_as_if_in_turn(partial(acts.plan, text=WITHOUT_A), claim)
    assert changes(first.first)["removed"] == ("a",)
    assert first.second.code == "ILLEGAL_MOVE"
    assert changes(second.first)["skipped"] == ("a",)
    assert second.task("a").status is Status.ACTIVE


def test_a_plan_and_a_finish_agree_on_what_still_waits(stage: StageMaker) -> None:
    """But for what a plan says of tasks that it need not look at: those may be done by the time it is through."""
    scene = stage(held)
    finish = partial(acts.finish, task="c", proof="t1")
    allowed = [scene.in_turn(*pair)[2:] for pair in ((new_plan, finish), (finish, new_plan))]
    for race in (*scene.races(new_plan, finish), *(race.swapped() for race in scene.races(finish, new_plan))):
        assert race.outcome[2:] in allowed, race
        assert (race.outcome.first.code, race.outcome.second.code) == (None, None)
        assert (race.outcome.task("b").blockers, race.outcome.task("d").blockers) == (0, 2)


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.BLOCK])
def test_a_plan_and_a_holder_who_gives_up_do_not_overwrite_each_other(stage: StageMaker, verb: Verb) -> None:
    give_up = partial(acts.move, verb=verb, task="c", proof="t1")
    for outcome in stage(held).always_as_if_in_turn(new_plan, give_up):
        assert (outcome.first.code, outcome.second.code) == (None, None)


def test_a_plan_and_a_renewal_do_not_overwrite_each_other(stage: StageMaker) -> None:
    scene = stage(held)
    scene.later(minutes=5)
    scene.always_as_if_in_turn(new_plan, partial(acts.renew, task="c", proof="t1"))


@pytest.mark.parametrize("link", [("c", "a"), ("c", "b"), ("b", "c")])
def test_a_plan_and_a_link_leave_one_truth(stage: StageMaker, link: tuple[str, str]) -> None:
    stage(planned).always_as_if_in_turn(new_plan, partial(acts.link, task=link[0], on=link[1]))


def test_a_plan_and_an_edit_leave_one_truth(stage: StageMaker) -> None:
    stage(planned).always_as_if_in_turn(new_plan, partial(acts.put_under, child="a", parent="b"))


def test_the_same_plan_applied_twice_at_once_is_applied_once(stage: StageMaker) -> None:
    first, second = stage(planned).always_as_if_in_turn(new_plan, new_plan)
    assert changes(first.first)["insert"] == changes(second.second)["insert"] == ("d",)
    assert not any(changes(first.second).values())
    assert not any(changes(second.first).values())


def test_two_different_plans_leave_the_tasks_of_the_later_one(stage: StageMaker) -> None:
    first, second = stage(planned).always_as_if_in_turn(new_plan, partial(acts.plan, text=WITHOUT_A))
    assert (first.task("a").status, second.task("a").status) == (Status.CANCELED, Status.READY)


def test_two_plans_that_would_close_a_ring_together_do_not(stage: StageMaker) -> None:
    forth = '{"id": "x", "title": "x"}\n{"id": "y", "title": "y", "deps": ["x"]}'
    back = '{"id": "y", "title": "y"}\n{"id": "x", "title": "x", "deps": ["y"]}'
    stage(planned).always_as_if_in_turn(partial(acts.plan, text=forth), partial(acts.plan, text=back))


def test_the_same_id_added_by_a_plan_and_by_hand_exists_once_and_no_plan_is_half_applied(stage: StageMaker) -> None:
    """Who adds a task without links takes no lock; a plan that meets it in its midst is refused as a whole."""
    scene = stage(planned)
    add = partial(acts.add_one, task="d")
    alone = scene.in_turn(add, acts.look)
    for race in scene.races(new_plan, add):
        plan, added = race.outcome.first, race.outcome.second
        assert (plan.code, added.code) in {(None, "ALREADY_EXISTS"), (None, None), ("ALREADY_EXISTS", None)}, race
        assert race.outcome.findings == ()
        if plan.code:
            assert race.outcome.rest == alone.rest, race
