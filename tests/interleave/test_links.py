"""Races of links and children with the finish, claim, cancelation or reopening of their tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Draft, Link, LinkKind, Status
from interleave import acts
from interleave.test_claims import got, moved

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Act


def a_is_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("c", "a"),))
    acts.claim(desk, "ann", "t1", ids=("a",))


finish_a = partial(acts.finish, task="a", proof="t1")
claim_c = partial(acts.claim, agent="bob", proof="u", ids=("c",))
claim_next = partial(acts.claim, agent="bob", proof="u")


def test_link_to_a_task_being_finished_never_strands_the_dependent(stage: StageMaker) -> None:
    """Before or after the finish: b ends with no unfinished prerequisite and can be claimed."""
    first, second = stage(a_is_held).always_serial(finish_a, partial(acts.link, task="b", on="a"))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert outcome.task("b").blockers == outcome.task("c").blockers == 0
    assert moved(first.first).unblocked == ("c",)
    assert sorted(moved(second.first).unblocked) == ["b", "c"]


def test_finish_with_a_next_task_does_not_strand_a_new_dependent(stage: StageMaker) -> None:
    going_on = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_is_held).always_serial(going_on, partial(acts.link, task="b", on="a"))
    assert first.task("b").blockers == second.task("b").blockers == 0


def test_new_dependent_of_a_task_being_finished_is_not_stranded(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_serial(finish_a, partial(acts.add_one, task="d", on=("a", "b")))
    assert first.task("d").blockers == second.task("d").blockers == 1
    assert "d" not in moved(second.first).unblocked


def test_link_removed_during_a_finish_is_not_counted_twice(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_serial(finish_a, partial(acts.unlink, task="c", on="a"))
    assert first.task("c").blockers == second.task("c").blockers == 0
    assert (moved(first.first).unblocked, moved(second.first).unblocked) == (("c",), ())


def test_link_made_blocking_during_a_finish_counts_once(stage: StageMaker) -> None:
    def fed(desk: Desk) -> None:
        a_is_held(desk)
        acts.link(desk, "b", "a", LinkKind.FEEDS_INTO)

    first, second = stage(fed).always_serial(finish_a, partial(acts.link, task="b", on="a"))
    assert first.task("b").blockers == second.task("b").blockers == 0


@pytest.mark.parametrize("ids", [(), ("b",)])
def test_link_onto_a_task_being_claimed_blocks_it_or_comes_late(stage: StageMaker, ids: tuple[str, ...]) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "b")
        acts.move(desk, Verb.SHELVE, "a")

    claim = partial(acts.claim, agent="bob", proof="u", ids=ids)
    first, second = stage(idle).always_serial(claim, partial(acts.link, task="b", on="a"))
    assert first.task("b").status is Status.ACTIVE, "work that is under way is not taken away by a new link"
    assert first.task("b").blockers == 1
    assert second.first.code == "WAITING" if ids else got(second.first) == []


def two_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("c", "a"), ("c", "b")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "bob", "t2", ids=("b",))


def test_finishing_the_last_two_prerequisites_unblocks_the_dependent_once(stage: StageMaker) -> None:
    first, second = stage(two_held).always_serial(finish_a, partial(acts.finish, task="b", proof="t2"))
    assert (moved(first.first).unblocked, moved(first.second).unblocked) == ((), ("c",))
    assert (moved(second.first).unblocked, moved(second.second).unblocked) == (("c",), ())
    assert first.task("c").blockers == second.task("c").blockers == 0


def test_finish_and_release_of_two_prerequisites_keep_one_blocker(stage: StageMaker) -> None:
    release = partial(acts.move, verb=Verb.RELEASE, task="b", proof="t2")
    for outcome in stage(two_held).always_serial(finish_a, release):
        assert outcome.task("c").blockers == 1


# Batches


def batch(desk: Desk, **tokens: str) -> list[object]:
    """For each task its unblocked dependents, or the code of its refusal."""
    outcomes = desk.move_all(Verb.DONE, tokens).outcomes
    return [outcome.code if isinstance(outcome, DibsError) else outcome.unblocked for outcome in outcomes]


def batch_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", "d", links=(("c", "a"), ("c", "b"), ("d", "b")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "ann", "t2", ids=("b",))


finish_both = partial(batch, a="t1", b="t2")


@pytest.mark.parametrize(
    "late",
    [
        partial(acts.add_one, task="e", on=("a", "b")),
        partial(acts.link, task="d", on="a"),
        partial(acts.unlink, task="c", on="b"),
        partial(acts.claim, agent="bob", proof="u", ids=("c",)),
        partial(acts.cancel, task="b"),
        partial(acts.finish, task="a", proof="t1"),
        finish_both,
    ],
    ids=["add", "link", "unlink", "claim", "cancel", "finish", "batch"],
)
def test_batch_finish_matches_a_serial_order(stage: StageMaker, late: Act) -> None:
    for outcome in stage(batch_held).always_serial(finish_both, late, gives_way=True):
        assert outcome.task("a").finished


# Subtasks


def held_parent(desk: Desk) -> None:
    acts.add(desk, "p", "q")
    acts.claim(desk, "ann", "t1", ids=("p",))


finish_p = partial(acts.finish, task="p", proof="t1")


@pytest.mark.parametrize(
    "adopt",
    [
        partial(acts.add_one, task="kid", parent="p"),
        partial(acts.put_under, child="q", parent="p"),
        partial(acts.plan, text='{"id": "kid", "title": "kid", "parent": "p"}'),
        partial(acts.plan, text='{"id": "q", "title": "q", "parent": "p"}'),
    ],
    ids=["add", "edit", "plan-new", "plan-edit"],
)
def test_parent_is_not_completed_past_a_new_subtask(stage: StageMaker, adopt: Act) -> None:
    first, second = stage(held_parent).always_serial(finish_p, adopt)
    assert first.task("p").status is Status.DONE
    assert second.first.code == "INCOMPLETE_SUBTASKS"
    assert second.task("p").status is Status.ACTIVE


def test_finishing_the_last_two_subtasks_makes_the_parent_completable(stage: StageMaker) -> None:
    def two_children(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.add_one(desk, "b", parent="p")
        for at, task in enumerate("abp"):
            acts.claim(desk, "ann", f"t{at}", ids=(task,))

    children = [partial(acts.finish, task=task, proof=f"t{at}") for at, task in enumerate("ab")]
    scene = stage(two_children)
    scene.always_serial(children[0], children[1])
    outcome = scene.in_turn(
        lambda desk: [child(desk) for child in children], partial(acts.finish, task="p", proof="t2")
    )
    assert outcome.task("p").status is Status.DONE


def test_parent_is_completed_only_after_its_last_subtask(stage: StageMaker) -> None:
    def one_child(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.claim(desk, "ann", "t1", ids=("p",))
        acts.claim(desk, "bob", "t2", ids=("a",))

    first, second = stage(one_child).always_serial(finish_p, partial(acts.finish, task="a", proof="t2"))
    assert (first.first.code, second.first.code) == ("INCOMPLETE_SUBTASKS", None)


def test_parent_is_not_completed_past_a_reopened_subtask(stage: StageMaker) -> None:
    def canceled_child(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.cancel(desk, "a")
        acts.claim(desk, "ann", "t1", ids=("p",))

    reopen = partial(acts.move, verb=Verb.REOPEN, task="a")
    first, second = stage(canceled_child).always_serial(finish_p, reopen)
    assert (first.first.code, second.first.code) == (None, "INCOMPLETE_SUBTASKS")


# Cancelation and reopening


def two_prerequisites(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", "d", links=(("c", "a"), ("c", "b"), ("d", "c")))
    acts.claim(desk, "ann", "t1", ids=("a",))


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_cancelation_and_a_finish_of_two_prerequisites_match_a_serial_order(
    stage: StageMaker, rule: CanceledBlocker
) -> None:
    first, second = stage(two_prerequisites).always_serial(finish_a, partial(acts.cancel, task="b", rule=rule))
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
    first, second = stage(a_is_held).always_serial(finish_a, partial(acts.cancel, task="a", rule=rule))
    assert (first.first.code, first.second.code) == (None, "ILLEGAL_MOVE")
    assert (first.task("a").status, first.task("c").status) == (Status.DONE, Status.READY)
    assert (second.first.code, second.second.code) == ("LOST_LOCK", None)
    assert second.task("a").status is Status.CANCELED


@pytest.mark.parametrize("rule", list(CanceledBlocker))
@pytest.mark.parametrize("claim", [claim_c, claim_next], ids=["named", "next"])
def test_claim_of_a_dependent_and_a_cancelation_match_a_serial_order(
    stage: StageMaker, rule: CanceledBlocker, claim: Act
) -> None:
    """Only the link to a keeps c from being claimed."""

    def freed(desk: Desk) -> None:
        acts.add(desk, "a", "c", links=(("c", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    stage(freed).always_serial(partial(acts.cancel, task="a", rule=rule), claim)


@pytest.mark.parametrize("rule", list(CanceledBlocker))
@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RELEASE])
def test_cancelation_counts_once_for_a_held_dependent(stage: StageMaker, rule: CanceledBlocker, verb: Verb) -> None:
    """c was claimed before the link. Whether c is finished or released, the end of a is counted once."""

    def late_link(desk: Desk) -> None:
        acts.add(desk, "a", "c")
        acts.claim(desk, "bob", "u", ids=("c",))
        acts.link(desk, "c", "a")

    cancel = partial(acts.cancel, task="a", rule=rule)
    act = partial(acts.move, verb=verb, task="c", proof="u")
    for outcome in stage(late_link).always_serial(cancel, act):
        assert outcome.task("c").blockers == 0


def test_dependent_claimed_during_a_cancelation_keeps_its_lease(stage: StageMaker) -> None:
    def freed(desk: Desk) -> None:
        acts.add(desk, "a", "c")

    link = partial(acts.link, task="c", on="a")
    first, second = stage(freed).always_serial(link, partial(acts.cancel, task="a"))
    assert first.task("c").status is Status.ESCALATED
    assert second.task("c").status is Status.READY


def canceled_prerequisite(desk: Desk) -> None:
    """Only ann can claim a."""
    desk.add([Draft("Task a", "a", assigned_to="ann"), Draft("Task c", "c")], [Link("c", "a")])
    acts.cancel(desk, "a", CanceledBlocker.RESOLVES)


reopen_a = partial(acts.move, verb=Verb.REOPEN, task="a")


@pytest.mark.parametrize("claim", [claim_c, claim_next], ids=["named", "next"])
def test_reopened_prerequisite_blocks_its_dependent_or_comes_late(stage: StageMaker, claim: Act) -> None:
    first, second = stage(canceled_prerequisite).always_serial(reopen_a, claim)
    assert first.task("c").blockers == second.task("c").blockers == 1
    assert first.task("c").status is Status.READY
    assert second.task("c").status is Status.ACTIVE


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.BLOCK, Verb.DONE])
def test_reopened_prerequisite_counts_during_any_write_of_the_holder(stage: StageMaker, verb: Verb) -> None:
    def with_holder(desk: Desk) -> None:
        canceled_prerequisite(desk)
        acts.claim(desk, "bob", "u", ids=("c",))

    act = partial(acts.move, verb=verb, task="c", proof="u")
    for outcome in stage(with_holder).always_serial(reopen_a, act):
        assert outcome.task("c").blockers == 1


@pytest.mark.parametrize(
    "change", [partial(acts.link, task="d", on="a"), partial(acts.unlink, task="c", on="a")], ids=["link", "unlink"]
)
def test_link_to_a_reopened_prerequisite_is_counted(stage: StageMaker, change: Act) -> None:
    def with_another(desk: Desk) -> None:
        canceled_prerequisite(desk)
        acts.add(desk, "d")

    for outcome in stage(with_another).always_serial(reopen_a, change):
        assert outcome.task("a").status is Status.READY
