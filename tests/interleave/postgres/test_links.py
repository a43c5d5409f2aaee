"""Races of links and children with the finish, claim, cancelation or reopening of their tasks."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Draft, Link, LinkKind, Status
from interleave import acts
from interleave.test_claims import got, moved
from interleave.test_links import a_is_held, finish_a

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.stepper import Act

claim_c = partial(acts.claim, agent="bob", proof="u", ids=("c",))
claim_next = partial(acts.claim, agent="bob", proof="u")


def test_link_to_a_task_being_finished_never_strands_the_dependent(stage: StageMaker) -> None:
    """Before or after the finish: b ends with no unfinished prerequisite and can be claimed."""
    first, second = stage(a_is_held).always_as_if_in_turn(finish_a, partial(acts.link, task="b", on="a"))
    for outcome in (first, second):
        assert (outcome.first.code, outcome.second.code) == (None, None)
        assert outcome.task("b").blockers == outcome.task("c").blockers == 0
    assert moved(first.first).unblocked == ("c",)
    assert sorted(moved(second.first).unblocked) == ["b", "c"]


def test_finish_with_a_next_task_does_not_strand_a_new_dependent(stage: StageMaker) -> None:
    going_on = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_is_held).always_as_if_in_turn(going_on, partial(acts.link, task="b", on="a"))
    assert first.task("b").blockers == second.task("b").blockers == 0


def test_new_dependent_of_a_task_being_finished_is_not_stranded(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_as_if_in_turn(finish_a, partial(acts.add_one, task="d", on=("a", "b")))
    assert first.task("d").blockers == second.task("d").blockers == 1


def test_link_removed_during_a_finish_is_not_counted_twice(stage: StageMaker) -> None:
    first, second = stage(a_is_held).always_as_if_in_turn(finish_a, partial(acts.unlink, task="c", on="a"))
    assert first.task("c").blockers == second.task("c").blockers == 0
    assert (moved(first.first).unblocked, moved(second.first).unblocked) == (("c",), ())


def test_link_made_blocking_during_a_finish_counts_once(stage: StageMaker) -> None:
    def fed(desk: Desk) -> None:
        a_is_held(desk)
        acts.link(desk, "b", "a", LinkKind.FEEDS_INTO)

    first, second = stage(fed).always_as_if_in_turn(finish_a, partial(acts.link, task="b", on="a"))
    assert first.task("b").blockers == second.task("b").blockers == 0


@pytest.mark.parametrize("ids", [(), ("b",)])
def test_link_onto_a_task_being_claimed_blocks_it_or_comes_late(stage: StageMaker, ids: tuple[str, ...]) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "b")
        acts.move(desk, Verb.SHELVE, "a")

    claim = partial(acts.claim, agent="bob", proof="u", ids=ids)
    first, second = stage(idle).always_as_if_in_turn(claim, partial(acts.link, task="b", on="a"))
    assert first.task("b").status is Status.ACTIVE, "work that is under way is not taken away by a new link"
    assert first.task("b").blockers == 1
    assert second.first.code == "WAITING" if ids else got(second.first) == []


def two_held(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", links=(("c", "a"), ("c", "b")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "bob", "t2", ids=("b",))


def test_finishing_the_last_two_prerequisites_unblocks_the_dependent_once(stage: StageMaker) -> None:
    first, second = stage(two_held).always_as_if_in_turn(finish_a, partial(acts.finish, task="b", proof="t2"))
    assert (moved(first.first).unblocked, moved(first.second).unblocked) == ((), ("c",))
    assert (moved(second.first).unblocked, moved(second.second).unblocked) == (("c",), ())


def test_finish_and_release_of_two_prerequisites_keep_one_blocker(stage: StageMaker) -> None:
    release = partial(acts.move, verb=Verb.RELEASE, task="b", proof="t2")
    for outcome in stage(two_held).always_as_if_in_turn(finish_a, release):
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
    for outcome in stage(batch_held).always_as_if_in_turn(finish_both, late, gives_way=True):
        assert outcome.task("a").finished


def test_batch_with_a_lost_lease_finishes_the_rest(stage: StageMaker) -> None:
    def one_expires(desk: Desk) -> None:
        batch_held(desk)
        desk.renew("b", "t2", lease=timedelta(hours=1))

    scene = stage(one_expires)
    scene.later(minutes=19)
    take_a = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    passing = partial(scene.advance, minutes=2)
    for race in scene.races(finish_both, take_a, meanwhile=passing):
        told = cast("list[object]", race.outcome.first.value)
        assert (told[0] == "LOST_LOCK") == (race.outcome.second.code is None), race
        assert race.outcome.task("b").status is Status.DONE
        assert race.outcome.findings == (), race


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
def test_a_parent_is_not_completed_past_a_sub_task_that_it_is_just_given(stage: StageMaker, adopt: Act) -> None:
    first, second = stage(held_parent).always_as_if_in_turn(finish_p, adopt)
    assert first.task("p").status is Status.DONE
    assert second.first.code == "INCOMPLETE_SUBTASKS"
    assert second.task("p").status is Status.ACTIVE


def test_a_parent_is_completed_once_its_last_sub_task_is_finished_and_not_before(stage: StageMaker) -> None:
    def one_child(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.claim(desk, "ann", "t1", ids=("p",))
        acts.claim(desk, "bob", "t2", ids=("a",))

    first, second = stage(one_child).always_as_if_in_turn(finish_p, partial(acts.finish, task="a", proof="t2"))
    assert (first.first.code, second.first.code) == ("INCOMPLETE_SUBTASKS", None)


def test_a_parent_is_not_completed_past_a_sub_task_that_is_just_opened_again(stage: StageMaker) -> None:
    def canceled_child(desk: Desk) -> None:
        acts.add(desk, "p")
        acts.add_one(desk, "a", parent="p")
        acts.cancel(desk, "a")
        acts.claim(desk, "ann", "t1", ids=("p",))

    reopen = partial(acts.move, verb=Verb.REOPEN, task="a")
    first, second = stage(canceled_child).always_as_if_in_turn(finish_p, reopen)
    assert (first.first.code, second.first.code) == (None, "INCOMPLETE_SUBTASKS")


# Cancelation and reopening


def two_prerequisites(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", "d", links=(("c", "a"), ("c", "b"), ("d", "c")))
    acts.claim(desk, "ann", "t1", ids=("a",))


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_cancelation_and_a_finish_of_two_prerequisites_match_a_serial_order(
    stage: StageMaker, rule: CanceledBlocker
) -> None:
    cancel = partial(acts.cancel, task="b", rule=rule)
    for outcome in stage(two_prerequisites).always_as_if_in_turn(finish_a, cancel):
        assert outcome.task("c").blockers == 0


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_task_is_either_finished_or_canceled(stage: StageMaker, rule: CanceledBlocker) -> None:
    first, second = stage(a_is_held).always_as_if_in_turn(finish_a, partial(acts.cancel, task="a", rule=rule))
    assert (first.first.code, first.second.code) == (None, "ILLEGAL_MOVE")
    assert (second.first.code, second.second.code) == ("LOST_LOCK", None)


@pytest.mark.parametrize("rule", list(CanceledBlocker))
@pytest.mark.parametrize("claim", [claim_c, claim_next], ids=["named", "next"])
def test_a_dependent_is_claimed_before_its_prerequisite_is_canceled_or_judged_by_it(
    stage: StageMaker, rule: CanceledBlocker, claim: Act
) -> None:
    """Only the link to a keeps c from being claimed."""

    def freed(desk: Desk) -> None:
        acts.add(desk, "a", "c", links=(("c", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    stage(freed).always_as_if_in_turn(partial(acts.cancel, task="a", rule=rule), claim)


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_a_dependent_that_is_already_held_is_not_disturbed_by_a_cancelation(
    stage: StageMaker, rule: CanceledBlocker
) -> None:
    """c was claimed before the link. Whether c is finished or released, the end of a is counted once."""

    def late_link(desk: Desk) -> None:
        acts.add(desk, "a", "c")
        acts.claim(desk, "bob", "u", ids=("c",))
        acts.link(desk, "c", "a")

    cancel = partial(acts.cancel, task="a", rule=rule)
    for verb in (Verb.DONE, Verb.RELEASE):
        act = partial(acts.move, verb=verb, task="c", proof="u")
        for outcome in stage(late_link).always_as_if_in_turn(cancel, act):
            assert outcome.task("c").blockers == 0


def canceled_prerequisite(desk: Desk) -> None:
    """Only ann can claim a."""
    desk.add([Draft("Task a", "a", assigned_to="ann"), Draft("Task c", "c")], [Link("c", "a")])
    acts.cancel(desk, "a", CanceledBlocker.RESOLVES)


reopen_a = partial(acts.move, verb=Verb.REOPEN, task="a")


@pytest.mark.parametrize("claim", [claim_c, claim_next], ids=["named", "next"])
def test_a_prerequisite_that_is_opened_again_holds_its_dependent_up_or_comes_too_late(
    stage: StageMaker, claim: Act
) -> None:
    first, second = stage(canceled_prerequisite).always_as_if_in_turn(reopen_a, claim)
    assert first.task("c").blockers == second.task("c").blockers == 1
    assert first.task("c").status is Status.READY
    assert second.task("c").status is Status.ACTIVE


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.BLOCK, Verb.DONE])
def test_a_prerequisite_that_is_opened_again_is_counted_whatever_its_dependents_holder_does(
    stage: StageMaker, verb: Verb
) -> None:
    def with_holder(desk: Desk) -> None:
        canceled_prerequisite(desk)
        acts.claim(desk, "bob", "u", ids=("c",))

    act = partial(acts.move, verb=verb, task="c", proof="u")
    for outcome in stage(with_holder).always_as_if_in_turn(reopen_a, act):
        assert outcome.task("c").blockers == 1


@pytest.mark.parametrize(
    "change", [partial(acts.link, task="d", on="a"), partial(acts.unlink, task="c", on="a")], ids=["link", "unlink"]
)
def test_a_link_to_a_prerequisite_that_is_opened_again_is_counted_right(stage: StageMaker, change: Act) -> None:
    def with_another(desk: Desk) -> None:
        canceled_prerequisite(desk)
        acts.add(desk, "d")

    for outcome in stage(with_another).always_as_if_in_turn(reopen_a, change):
        assert outcome.task("a").status is Status.READY


# Due tasks


def held_for_a_while(desk: Desk) -> None:
    acts.add(desk, "a", "c")
    acts.claim(desk, "ann", "t1", ids=("a",))


def test_lease_renewed_while_due_tasks_are_opened_stays_renewed(stage: StageMaker) -> None:
    """The renewal is in time. While it is paused the lease ends, and another claim opens the due tasks."""
    scene = stage(held_for_a_while)
    scene.later(minutes=19)
    renew = partial(acts.renew, task="a", proof="t1")
    for at in range(1, len(scene.places(renew)) + 1):
        scene.reset()
        holder, other = scene.players[:2]
        holder.start(renew, stop=at)
        scene.advance(minutes=2)
        other.start(partial(acts.claim, agent="bob", proof="u", count=2))
        holder.let_go()
        told, taken = holder.finish(), other.finish()
        assert (told.code, sorted(got(taken))) in ((None, ["c"]), ("LOST_LOCK", ["a", "c"])), at
        assert scene.desk.check() == [], at


# Pruning


def old_and_done(desk: Desk) -> None:
    acts.add(desk, "a", "b")
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.finish(desk, "a", "t1")


def prune_tasks(desk: Desk, before: datetime) -> tuple[int, int]:
    return desk.prune(events_before=None, tasks_before=before)


@pytest.mark.parametrize(
    "late",
    [
        partial(acts.link, task="b", on="a"),
        partial(acts.add_one, task="d", on=("a",)),
        partial(acts.add_one, task="d", parent="a"),
        partial(acts.put_under, child="b", parent="a"),
        partial(acts.plan, text='{"id": "d", "title": "d", "deps": ["a"]}'),
    ],
    ids=["link", "add", "child", "edit", "plan"],
)
def test_a_task_is_pruned_before_it_is_linked_to_or_not_at_all(stage: StageMaker, late: Act) -> None:
    scene = stage(old_and_done)
    scene.later(days=400)
    scene.set_clock(scene._time)
    prune = partial(prune_tasks, before=scene.desk._store.now())
    first, second = scene.always_as_if_in_turn(prune, late)
    assert [task.id for task in first.tasks] == ["b"]
    assert first.second.code in {"NOT_FOUND", "PLAN_INVALID"}
    assert second.second.code is None
    assert "a" in [task.id for task in second.tasks]
