"""Races of claims, finishes and renewals: in every schedule a task has one holder and no ready task is overlooked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Claimed, Draft, Status
from interleave import acts

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.stores.port import Moved
    from interleave.conftest import StageMaker
    from interleave.stepper import Act, Answer


RENEW = partial(acts.renew, task="a", proof="t1")
FINISH = partial(acts.finish, task="a", proof="t1")
CLAIM_BOB = partial(acts.claim, agent="bob", proof="t2")
TAKE_BOB = partial(acts.claim, agent="bob", proof="t2", ids=("a",))


def one_task(desk: Desk) -> None:
    acts.add(desk, "a")


def held(desk: Desk) -> None:
    acts.add(desk, "a")
    acts.claim(desk, "ann", "t1")


def three_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c")


def for_bob(desk: Desk) -> None:
    desk.add([Draft("Task a", "a", assigned_to="bob")])


def got(answer: Answer) -> list[str]:
    """The ids of the claimed tasks."""
    assert answer.code is None, answer
    return [claimed.task.id for claimed in cast("list[Claimed]", answer.value)]


def moved(answer: Answer) -> Moved:
    assert answer.code is None, answer
    return cast("Moved", answer.value)


def agents_of(same_name: bool) -> tuple[str, str]:
    return ("ann", "ann") if same_name else ("ann", "bob")


@pytest.mark.parametrize("same_name", [True, False])
@pytest.mark.parametrize("anywhere", [True, False])
def test_two_claims_of_the_next_task_have_one_winner(stage: StageMaker, same_name: bool, anywhere: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_serial(
        partial(acts.claim, agent=ann, proof="t1"), partial(acts.claim, agent=bob, proof="t2", anywhere=anywhere)
    )
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])
    assert first.task("a").attempt == second.task("a").attempt == 1


@pytest.mark.parametrize("same_name", [True, False])
def test_losing_claim_of_a_named_task_gets_held(stage: StageMaker, same_name: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_serial(
        partial(acts.claim, agent=ann, proof="t1", ids=("a",)), partial(acts.claim, agent=bob, proof="t2", ids=("a",))
    )
    assert (got(first.first), first.second.code) == (["a"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])
    assert f"held by {ann}" in first.second.message
    assert f"held by {bob}" in second.first.message


def test_named_and_next_claims_never_share_a_task(stage: StageMaker) -> None:
    named = partial(acts.claim, agent="ann", proof="t1", ids=("a",))
    first, second = stage(one_task).always_serial(named, CLAIM_BOB)
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])


def test_claims_of_several_tasks_never_overlap(stage: StageMaker) -> None:
    first, second = stage(three_tasks).always_serial(
        partial(acts.claim, agent="ann", proof="t", count=2),
        partial(acts.claim, agent="bob", proof="u", count=2, anywhere=True),
    )
    assert (got(first.first), got(first.second)) == (["a", "b"], ["c"])
    assert (got(second.first), got(second.second)) == (["c"], ["a", "b"])


@pytest.mark.parametrize("theirs", [("c", "b"), ("b", "a")])
def test_claim_of_named_tasks_takes_all_or_none(stage: StageMaker, theirs: tuple[str, ...]) -> None:
    first, second = stage(three_tasks).always_serial(
        partial(acts.claim, agent="ann", proof="t", ids=("a", "b")),
        partial(acts.claim, agent="bob", proof="u", ids=theirs),
    )
    assert (got(first.first), first.second.code) == (["a", "b"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", list(theirs))
    untouched = ({"a", "b", "c"} - {"a", "b"}, {"a", "b", "c"} - {*theirs})
    for outcome, left in zip((first, second), untouched, strict=True):
        assert {outcome.task(each).status for each in left} == {Status.READY}


@pytest.mark.parametrize("names", [("ann", "ann", "ann", "ann"), ("ann", "bob", "cyd", "dan")])
@pytest.mark.parametrize("ids", [(), ("a",)])
def test_four_concurrent_claims_have_one_winner(
    stage: StageMaker, names: tuple[str, ...], ids: tuple[str, ...]
) -> None:
    scene = stage(one_task)
    claims: list[Act] = [partial(acts.claim, agent=name, proof=f"t{at}", ids=ids) for at, name in enumerate(names)]
    for at in range(1, len(scene.places(claims[0])) + 1):
        answers = scene.crowd(at, *claims)
        assert sorted([answer.code or "" for answer in answers]) == ["", *(["HELD"] if ids else [""]) * 3]
        assert len([answer for answer in answers if answer.value and got(answer) == ["a"]]) == 1
        with scene.left() as desk:
            assert (desk.get("a").attempt, desk.check()) == (1, [])


def a_finish_frees_b(desk: Desk) -> None:
    acts.add(desk, "a", "b", links=(("b", "a"),))
    acts.claim(desk, "ann", "t1")


@pytest.mark.parametrize("ids", [(), ("b",)])
def test_unblocked_task_goes_to_finisher_or_another_never_both(stage: StageMaker, ids: tuple[str, ...]) -> None:
    on_with_it = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_finish_frees_b).always_serial(
        on_with_it, partial(acts.claim, agent="bob", proof="u", ids=ids)
    )
    assert [claimed.task.id for claimed in moved(first.first).next] == ["b"]
    assert [claimed.task.id for claimed in moved(second.first).next] == ["b"]
    assert second.second.code == ("WAITING" if ids else None)
    assert ids or got(first.second) == got(second.second) == []


def test_task_unblocked_by_a_finish_is_claimable_at_once(stage: StageMaker) -> None:
    first, second = stage(a_finish_frees_b).always_serial(
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
    for outcome in scene.always_serial(late, claim):
        assert outcome.first.code == (None if late_by < 0 else "LOST_LOCK")
        assert outcome.task("a").attempt == (1 if late_by < 0 else 2)


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE])
def test_write_repeated_concurrently_counts_once(stage: StageMaker, verb: Verb) -> None:
    """Two processes of one agent share a token: the second write is a repetition and changes nothing."""

    def before_b(desk: Desk) -> None:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    act = partial(acts.move, verb=verb, task="a", proof="t1")
    first, _ = stage(before_b).always_serial(act, act)
    assert (first.first.code, first.second.code) == (None, None)
    assert first.events(verb) == 1


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
    for outcome in stage(for_bob).always_serial(PASSERS_BY["a claim that is refused"], claim):
        assert outcome.first.code in {"NOT_FOR_YOU", "HELD"}
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_linking_to_a_ready_task_does_not_hide_it(stage: StageMaker, claim: Act) -> None:
    def idle(desk: Desk) -> None:
        acts.add(desk, "a", "z")
        acts.move(desk, Verb.SHELVE, "z")

    for outcome in stage(idle).always_serial(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


@pytest.mark.parametrize("claim", ANY_CLAIM, ids=["next", "named", "any"])
def test_linking_to_an_expired_task_does_not_hide_it(stage: StageMaker, claim: Act) -> None:
    scene = stage(expired)
    scene.later(minutes=21)
    for outcome in scene.always_serial(PASSERS_BY["a link to it"], claim):
        assert got(outcome.second) == ["a"]


def test_two_claims_of_an_expired_task_have_one_winner(stage: StageMaker) -> None:
    scene = stage(held)
    scene.later(minutes=21)
    first, second = scene.always_serial(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3"))
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])


def test_expired_task_without_retries_is_escalated_once(stage: StageMaker) -> None:
    def last_try(desk: Desk) -> None:
        desk.add([Draft("Task a", "a", max_retries=0)])
        acts.claim(desk, "ann", "t1")

    scene = stage(last_try)
    scene.later(minutes=21)
    for outcome in scene.always_serial(CLAIM_BOB, partial(acts.claim, agent="cyd", proof="t3", ids=("a",))):
        assert (got(outcome.first), outcome.second.code) == ([], "ILLEGAL_MOVE")
        assert outcome.task("a").status is Status.ESCALATED
