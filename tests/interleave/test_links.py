"""Races of links with the finish of their tasks, and of links that would close a cycle."""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest

from dibs.core.policy import CanceledBlocker
from dibs.core.task import LinkKind, Status
from interleave import acts
from interleave.stepper import Waiting
from interleave.test_claims import moved

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Act, Player


def a_is_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("c", "a"),))
    acts.claim(desk, "ann", "t1", ids=("a",))


finish_a = partial(acts.finish, task="a", proof="t1")


def test_link_to_a_task_being_finished_never_strands_the_dependent(stage: StageMaker) -> None:
    """Before or after the finish: b ends with no unfinished prerequisite and can be claimed."""
    first, second = stage(a_is_held).always_in_turn(finish_a, partial(acts.link, task="b", on="a"))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert outcome.task("b").blockers == outcome.task("c").blockers == 0
    assert moved(first.first).unblocked == ("c",)
    assert sorted(moved(second.first).unblocked) == ["b", "c"]


def test_new_dependent_of_a_task_being_finished_is_not_stranded(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_in_turn(finish_a, partial(acts.add_one, task="d", on=("a", "b")))
    assert first.task("d").blockers == second.task("d").blockers == 1
    assert "d" not in moved(second.first).unblocked


def test_link_removed_during_a_finish_is_not_counted_twice(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_in_turn(finish_a, partial(acts.unlink, task="c", on="a"))
    assert first.task("c").blockers == second.task("c").blockers == 0
    assert moved(first.first).unblocked == ("c",)
    assert moved(second.first).unblocked == ()


def test_link_made_blocking_during_a_finish_counts_once(stage: StageMaker) -> None:
    def fed(desk: Desk) -> None:
        a_is_held(desk)
        acts.link(desk, "b", "a", LinkKind.FEEDS_INTO)

    first, second = stage(fed).always_in_turn(finish_a, partial(acts.link, task="b", on="a"))
    assert first.task("b").blockers == second.task("b").blockers == 0


def test_link_onto_a_task_being_claimed_blocks_it_or_comes_late(stage: StageMaker) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "b")

    claim = partial(acts.claim, agent="bob", proof="u", ids=("b",))
    first, second = stage(idle).always_in_turn(claim, partial(acts.link, task="b", on="a"))
    assert first.task("b").status is Status.ACTIVE, "work that is under way is not taken away by a new link"
    assert first.task("b").blockers == 1
    assert second.first.code == "WAITING"


def test_finishing_the_last_two_prerequisites_unblocks_the_dependent_once(stage: StageMaker) -> None:
    def two_held(desk: Desk) -> None:
        acts.add(desk, "a", "b", "c", links=(("c", "a"), ("c", "b")))
        acts.claim(desk, "ann", "t1", ids=("a",))
        acts.claim(desk, "bob", "t2", ids=("b",))

    first, second = stage(two_held).always_in_turn(finish_a, partial(acts.finish, task="b", proof="t2"))
    assert (moved(first.first).unblocked, moved(first.second).unblocked) == ((), ("c",))
    assert (moved(second.first).unblocked, moved(second.second).unblocked) == (("c",), ())
    assert first.task("c").blockers == second.task("c").blockers == 0


def test_finishing_the_last_two_subtasks_makes_the_parent_completable(stage: StageMaker) -> None:
    def two_children(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.add_one(desk, "b", parent="p")
        for at, task in enumerate("abp"):
            acts.claim(desk, "ann", f"t{at}", ids=(task,))

    children = [partial(acts.finish, task=task, proof=f"t{at}") for at, task in enumerate("ab")]
    scene = stage(two_children)
    scene.always_in_turn(children[0], children[1])
    path = scene.fresh()
    with scene.open(path) as desk:
        for child in children:
            child(desk)
        assert acts.finish(desk, "p", "t2").task.status is Status.DONE


def test_parent_is_not_completed_past_a_new_subtask(stage: StageMaker) -> None:
    def held_parent(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.claim(desk, "ann", "t1")

    finish = partial(acts.finish, task="p", proof="t1")
    first, second = stage(held_parent).always_in_turn(finish, partial(acts.add_one, task="kid", parent="p"))
    assert first.task("p").status is Status.DONE
    assert second.first.code == "INCOMPLETE_SUBTASKS"
    assert second.task("p").status is Status.ACTIVE


# Cycles. In each link the first task depends on the second.


def edge(kind: str, after: str, before: str) -> Act:
    match kind:
        case "blocks":
            return partial(acts.link, task=after, on=before)
        case "feeds":
            return partial(acts.link, task=after, on=before, kind=LinkKind.FEEDS_INTO)
        case "parent":
            return partial(acts.put_under, child=before, parent=after)
        case _:
            return partial(acts.plan, text=f'{{"id": "{after}", "title": "{after}", "deps": ["{before}"]}}')


@pytest.mark.parametrize(
    ("one", "other"), list(combinations_with_replacement(["blocks", "feeds", "parent", "plan"], 2))
)
def test_later_of_two_links_that_close_a_cycle_is_refused(stage: StageMaker, one: str, other: str) -> None:
    first, second = stage(lambda desk: acts.add(desk, "a", "b")).always_in_turn(
        edge(one, "a", "b"), edge(other, "b", "a")
    )
    assert (first.first.code, first.second.code) == (None, "CYCLE")
    assert (second.first.code, second.second.code) == ("CYCLE", None)


RINGS = [
    ("blocks", "blocks", "blocks"),
    ("feeds", "blocks", "parent"),
    ("parent", "parent", "parent"),
    ("plan", "feeds", "blocks"),
    ("blocks", "blocks", "blocks", "blocks"),
    ("parent", "blocks", "feeds", "plan"),
    ("feeds", "parent", "feeds", "parent"),
]


@pytest.mark.parametrize("kinds", RINGS, ids="-".join)
def test_longer_cycle_is_refused_in_every_order(
    stage: StageMaker, players: tuple[Player, ...], kinds: tuple[str, ...]
) -> None:
    names = "abcd"[: len(kinds)]
    scene = stage(lambda desk: acts.add(desk, *names))
    edges = [edge(kind, names[at], names[(at + 1) % len(names)]) for at, kind in enumerate(kinds)]
    for statement in range(1, len(scene.statements(edges[0])) + 1):
        path = scene.fresh()
        players[0].start(scene.order(path, edges[0]))
        players[0].run_to(statement)
        others = players[1 : len(edges)]
        for player, act in zip(others, edges[1:], strict=True):
            assert isinstance(player.start(scene.order(path, act)), Waiting)
        codes = [player.finish().code for player in players[: len(edges)]]
        assert sorted(codes, key=str) == ["CYCLE", *[None] * (len(edges) - 1)], statement
        with scene.open(path) as desk:
            assert desk.check() == []


def test_cycle_through_uncommitted_tasks_is_refused(stage: StageMaker) -> None:
    """One transaction adds b → new → a while another adds a → b."""
    text = '{"id": "new", "title": "new", "deps": ["a"]}\n{"id": "b", "title": "b", "deps": ["new"]}'
    first, second = stage(lambda desk: acts.add(desk, "a", "b")).always_in_turn(
        partial(acts.plan, text=text), partial(acts.link, task="a", on="b")
    )
    assert (first.first.code, first.second.code) == (None, "CYCLE")
    assert (second.first.code, second.second.code) == ("CYCLE", None)


# Cancelations change dependents too.


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_cancelation_and_a_finish_of_two_prerequisites_match_a_serial_order(
    stage: StageMaker, rule: CanceledBlocker
) -> None:
    def two_prerequisites(desk: Desk) -> None:
        acts.add(desk, "a", "b", "c", "d", links=(("c", "a"), ("c", "b"), ("d", "c")))
        acts.claim(desk, "ann", "t1", ids=("a",))

    first, second = stage(two_prerequisites).always_in_turn(finish_a, partial(acts.cancel, task="b", rule=rule))
    drawn = {
        CanceledBlocker.RESOLVES: Status.READY,
        CanceledBlocker.ESCALATES: Status.ESCALATED,
        CanceledBlocker.CASCADES: Status.CANCELED,
    }[rule]
    for outcome in (first, second):
        assert outcome.task("c").status is drawn
        assert outcome.task("c").blockers == 0
    assert moved(first.first).unblocked == ()
    assert moved(second.first).unblocked == (("c",) if rule is CanceledBlocker.RESOLVES else ())


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_task_is_either_finished_or_canceled(stage: StageMaker, rule: CanceledBlocker) -> None:
    first, second = stage(a_is_held).always_in_turn(finish_a, partial(acts.cancel, task="a", rule=rule))
    assert (first.first.code, first.second.code) == (None, "ILLEGAL_MOVE")
    assert (first.task("a").status, first.task("c").status) == (Status.DONE, Status.READY)
    assert (second.first.code, second.second.code) == ("LOST_LOCK", None)
    assert second.task("a").status is Status.CANCELED


def test_dependent_claimed_during_a_cancelation_keeps_its_lease(stage: StageMaker) -> None:
    def freed(desk: Desk) -> None:
        acts.add(desk, "a", "c")

    link = partial(acts.link, task="c", on="a")
    first, second = stage(freed).always_in_turn(link, partial(acts.cancel, task="a"))
    assert first.task("c").status is Status.ESCALATED
    assert second.task("c").status is Status.READY
