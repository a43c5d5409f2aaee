"""Races of a plan with other writes, and with another plan."""

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


def test_plan_leaves_a_task_being_claimed_unchanged(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_as_if_in_turn(new_plan, claim)
    assert got(first.second) == got(second.second) == ["a"]
    assert (first.task("a").title, second.task("a").title) == ("A, reworded", "A")
    for outcome in (first, second):
        assert (outcome.task("b").blockers, outcome.task("d").blockers) == (1, 2)


def test_task_removed_by_a_plan_is_either_claimed_or_canceled(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_as_if_in_turn(partial(acts.plan, text=WITHOUT_A), claim)
    assert changes(first.first)["removed"] == ("a",)
    assert first.second.code == "ILLEGAL_MOVE"
    assert changes(second.first)["skipped"] == ("a",)
    assert second.task("a").status is Status.ACTIVE


def test_plan_and_a_finish_agree_on_the_blocked_tasks(stage: StageMaker) -> None:
    """The answer alone may differ: a plan may list tasks as skipped or not, depending on a concurrent finish."""
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


def test_same_plan_applied_twice_at_once_counts_once(stage: StageMaker) -> None:
    first, second = stage(planned).always_as_if_in_turn(new_plan, new_plan)
    assert changes(first.first)["insert"] == changes(second.second)["insert"] == ("d",)
    assert not any(changes(first.second).values())
    assert not any(changes(second.first).values())


def test_later_of_two_plans_decides_the_tasks(stage: StageMaker) -> None:
    first, second = stage(planned).always_as_if_in_turn(new_plan, partial(acts.plan, text=WITHOUT_A))
    assert (first.task("a").status, second.task("a").status) == (Status.CANCELED, Status.READY)


def test_two_plans_never_close_a_cycle_together(stage: StageMaker) -> None:
    forth = '{"id": "x", "title": "x"}\n{"id": "y", "title": "y", "deps": ["x"]}'
    back = '{"id": "y", "title": "y"}\n{"id": "x", "title": "x", "deps": ["y"]}'
    stage(planned).always_as_if_in_turn(partial(acts.plan, text=forth), partial(acts.plan, text=back))


def test_same_id_from_a_plan_and_an_add_exists_once(stage: StageMaker) -> None:
    """An add without links takes no lock; a plan that meets it during its transaction is refused as a whole."""
    scene = stage(planned)
    add = partial(acts.add_one, task="d")
    alone = scene.in_turn(add, acts.look)
    for race in scene.races(new_plan, add):
        plan, added = race.outcome.first, race.outcome.second
        assert (plan.code, added.code) in {(None, "ALREADY_EXISTS"), (None, None), ("ALREADY_EXISTS", None)}, race
        assert race.outcome.findings == ()
        if plan.code:
            assert race.outcome.rest == alone.rest, race
