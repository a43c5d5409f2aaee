"""Races of a plan with other writes, and of two plans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from interleave import acts
from interleave.test_claims import got

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Answer


OLD = """
{"id": "a", "title": "A", "spec": "plan.md"}
{"id": "b", "title": "B", "spec": "plan.md", "deps": ["a"]}
{"id": "c", "title": "C", "spec": "plan.md"}
"""
# a has a new title, b depends on c and no longer on a, c is unchanged, d is new
NEW = """
{"id": "a", "title": "A, reworded", "spec": "plan.md"}
{"id": "b", "title": "B", "spec": "plan.md", "deps": ["c"]}
{"id": "c", "title": "C", "spec": "plan.md"}
{"id": "d", "title": "D", "spec": "plan.md", "deps": ["a", "b"]}
"""
WITHOUT_A = """
{"id": "b", "title": "B", "spec": "plan.md"}
{"id": "c", "title": "C", "spec": "plan.md"}
"""


new_plan = partial(acts.plan, text=NEW)


def planned(desk: Desk) -> None:
    acts.plan(desk, OLD)


def held(desk: Desk) -> None:
    planned(desk)
    acts.claim(desk, "ann", "t1", ids=("c",))


def changes(answer: Answer) -> dict[str, tuple[str, ...]]:
    assert answer.code is None, answer
    return cast("dict[str, tuple[str, ...]]", answer.value)


def test_plan_leaves_a_task_being_claimed_unchanged(stage: StageMaker) -> None:
    first, second = stage(planned).always_serial(new_plan, partial(acts.claim, agent="bob", proof="u", ids=("a",)))
    assert got(first.second) == got(second.second) == ["a"]
    assert first.task("a").title == "A, reworded"
    assert changes(second.first)["skipped"] == ("a",)
    assert second.task("a").title == "A"
    for outcome in (first, second):
        assert outcome.task("b").blockers == 1
        assert outcome.task("d").blockers == 2


def test_task_removed_by_a_plan_is_either_claimed_or_canceled(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_serial(partial(acts.plan, text=WITHOUT_A), claim)
    assert changes(first.first)["removed"] == ("a",)
    assert first.second.code == "ILLEGAL_MOVE"
    assert changes(second.first)["skipped"] == ("a",)
    assert (got(second.second), second.task("a").status) == (["a"], Status.ACTIVE)


def test_plan_and_a_finish_agree_on_the_blocked_tasks(stage: StageMaker) -> None:
    """The answer alone may differ: a plan may list tasks as skipped or not, depending on a concurrent finish."""
    finish = partial(acts.finish, task="c", proof="t1")
    for outcome in stage(held).always_serial(new_plan, finish, answers=False):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert (outcome.task("b").blockers, outcome.task("d").blockers) == (0, 2)


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.BLOCK])
def test_plan_and_a_released_task_do_not_overwrite_each_other(stage: StageMaker, verb: Verb) -> None:
    give_up = partial(acts.move, verb=verb, task="c", proof="t1")
    for outcome in stage(held).always_serial(new_plan, give_up):
        assert (outcome.first.code, outcome.second.code) == (None, None)


def test_plan_and_a_renewal_do_not_overwrite_each_other(stage: StageMaker) -> None:
    scene = stage(held)
    scene.later(minutes=5)
    scene.always_serial(new_plan, partial(acts.renew, task="c", proof="t1"))


@pytest.mark.parametrize("link", [("c", "a"), ("c", "b"), ("b", "c")])
def test_plan_and_a_link_match_a_serial_order(stage: StageMaker, link: tuple[str, str]) -> None:
    stage(planned).always_serial(new_plan, partial(acts.link, task=link[0], on=link[1]))


def test_plan_and_an_edit_match_a_serial_order(stage: StageMaker) -> None:
    stage(planned).always_serial(new_plan, partial(acts.put_under, child="a", parent="b"))


def test_same_plan_applied_twice_at_once_counts_once(stage: StageMaker) -> None:
    first, second = stage(planned).always_serial(new_plan, new_plan)
    assert changes(first.first) == changes(second.second)
    assert changes(first.first)["insert"] == ("d",)
    assert not any(changes(first.second).values())
    assert not any(changes(second.first).values())


def test_later_of_two_plans_decides_the_tasks(stage: StageMaker) -> None:
    first, second = stage(planned).always_serial(new_plan, partial(acts.plan, text=WITHOUT_A))
    assert changes(first.second)["removed"] == ("a", "d")
    assert changes(second.first)["reopened"] == ("a",)
    assert (first.task("b").blockers, second.task("b").blockers) == (0, 1)
    assert first.task("a").status is Status.CANCELED
    assert second.task("a").status is Status.READY


def test_two_plans_never_close_a_cycle_together(stage: StageMaker) -> None:
    forth = '{"id": "x", "title": "x"}\n{"id": "y", "title": "y", "deps": ["x"]}'
    back = '{"id": "y", "title": "y"}\n{"id": "x", "title": "x", "deps": ["y"]}'
    first, second = stage(planned).always_serial(partial(acts.plan, text=forth), partial(acts.plan, text=back))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None), "each restates both tasks: the later wins"
    assert (first.task("x").blockers, first.task("y").blockers) == (1, 0)
    assert (second.task("x").blockers, second.task("y").blockers) == (0, 1)
