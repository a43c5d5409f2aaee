"""Races of claims, finishes and renewals: in every schedule a task has one holder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Claimed, Status
from interleave import acts
from interleave.stepper import Answer, Waiting

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.stores.port import Moved
    from interleave.conftest import StageMaker
    from interleave.stepper import Act, Player


def one_task(desk: Desk) -> None:
    acts.add(desk, "a")


RENEW = partial(acts.renew, task="a", proof="t1")
FINISH = partial(acts.finish, task="a", proof="t1")


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
def test_two_claims_of_the_next_task_have_one_winner(stage: StageMaker, same_name: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_in_turn(
        partial(acts.claim, agent=ann, proof="t1"), partial(acts.claim, agent=bob, proof="t2")
    )
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (got(second.first), got(second.second)) == ([], ["a"])
    assert first.task("a").attempt == second.task("a").attempt == 1


@pytest.mark.parametrize("same_name", [True, False])
def test_losing_claim_of_a_named_task_gets_held(stage: StageMaker, same_name: bool) -> None:
    ann, bob = agents_of(same_name)
    first, second = stage(one_task).always_in_turn(
        partial(acts.claim, agent=ann, proof="t1", ids=("a",)), partial(acts.claim, agent=bob, proof="t2", ids=("a",))
    )
    assert (got(first.first), first.second.code) == (["a"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])
    assert f"held by {ann}" in first.second.message
    assert f"held by {bob}" in second.first.message


def test_named_and_next_claims_never_share_a_task(stage: StageMaker) -> None:
    named = partial(acts.claim, agent="ann", proof="t1", ids=("a",))
    first, second = stage(one_task).always_in_turn(named, partial(acts.claim, agent="bob", proof="t2"))
    assert (got(first.first), got(first.second)) == (["a"], [])
    assert (second.first.code, got(second.second)) == ("HELD", ["a"])


def test_claims_of_several_tasks_never_overlap(stage: StageMaker) -> None:
    scene = stage(lambda desk: acts.add(desk, "a", "b", "c"))
    first, second = scene.always_in_turn(
        partial(acts.claim, agent="ann", proof="t", count=2),
        partial(acts.claim, agent="bob", proof="u", count=2, anywhere=True),
    )
    assert (got(first.first), got(first.second)) == (["a", "b"], ["c"])
    assert (got(second.first), got(second.second)) == (["c"], ["a", "b"])


def test_claim_of_named_tasks_takes_all_or_none(stage: StageMaker) -> None:
    scene = stage(lambda desk: acts.add(desk, "a", "b", "c"))
    first, second = scene.always_in_turn(
        partial(acts.claim, agent="ann", proof="t", ids=("a", "b")),
        partial(acts.claim, agent="bob", proof="u", ids=("c", "b")),
    )
    assert (got(first.first), first.second.code) == (["a", "b"], "HELD")
    assert (second.first.code, got(second.second)) == ("HELD", ["c", "b"])
    assert first.task("c").status is Status.READY
    assert second.task("a").status is Status.READY


@pytest.mark.parametrize("names", [("ann", "ann", "ann", "ann"), ("ann", "bob", "cyd", "dan")])
@pytest.mark.parametrize("ids", [(), ("a",)])
def test_four_concurrent_claims_have_one_winner(
    stage: StageMaker, players: tuple[Player, ...], names: tuple[str, ...], ids: tuple[str, ...]
) -> None:
    scene = stage(one_task)
    claims: list[Act] = [partial(acts.claim, agent=name, proof=f"t{at}", ids=ids) for at, name in enumerate(names)]
    for statement in range(1, len(scene.statements(claims[0])) + 1):
        path = scene.fresh()
        players[0].start(scene.order(path, claims[0]))
        players[0].run_to(statement)
        for player, claim in zip(players[1:], claims[1:], strict=True):
            assert isinstance(player.start(scene.order(path, claim)), Waiting)
        answers = [player.finish() for player in players]
        assert got(answers[0]) == ["a"]
        assert all(answer.code == "HELD" if ids else got(answer) == [] for answer in answers[1:])
        with scene.open(path) as desk:
            assert (desk.get("a").attempt, desk.check()) == (1, [])


def a_finish_frees_b(desk: Desk) -> None:
    acts.add(desk, "a", "b", links=(("b", "a"),))
    acts.claim(desk, "ann", "t1")


def test_unblocked_task_goes_to_finisher_or_another_never_both(stage: StageMaker) -> None:
    on_with_it = partial(acts.finish, task="a", proof="t1", then=("ann", "t2"))
    first, second = stage(a_finish_frees_b).always_in_turn(on_with_it, partial(acts.claim, agent="bob", proof="u"))
    assert [claimed.task.id for claimed in moved(first.first).next] == ["b"]
    assert got(first.second) == []
    assert [claimed.task.id for claimed in moved(second.first).next] == ["b"]
    assert got(second.second) == [], "b was not free before a was finished"


def test_task_unblocked_by_a_finish_goes_to_a_queued_claim(stage: StageMaker) -> None:
    first, second = stage(a_finish_frees_b).always_in_turn(
        partial(acts.finish, task="a", proof="t1"), partial(acts.claim, agent="bob", proof="u", ids=("b",))
    )
    assert moved(first.first).unblocked == ("b",)
    assert got(first.second) == ["b"]
    assert second.second.code == "WAITING"
    handed = cast("list[Claimed]", first.second.value)[0].inputs
    assert [(given.id, given.result) for given in handed] == [("a", "result of a")]


@pytest.mark.parametrize("late_by", [-1, 0, 1])
@pytest.mark.parametrize("late", [RENEW, FINISH], ids=["renew", "finish"])
def test_lease_end_decides_between_holder_and_next_claim(stage: StageMaker, late_by: int, late: Act) -> None:
    """Before the end of the lease the holder wins in both orders; from the end on the next claim wins."""

    def held(desk: Desk) -> None:
        acts.add(desk, "a")
        acts.claim(desk, "ann", "t1")

    scene = stage(held)
    scene.later(seconds=acts.LEASE.total_seconds(), microseconds=late_by)
    first, second = scene.always_in_turn(late, partial(acts.claim, agent="bob", proof="t2"))
    for outcome in (first, second):
        if late_by < 0:
            assert (outcome.first.code, got(outcome.second)) == (None, [])
            assert outcome.task("a").attempt == 1
        else:
            assert (outcome.first.code, got(outcome.second)) == ("LOST_LOCK", ["a"])
            assert outcome.task("a").attempt == 2


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE, Verb.RENEW])
def test_write_queued_past_the_end_of_its_lease_is_rejected(
    stage: StageMaker, players: tuple[Player, ...], verb: Verb
) -> None:
    def held(desk: Desk) -> None:
        acts.add(desk, "a", "other")
        acts.claim(desk, "ann", "t1", ids=("a",))

    scene = stage(held)
    path = scene.fresh()
    writer, holder = players[:2]
    writer.start(scene.order(path, partial(acts.add_one, task="x")))
    scene.clock.advance(minutes=19, seconds=59)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    assert isinstance(holder.start(scene.order(path, late)), Waiting)
    scene.clock.advance(seconds=1)
    assert writer.finish().code is None
    assert holder.finish().code == "LOST_LOCK"
    with scene.open(path) as desk:
        task = desk.get("a")
        assert (task.status, task.attempt, task.retries) == (Status.ACTIVE, 1, 0)
        assert desk.check() == []


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE])
def test_write_repeated_concurrently_counts_once(stage: StageMaker, verb: Verb) -> None:
    """Two processes of one agent share a token: the second write is a repetition and changes nothing."""

    def held(desk: Desk) -> None:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        acts.claim(desk, "ann", "t1", ids=("a",))

    act = partial(acts.move, verb=verb, task="a", proof="t1")
    first, _ = stage(held).always_in_turn(act, act)
    assert (first.first.code, first.second.code) == (None, None)
    assert len([record for record in first.state if getattr(record.item, "verb", "") == verb]) == 1
