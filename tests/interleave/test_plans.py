"""Races of a plan with other writes, and of two plans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

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


def changes(answer: Answer) -> dict[str, tuple[str, ...]]:
    assert answer.code is None, answer
    return cast("dict[str, tuple[str, ...]]", answer.value)


def test_plan_leaves_a_task_being_claimed_unchanged(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, partial(acts.claim, agent="bob", proof="u"))
    assert got(first.second) == got(second.second) == ["a"]
    assert first.task("a").title == "A, reworded"
    assert changes(second.first)["skipped"] == ("a",)
    assert second.task("a").title == "A"
    for outcome in (first, second):
        assert outcome.task("b").blockers == 1
        assert outcome.task("d").blockers == 2


def test_task_removed_by_a_plan_is_either_claimed_or_canceled(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_in_turn(partial(acts.plan, text=WITHOUT_A), claim)
    assert changes(first.first)["removed"] == ("a",)
    assert first.second.code == "ILLEGAL_MOVE"
    assert changes(second.first)["skipped"] == ("a",)
    assert (got(second.second), second.task("a").status) == (["a"], Status.ACTIVE)


def test_plan_and_a_finish_agree_on_the_blocked_tasks(stage: StageMaker) -> None:
    def held(desk: Desk) -> None:
        planned(desk)
        acts.claim(desk, "ann", "t1", ids=("c",))

    first, second = stage(held).always_in_turn(new_plan, partial(acts.finish, task="c", proof="t1"))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert outcome.task("b").blockers == 0
        assert outcome.task("d").blockers == 2


def test_same_plan_applied_twice_at_once_counts_once(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, new_plan)
    assert changes(first.first) == changes(second.second)
    assert changes(first.first)["insert"] == ("d",)
    assert not any(changes(first.second).values())
    assert not any(changes(second.first).values())


def test_later_of_two_plans_decides_the_tasks(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, partial(acts.plan, text=WITHOUT_A))
    assert changes(first.second)["removed"] == ("a", "d")
    assert changes(second.first)["reopened"] == ("a",)
    assert (first.task("b").blockers, second.task("b").blockers) == (0, 1)
    assert first.task("a").status is Status.CANCELED
    assert second.task("a").status is Status.READY


def test_two_plans_never_close_a_cycle_together(stage: StageMaker) -> None:
    forth = '{"id": "x", "title": "x"}\n{"id": "y", "title": "y", "deps": ["x"]}'
    back = '{"id": "y", "title": "y"}\n{"id": "x", "title": "x", "deps": ["y"]}'
    first, second = stage(planned).always_in_turn(partial(acts.plan, text=forth), partial(acts.plan, text=back))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None), "each restates both tasks: the later wins"
    assert (first.task("x").blockers, first.task("y").blockers) == (1, 0)
    assert (second.task("x").blockers, second.task("y").blockers) == (0, 1)
