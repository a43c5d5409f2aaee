"""What a store declares is true."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import CycleDetected, Held, LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import Status

from .builders import (
    add,
    apply,
    blocks,
    claim,
    claim_ids,
    get,
    hold,
    link,
    move,
    no_trace,
    nothing_changes,
    plan,
    request,
    statuses,
)

if TYPE_CHECKING:
    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness


def test_a_store_declares_what_it_can_do(store: Store) -> None:
    assert store.capabilities.exclusive in {"strict", "timed"}
    assert isinstance(store.capabilities.transactions, bool)


def strict(store: Store) -> None:
    if store.capabilities.exclusive != "strict":
        pytest.skip("claims of this store exclude each other by time only")


def transactions(store: Store) -> None:
    if not store.capabilities.transactions:
        pytest.skip("this store has no transactions")


def test_two_processes_see_one_store(store: Store, beside: Store) -> None:
    add(store, "a")
    token = hold(beside, "a")
    with nothing_changes(store), pytest.raises(Held):
        claim(store, "bob", "a")
    assert move(store, Verb.DONE, "a", token).task == get(beside, "a")


def test_strict_claims_of_two_processes_never_overlap(store: Store, beside: Store, clock: Clock) -> None:
    strict(store)
    add(store, "a", "b", "c", "d")
    assert [claim_ids(each, "twin") for each in (store, beside, beside, store, beside)] == [
        ["a"], ["b"], ["c"], ["d"], [],
    ]  # fmt: skip
    clock.advance(hours=1)
    assert claim_ids(beside, "twin", count=3) == ["a", "b", "c"]
    assert claim_ids(store, "twin", count=3) == ["d"]


def test_a_late_holder_is_told_so_by_every_process(store: Store, beside: Store, clock: Clock) -> None:
    strict(store)
    add(store, "a")
    token = hold(store, "a")
    clock.advance(hours=1)
    hold(beside, "a", "bob")
    with nothing_changes(store), pytest.raises(LostLock):
        move(store, Verb.DONE, "a", token)


def test_many_claimants_at_once_get_every_task_exactly_once(store: Store, harness: StoreHarness) -> None:
    strict(store)
    add(store, *(f"t{number:02}" for number in range(48)))
    got: list[str] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with harness.join(store) as mine:
                while claimed := mine.claim(request("twin", count=2)):
                    for one in claimed:
                        got.append(one.task.id)
                        move(mine, Verb.DONE, one.task.id, one.task.lease and one.task.lease.token)
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(got) == sorted(statuses(store))
    assert set(statuses(store).values()) == {Status.DONE}


def test_a_plan_that_fails_at_its_end_has_done_nothing(store: Store) -> None:
    transactions(store)
    add(store, "x", "y", links=[blocks("y", "x")])
    with no_trace(store), pytest.raises(CycleDetected):
        apply(store, plan({"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "x", "deps": ["y"]}))


def test_links_that_fail_at_their_end_have_done_nothing(store: Store) -> None:
    transactions(store)
    add(store, "a", "b", "c")
    with no_trace(store), pytest.raises(CycleDetected):
        link(store, blocks("b", "a"), blocks("c", "b"), blocks("a", "c"))
