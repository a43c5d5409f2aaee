"""Claims, finishes and renewals that meet: whatever the schedule, a task has one holder and none is overlooked."""

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
def test_two_ask_for_the_next_task_and_one_gets_it(stage: StageMaker, same_name: bool, anywhere: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_as_if_in_turn(
        partial(acts.claim, agent=ann, proof="t1"), partial(acts.claim, agent=bob, proof="t2", anywhere=anywhere)
    )
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])
    assert first.task("a").attempt == second.task("a").attempt == 1


@pytest.mark.parametrize("same_name", [True, False])
def test_two_ask_for_the_same_task_and_the_other_hears_who_holds_it(stage: StageMaker, same_name: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_as_if_in_turn(
        partial(acts.claim, agent=ann, proof="t1", ids=("a",)), partial(acts.claim, agent=bob, proof="t2", ids=("a",))
    )
    assert (got(first.first), first.second.code) == (["a"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])


def test_a_targeted_and_an_untargeted_claim_share_the_tasks_out(stage: StageMaker) -> None:
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
def test_named_tasks_are_had_all_or_none_of_them(stage: StageMaker, theirs: tuple[str, ...]) -> None:
    first, second = stage(three_tasks).always_as_if_in_turn(
        partial(acts.claim, agent="ann", proof="t", ids=("a", "b")),
        partial(acts.claim, agent="bob", proof="u", ids=theirs),
    )
    assert (got(first.first), first.second.code) == (["a", "b"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", list(theirs))


@pytest.mark.parametrize("ids", [(), ("a",)])
def test_of_four_claimers_one_wins_wherever_it_stands_when_the_others_come(
    stage: StageMaker, ids: tuple[str, ...]
) -> None:
    scene = stage(one_task)
    claims: list[Act] = [partial(acts.claim, agent="ann", proof=f"t{at}", ids=ids) for at in range(4)]
    for at in range(1, len(scene.places(claims[0])) + 1):
        answers = scene.crowd(at, *claims)
        assert sorted([answer.code or "" for answer in answers]) == ["", *(["HELD"] if ids else [""]) * 3]
        assert [answer.value for answer in answers if answer.value and got(answer) == ["a"]]
        assert (scene.desk.get("a").attempt, scene.desk.check()) == (1, [])


@pytest.mark.parametrize("ids", [(), ("b",)])
def test_what_a_finish_frees_goes_to_its_finisher_or_to_another_but_never_to_both(
    stage: StageMaker, ids: tuple[str, ...]
) -> None:
    on_with_it = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_finish_frees_b).always_as_if_in_turn(
        on_with_it, partial(acts.claim, agent="bob", proof="u", ids=ids)
    )
    assert [claimed.task.id for claimed in moved(first.first).next] == ["b"]
    assert [claimed.task.id for claimed in moved(second.first).next] == ["b"]
    assert second.second.code == ("WAITING" if ids else None)


def test_a_task_freed_by_a_plain_finish_is_there_for_whoever_comes_next(stage: StageMaker) -> None:
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
def test_at_the_end_of_a_lease_either_its_holder_or_the_next_one_has_the_task(
    stage: StageMaker, late_by: int, late: Act, claim: Act
) -> None:
    """Microseconds before the end the holder wins both ways round; from the end on the next one does."""
    scene = stage(held)
    scene.later(seconds=acts.LEASE.total_seconds(), microseconds=late_by)
    for outcome in scene.always_as_if_in_turn(late, claim):
        assert outcome.first.code == (None if late_by < 0 else "LOST_LOCK")
        assert outcome.task("a").attempt == (1 if late_by < 0 else 2)


HOLDERS = [Verb.RENEW, Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE, Verb.PAUSE]


@pytest.mark.parametrize("claim", [CLAIM_BOB, TAKE_BOB], ids=["next", "named"])
@pytest.mark.parametrize("verb", HOLDERS)
def test_a_holder_whose_lease_ends_while_he_acts_is_heard_in_full_or_not_at_all(
    stage: StageMaker, verb: Verb, claim: Act
) -> None:
    """He asks in time, the lease ends wherever he then stands, and the next one comes for the task."""
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
def test_who_asked_in_time_and_had_to_wait_is_heard_unless_another_took_the_task(stage: StageMaker, verb: Verb) -> None:
    """Whatever he waits for: as long as he waits for the task's own row, nobody else can have it."""

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
def test_a_holder_who_acts_twice_at_once_is_heard_once(stage: StageMaker, verb: Verb) -> None:
    """Two processes of one agent share a token: the second is a repetition and changes nothing."""

    def before_b(desk: Desk) -> None:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    act = partial(acts.move, verb=verb, task="a", proof="t1")
    first, _ = stage(before_b).always_as_if_in_turn(act, act)
    assert (first.first.code, first.second.code) == (None, None)


# What is merely being looked at is not gone.


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
def test_a_task_that_another_was_refused_is_not_overlooked(stage: StageMaker, claim: Act) -> None:
    for outcome in stage(for_bob).always_as_if_in_turn(PASSERS_BY["a claim that is refused"], claim):
        assert outcome.first.code in {"NOT_FOR_YOU", "HELD"}
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_a_task_that_is_just_being_linked_to_is_not_overlooked(stage: StageMaker, claim: Act) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "z")
        acts.move(desk, Verb.SHELVE, "z")

    for outcome in stage(idle).always_as_if_in_turn(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_an_expired_task_that_is_just_being_linked_to_is_not_overlooked(stage: StageMaker, claim: Act) -> None:
    scene = stage(expired)
    scene.later(minutes=21)
    for outcome in scene.always_as_if_in_turn(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


def test_two_who_find_the_same_expired_lease_share_nothing(stage: StageMaker) -> None:
    scene = stage(held)
    scene.later(minutes=21)
    first, second = scene.always_as_if_in_turn(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3"))
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])


def test_a_lease_without_a_retry_left_is_given_up_once(stage: StageMaker) -> None:
    def last_try(desk: Desk) -> None:
        desk.add([Draft("Task a", "a", max_retries=0)])
        acts.claim(desk, "ann", "t1")

    scene = stage(last_try)
    scene.later(minutes=21)
    for outcome in scene.always_as_if_in_turn(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3", ids=("a",))):
        assert (got(outcome.first), outcome.second.code) == ([], "ILLEGAL_MOVE")
        assert outcome.task("a").status is Status.ESCALATED
