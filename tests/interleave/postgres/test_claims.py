"""Races of claims, finishes and renewals: in every schedule a task has one holder and no ready task is overlooked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Claimed, Draft, Status
from interleave import acts
from interleave.postgres.player import Waiting
from interleave.test_claims import a_finish_frees_b, agents_of, got, moved, one_task

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.stepper import Act

RENEW = partial(acts.renew, task="a", proof="t1")
FINISH = partial(acts.finish, task="a", proof="t1")
CLAIM_BOB = partial(acts.claim, agent="bob", proof="t2")
TAKE_BOB = partial(acts.claim, agent="bob", proof="t2", ids=("a",))


def held(desk: Desk) -> None:
    acts.add(desk, "a")
    acts.claim(desk, "ann", "t1")


def three_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c")


def for_bob(desk: Desk) -> None:
    desk.add([Draft("Task a", "a", assigned_to="bob")])


@pytest.mark.parametrize("same_name", [True, False])
@pytest.mark.parametrize("anywhere", [True, False])
def test_two_claims_of_the_next_task_have_one_winner(stage: StageMaker, same_name: bool, anywhere: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_as_if_in_turn(
        partial(acts.claim, agent=ann, proof="t1"), partial(acts.claim, agent=bob, proof="t2", anywhere=anywhere)
    )
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])
    assert first.task("a").attempt == second.task("a").attempt == 1


@pytest.mark.parametrize("same_name", [True, False])
def test_losing_claim_of_a_named_task_gets_held(stage: StageMaker, same_name: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_as_if_in_turn(
        partial(acts.claim, agent=ann, proof="t1", ids=("a",)), partial(acts.claim, agent=bob, proof="t2", ids=("a",))
    )
    assert (got(first.first), first.second.code) == (["a"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])


def test_named_and_next_claims_never_share_a_task(stage: StageMaker) -> None:
    named = partial(acts.claim, agent="ann", proof="t1", ids=("a",))
    first, second = stage(one_task).always_as_if_in_turn(named, CLAIM_BOB)
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])


def test_claims_of_several_tasks_never_overlap(stage: StageMaker) -> None:
    first, second = stage(three_tasks).always_as_if_in_turn(
        partial(acts.claim, agent="ann", proof="t", count=2),
        partial(acts.claim, agent="bob", proof="u", count=2, anywhere=True),
    )
    assert (got(first.first), got(first.second)) == (["a", "b"], ["c"])
    assert (got(second.first), got(second.second)) == (["c"], ["a", "b"])


@pytest.mark.parametrize("theirs", [("c", "b"), ("b", "a")])
def test_claim_of_named_tasks_takes_all_or_none(stage: StageMaker, theirs: tuple[str, ...]) -> None:
    first, second = stage(three_tasks).always_as_if_in_turn(
        partial(acts.claim, agent="ann", proof="t", ids=("a", "b")),
        partial(acts.claim, agent="bob", proof="u", ids=theirs),
    )
    assert (got(first.first), first.second.code) == (["a", "b"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", list(theirs))


@pytest.mark.parametrize("ids", [(), ("a",)])
def test_four_concurrent_claims_have_one_winner(stage: StageMaker, ids: tuple[str, ...]) -> None:
    scene = stage(one_task)
    claims: list[Act] = [partial(acts.claim, agent="ann", proof=f"t{at}", ids=ids) for at in range(4)]
    for at in range(1, len(scene.places(claims[0])) + 1):
        answers = scene.crowd(at, *claims)
        assert sorted([answer.code or "" for answer in answers]) == ["", *(["HELD"] if ids else [""]) * 3]
        assert [answer.value for answer in answers if answer.value and got(answer) == ["a"]]
        assert (scene.desk.get("a").attempt, scene.desk.check()) == (1, [])


@pytest.mark.parametrize("ids", [(), ("b",)])
def test_unblocked_task_goes_to_finisher_or_another_never_both(stage: StageMaker, ids: tuple[str, ...]) -> None:
    on_with_it = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_finish_frees_b).always_as_if_in_turn(
        on_with_it, partial(acts.claim, agent="bob", proof="u", ids=ids)
    )
    assert [claimed.task.id for claimed in moved(first.first).next] == ["b"]
    assert [claimed.task.id for claimed in moved(second.first).next] == ["b"]
    assert second.second.code == ("WAITING" if ids else None)


def test_task_unblocked_by_a_finish_is_claimable_at_once(stage: StageMaker) -> None:
    first, second = stage(a_finish_frees_b).always_as_if_in_turn(
        FINISH, partial(acts.claim, agent="bob", proof="u", ids=("b",))
    )
    assert moved(first.first).unblocked == ("b",)
    assert got(first.second) == ["b"]
    assert second.second.code == "WAITING"
    handed = cast("list[Claimed]", first.second.value)[0].inputs
    assert [(given.id, given.result) for given in handed] == [("a", "result of a")]


@pytest.mark.parametrize("late_by", [-1, 0, 1])
@pytest.mark.parametrize("claim", [CLAIM_BOB, TAKE_BOB], ids=["next", "named"])
@pytest.mark.parametrize("late", [RENEW, FINISH], ids=["renew", "finish"])
def test_lease_end_decides_between_holder_and_next_claim(
    stage: StageMaker, late_by: int, late: Act, claim: Act
) -> None:
    """Before the end of the lease the holder wins in both orders; from the end on the next claim wins."""
    scene = stage(held)
    scene.later(seconds=acts.LEASE.total_seconds(), microseconds=late_by)
    for outcome in scene.always_as_if_in_turn(late, claim):
        assert outcome.first.code == (None if late_by < 0 else "LOST_LOCK")
        assert outcome.task("a").attempt == (1 if late_by < 0 else 2)


HOLDERS = [Verb.RENEW, Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE, Verb.PAUSE]


@pytest.mark.parametrize("claim", [CLAIM_BOB, TAKE_BOB], ids=["next", "named"])
@pytest.mark.parametrize("verb", HOLDERS)
def test_lease_that_ends_during_a_write_keeps_or_rejects_it_whole(stage: StageMaker, verb: Verb, claim: Act) -> None:
    """The holder writes in time, the lease ends while it is paused, and another agent claims the task."""
    scene = stage(held)
    scene.later(minutes=19)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    believed = set()
    for at in range(1, len(scene.places(late)) + 1):
        scene.reset()
        holder, taker = scene.players[:2]
        holder.start(late, stop=at)
        scene.advance(minutes=2)
        taker.start(claim)
        holder.let_go()
        told, taken = holder.finish(), taker.finish()
        task = scene.desk.get("a")
        believed.add(told.code is None)
        assert scene.desk.check() == [], at
        if told.code is None:
            goes_on = verb in {Verb.FAIL, Verb.RELEASE} and bool(taken.value)
            assert (task.attempt, bool(taken.value)) == ((2, True) if goes_on else (1, False)), at
        else:
            assert told.code == "LOST_LOCK"
            assert (got(taken), task.attempt, task.status) == (["a"], 2, Status.ACTIVE), at
            assert task.lease is not None
            assert task.lease.token == "t2"  # noqa: S105 - bob's, untouched
    assert believed == {True, False}


@pytest.mark.parametrize("verb", HOLDERS)
def test_write_in_time_that_waits_succeeds_unless_the_task_was_claimed(stage: StageMaker, verb: Verb) -> None:
    """While the holder waits for the lock of the task's row, no other agent can claim the task."""

    def with_another(desk: Desk) -> None:
        held(desk)
        acts.add(desk, "b")

    scene = stage(with_another)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    linker, holder, taker = scene.players[:3]
    link = partial(acts.link, task="b", on="a")
    last = len(scene.places(link))
    scene.reset()
    linker.start(link, stop=last)
    assert isinstance(holder.start(late), Waiting)
    scene.advance(minutes=21)
    assert isinstance(taker.start(TAKE_BOB), Waiting)
    assert linker.finish().code is None
    told, taken = holder.finish(), taker.finish()
    assert told.code is None
    assert scene.desk.get("a").attempt == (2 if taken.value else 1)
    assert scene.desk.check() == []


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE])
def test_write_repeated_concurrently_counts_once(stage: StageMaker, verb: Verb) -> None:
    """Two processes of one agent share a token: the second write is a repetition and changes nothing."""

    def before_b(desk: Desk) -> None:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    act = partial(acts.move, verb=verb, task="a", proof="t1")
    first, _ = stage(before_b).always_as_if_in_turn(act, act)
    assert (first.first.code, first.second.code) == (None, None)


# Tasks that another session only reads stay claimable.


def expired(desk: Desk) -> None:
    acts.add(desk, "a", "z")
    acts.move(desk, Verb.SHELVE, "z")
    acts.claim(desk, "ann", "t1", ids=("a",))


ANY_CLAIM = [CLAIM_BOB, TAKE_BOB, partial(CLAIM_BOB, anywhere=True)]
PASSERS_BY: dict[str, Act] = {
    "a link to it": partial(acts.link, task="z", on="a"),
    "a claim that is refused": partial(acts.claim, agent="eve", proof="t3", ids=("a",)),
}


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_refused_claim_does_not_hide_the_task(stage: StageMaker, claim: Act) -> None:
    for outcome in stage(for_bob).always_as_if_in_turn(PASSERS_BY["a claim that is refused"], claim):
        assert outcome.first.code in {"NOT_FOR_YOU", "HELD"}
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_linking_to_a_ready_task_does_not_hide_it(stage: StageMaker, claim: Act) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "z")
        acts.move(desk, Verb.SHELVE, "z")

    for outcome in stage(idle).always_as_if_in_turn(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_linking_to_an_expired_task_does_not_hide_it(stage: StageMaker, claim: Act) -> None:
    scene = stage(expired)
    scene.later(minutes=21)
    for outcome in scene.always_as_if_in_turn(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


def test_two_claims_of_an_expired_task_have_one_winner(stage: StageMaker) -> None:
    scene = stage(held)
    scene.later(minutes=21)
    first, second = scene.always_as_if_in_turn(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3"))
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])


def test_expired_task_without_retries_is_escalated_once(stage: StageMaker) -> None:
    def last_try(desk: Desk) -> None:
        desk.add([Draft("Task a", "a", max_retries=0)])
        acts.claim(desk, "ann", "t1")

    scene = stage(last_try)
    scene.later(minutes=21)
    for outcome in scene.always_as_if_in_turn(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3", ids=("a",))):
        assert (got(outcome.first), outcome.second.code) == ([], "ILLEGAL_MOVE")
        assert outcome.task("a").status is Status.ESCALATED
