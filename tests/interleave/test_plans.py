"""Plans that are applied while others work, and two plans at once."""

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
# a is reworded, b no longer waits for it but for c, c stays, d is new
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


def test_a_plan_leaves_the_task_alone_that_is_being_claimed(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, partial(acts.claim, agent="bob", proof="u"))
    assert got(first.second) == got(second.second) == ["a"]
    assert first.task("a").title == "A, reworded"
    assert changes(second.first)["skipped"] == ("a",)
    assert second.task("a").title == "A"
    for outcome in (first, second):
        assert outcome.task("b").blockers == 1
        assert outcome.task("d").blockers == 2


def test_a_task_that_a_plan_removes_is_either_claimed_or_gone(stage: StageMaker) -> None:
    claim = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    first, second = stage(planned).always_in_turn(partial(acts.plan, text=WITHOUT_A), claim)
    assert changes(first.first)["removed"] == ("a",)
    assert first.second.code == "ILLEGAL_MOVE"
    assert changes(second.first)["skipped"] == ("a",)
    assert (got(second.second), second.task("a").status) == (["a"], Status.ACTIVE)


def test_a_plan_and_a_finish_agree_on_what_still_waits(stage: StageMaker) -> None:
    def held(desk: Desk) -> None:
        planned(desk)
        acts.claim(desk, "ann", "t1", ids=("c",))

    first, second = stage(held).always_in_turn(new_plan, partial(acts.finish, task="c", proof="t1"))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert outcome.task("b").blockers == 0
        assert outcome.task("d").blockers == 2


def test_the_same_plan_applied_twice_at_once_is_applied_once(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, new_plan)
    assert changes(first.first) == changes(second.second)
    assert changes(first.first)["insert"] == ("d",)
    assert not any(changes(first.second).values())
    assert not any(changes(second.first).values())


def test_two_different_plans_leave_the_tasks_of_the_later_one(stage: StageMaker) -> None:
    first, second = stage(planned).always_in_turn(new_plan, partial(acts.plan, text=WITHOUT_A))
    assert changes(first.second)["removed"] == ("a", "d")
    assert changes(second.first)["reopened"] == ("a",)
    assert (first.task("b").blockers, second.task("b").blockers) == (0, 1)
    assert first.task("a").status is Status.CANCELED
    assert second.task("a").status is Status.READY


def test_two_plans_that_would_close_a_ring_together_do_not(stage: StageMaker) -> None:
    forth = '{"id": "x", "title": "x"}\n{"id": "y", "title": "y", "deps": ["x"]}'
    back = '{"id": "y", "title": "y"}\n{"id": "x", "title": "x", "deps": ["y"]}'
    first, second = stage(planned).always_in_turn(partial(acts.plan, text=forth), partial(acts.plan, text=back))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None), "each restates both tasks: the later wins"
    assert (first.task("x").blockers, first.task("y").blockers) == (1, 0)
    assert (second.task("x").blockers, second.task("y").blockers) == (0, 1)
