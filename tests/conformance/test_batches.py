"""Many finishes in one transaction, each judged by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Status
from dibs.stores.port import Moved

from .builders import (
    SCOPE,
    add,
    blocks,
    claim,
    claim_ids,
    dump,
    events,
    get,
    hold,
    keeps_history,
    peek_ids,
    request,
    statuses,
)

if TYPE_CHECKING:
    from clock import Clock
    from dibs.core.lifecycle import ClaimRequest
    from dibs.stores.port import Batch, Store


def move_all(
    store: Store, tokens: dict[str, str], verb: Verb = Verb.DONE, then: ClaimRequest | None = None, **more: Any
) -> Batch:
    asked = [Move(verb, task, SCOPE, Actor("ann"), token=token, **more) for task, token in tokens.items()]
    return store.move_all(asked, CanceledBlocker.ESCALATES, then)


def hold_all(store: Store, *tasks: str) -> dict[str, str]:
    return {task: hold(store, task) for task in tasks}


def moved(batch: Batch) -> list[Moved]:
    assert all(isinstance(outcome, Moved) for outcome in batch.outcomes), batch
    return [outcome for outcome in batch.outcomes if isinstance(outcome, Moved)]


def codes(batch: Batch) -> list[str | None]:
    return [outcome.code if isinstance(outcome, DibsError) else None for outcome in batch.outcomes]


def test_all_are_finished_and_answered_in_the_order_asked(store: Store) -> None:
    add(store, "a", "b", "c")
    held = hold_all(store, "c", "a", "b")
    batch = move_all(store, held, result={"fine": True})
    assert [outcome.task.id for outcome in moved(batch)] == ["c", "a", "b"]
    assert [get(store, task) for task in held] == [outcome.task for outcome in moved(batch)]
    assert set(statuses(store).values()) == {Status.DONE}
    if keeps_history(store):
        assert [event.verb for event in events(store, "b")] == ["add", "claim", "done"]


@pytest.mark.needs("links")
def test_a_batch_leaves_what_single_finishes_leave(store: Store, another: Store) -> None:
    for each in (store, another):
        add(each, "a", "b", "c", "d", "e", links=[blocks("c", "a"), blocks("c", "b"), blocks("d", "a")])
    tokens = {"a": "t-a", "b": "t-b", "e": "t-e"}
    for each in (store, another):
        for task, token in tokens.items():
            each.claim(request("ann", task)._replace(tokens=(token,)))
    together = moved(move_all(store, tokens, result=[1]))
    apart = [moved(move_all(another, {task: token}, result=[1]))[0] for task, token in tokens.items()]
    assert together == apart
    assert [outcome.unblocked for outcome in together] == [("d",), ("c",), ()]
    assert dump(store) == dump(another)


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RENEW])
def test_a_lost_lease_is_an_answer_and_stops_no_other(store: Store, verb: Verb) -> None:
    add(store, "a", "b", "c")
    held = hold_all(store, "a", "b", "c") | {"b": "not the token"}
    batch = move_all(store, held, verb, reason="because")
    assert codes(batch) == [None, "LOST_LOCK", None]
    assert get(store, "b").status is Status.ACTIVE
    if keeps_history(store):
        assert [event.outcome for event in events(store, "b")][-1] == "lost"


def test_an_unknown_task_is_an_answer_too(store: Store) -> None:
    add(store, "a")
    batch = move_all(store, {"nobody": "t"} | hold_all(store, "a"))
    assert codes(batch) == ["NOT_FOUND", None]


def test_an_expired_lease_in_a_batch_changes_nothing(store: Store, clock: Clock) -> None:
    add(store, "a", "b")
    early = hold_all(store, "a")
    clock.advance(minutes=30)
    assert codes(move_all(store, early | hold_all(store, "b"))) == ["LOST_LOCK", None]
    assert get(store, "a").status is Status.ACTIVE


@pytest.mark.needs("links")
def test_the_next_tasks_are_claimed_in_the_same_go(store: Store) -> None:
    add(store, "a", "b", "c", "d", links=[blocks("d", "a")])
    held = hold_all(store, "a", "b")
    batch = move_all(store, held, then=request("ann", count=5))
    assert [claimed.task.id for claimed in batch.next] == ["c", "d"]
    assert [given.id for given in batch.next[1].inputs] == ["a"]
    assert peek_ids(store) == []


@pytest.mark.needs("strict claims")
def test_a_repeated_batch_claims_nothing_twice(store: Store) -> None:
    add(store, "a", "b", "c", "d")
    held, then = hold_all(store, "a", "b"), request("ann", count=1)
    first = move_all(store, held, then=then)
    again = move_all(store, held, then=then)
    assert [outcome.repeated for outcome in moved(again)] == [True, True]
    assert again.next == first.next
    assert claim_ids(store, "bob", count=5) == ["d"]


def test_a_child_and_its_parent_may_end_together(store: Store) -> None:
    add(store, "p")
    add(store, "c", parent="p")
    held = hold_all(store, "c", "p")
    assert codes(move_all(store, held)) == [None, None]


def test_a_parent_before_its_child_is_refused_and_the_child_ends(store: Store) -> None:
    add(store, "p")
    add(store, "c", parent="p")
    held = hold_all(store, "p", "c")
    assert codes(move_all(store, held)) == ["INCOMPLETE_SUBTASKS", None]


def test_nothing_to_move_claims_all_the_same(store: Store) -> None:
    add(store, "a")
    batch = move_all(store, {}, then=request("ann"))
    assert batch.outcomes == ()
    assert [claimed.task.id for claimed in batch.next] == ["a"]


def test_a_hundred_end_in_one_go(store: Store) -> None:
    add(store, *(f"t{number:03}" for number in range(100)))
    held = {claimed.task.id: claimed.task.lease.token for claimed in claim(store, count=100) if claimed.task.lease}
    assert len(held) == 100
    assert codes(move_all(store, held)) == [None] * 100
