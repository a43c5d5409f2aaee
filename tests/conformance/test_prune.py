"""Pruning: old events and long finished tasks go, in small bites; what anyone still needs stays."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Status

from .builders import (
    MAKER,
    SCOPE,
    UNFINISHED,
    add,
    blockers,
    blocks,
    bring,
    claim_ids,
    draft,
    events,
    feeds,
    finish,
    hold,
    last_seq,
    move,
    no_trace,
    parallel,
    quiet,
    statuses,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from clock import Clock
    from dibs.core.task import Link
    from dibs.stores.port import Store

pytestmark = pytest.mark.needs("history")

DAY = timedelta(days=1)


def prune_events(store: Store, before: datetime) -> int:
    dropped, tasks = store.prune(events_before=before, tasks_before=None, progress=quiet)
    assert tasks == 0
    return dropped


def prune_tasks(store: Store, before: datetime) -> int:
    dropped, tasks = store.prune(events_before=None, tasks_before=before, progress=quiet)
    assert dropped == 0
    return tasks


def names(store: Store) -> list[str]:
    return sorted(statuses(store))


def test_pruning_nothing_leaves_no_trace(store: Store, clock: Clock) -> None:
    add(store, "a")
    finish(store, "a")
    clock.advance(days=9)
    with no_trace(store):
        assert store.prune(events_before=None, tasks_before=None, progress=quiet) == (0, 0)


# Events


def test_events_before_the_moment_go_and_those_at_it_stay(store: Store, clock: Clock) -> None:
    for task in "abc":
        add(store, task)
        clock.advance(days=1)
    cut = events(store, "b")[0].at
    assert prune_events(store, cut) == 1
    assert [event.task for event in events(store)] == ["b", "c"]


def test_the_newest_event_stays_so_that_numbers_never_repeat(store: Store, clock: Clock) -> None:
    add(store, "a", "b", "c")
    clock.advance(days=1)
    newest = last_seq(store)
    assert prune_events(store, store.now()) == 2
    assert [event.seq for event in events(store)] == [newest]
    add(store, "d")
    assert last_seq(store) == newest + 1


def test_events_of_an_empty_store_are_pruned_without_ado(store: Store) -> None:
    assert prune_events(store, store.now() + DAY) == 0


def test_pruning_events_leaves_the_tasks_alone(store: Store, clock: Clock) -> None:
    add(store, "a", "b", links=[blocks("b", "a")])
    token = hold(store, "a")
    clock.advance(minutes=1)
    prune_events(store, store.now())
    assert move(store, Verb.DONE, "a", token).unblocked == ("b",)


def test_many_events_go_in_small_bites(store: Store, clock: Clock) -> None:
    add(store, *(f"t{number}" for number in range(2500)))
    clock.advance(days=1)
    add(store, "last")
    bites: list[int] = []
    dropped, _ = store.prune(events_before=store.now(), tasks_before=None, progress=bites.append)
    assert (dropped, sum(bites)) == (2500, 2500)
    assert max(bites) <= 1000
    assert [event.task for event in events(store)] == ["last"]


# Tasks


def test_tasks_finished_before_the_moment_go_and_those_at_it_stay(store: Store, clock: Clock) -> None:
    add(store, "a", "b", "c", "d")
    finish(store, "a")
    move(store, Verb.CANCEL, "b", reason="no")
    clock.advance(days=1)
    cut = store.now()
    finish(store, "c")
    move(store, Verb.CANCEL, "d")
    clock.advance(days=1)
    assert prune_tasks(store, cut) == 2
    assert names(store) == ["c", "d"]


@pytest.mark.parametrize("status", UNFINISHED)
def test_unfinished_tasks_stay_however_old(store: Store, clock: Clock, status: Status) -> None:
    bring(store, "a", status)
    clock.advance(days=1000)
    with no_trace(store):
        assert prune_tasks(store, store.now()) == 0


def test_a_reopened_task_is_not_finished(store: Store, clock: Clock) -> None:
    bring(store, "a", Status.CANCELED)
    move(store, Verb.REOPEN, "a")
    clock.advance(days=1)
    assert prune_tasks(store, store.now()) == 0


@pytest.mark.parametrize("kind", [blocks, feeds, parallel])
def test_what_an_unfinished_task_refers_to_stays(store: Store, clock: Clock, kind: Callable[[str, str], Link]) -> None:
    add(store, "a", "b", links=[kind("b", "a")])
    finish(store, "a", result="for b")
    clock.advance(days=1)
    with no_trace(store):
        assert prune_tasks(store, store.now()) == 0
    finish(store, "b")
    clock.advance(days=1)
    assert prune_tasks(store, store.now()) == 2


def test_a_finished_task_goes_though_it_refers_to_an_unfinished_one(store: Store, clock: Clock) -> None:
    add(store, "a", "b", "c", links=[blocks("b", "a"), feeds("c", "a"), blocks("c", "b")])
    move(store, Verb.CANCEL, "b", on_cancel=CanceledBlocker.RESOLVES)
    move(store, Verb.CANCEL, "c")
    clock.advance(days=1)
    assert prune_tasks(store, store.now()) == 2
    assert store.links("home", "a") == []
    finish(store, "a")


def test_a_parent_stays_as_long_as_it_has_children(store: Store, clock: Clock) -> None:
    add(store, "p", draft("x", parent="p"))
    finish(store, "x", "p")
    add(store, draft("y", parent="p"))
    clock.advance(days=1)
    prune_tasks(store, store.now())
    assert names(store) == ["p", "y"]


def test_whole_families_go_by_and_by(store: Store, clock: Clock) -> None:
    add(store, "p", draft("x", parent="p"), draft("y", parent="x"), draft("z", parent="x"))
    move(store, Verb.CANCEL, "z")
    finish(store, "y", "x", "p")
    clock.advance(days=1)
    assert sum(prune_tasks(store, store.now()) for _ in range(3)) == 4
    assert store.scopes() == []


def test_a_finished_child_goes_before_its_unfinished_parent(store: Store, clock: Clock) -> None:
    add(store, "p", draft("x", parent="p"))
    finish(store, "x")
    clock.advance(days=1)
    assert prune_tasks(store, store.now()) == 1
    finish(store, "p")


def test_tasks_go_in_every_scope_and_in_small_bites(store: Store, clock: Clock) -> None:
    add(store, *(f"t{number}" for number in range(1500)))
    ends = [Move(Verb.DONE, task, SCOPE, MAKER, force=True) for task in claim_ids(store, count=1500)]
    for at in range(0, 1500, 100):
        store.move_all(ends[at : at + 100], CanceledBlocker.RESOLVES)
    add(store, "a", scope="elsewhere")
    move(store, Verb.CANCEL, "a", scope="elsewhere")
    clock.advance(days=1)
    bites: list[int] = []
    _, dropped = store.prune(events_before=None, tasks_before=store.now(), progress=bites.append)
    assert (dropped, sum(bites)) == (1501, 1501)
    assert max(bites) <= 1000
    assert store.scopes() == []


def test_pruning_keeps_the_counts_of_what_stays(store: Store, clock: Clock) -> None:
    add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "b")])
    finish(store, "a")
    clock.advance(days=1)
    add(store, "d", links=[blocks("c", "d")])
    assert prune_tasks(store, store.now()) == 0
    finish(store, "b")
    clock.advance(days=1)
    assert prune_tasks(store, store.now()) == 1
    assert blockers(store) == {"b": 0, "c": 1, "d": 0}


def test_events_outlive_their_tasks(store: Store, clock: Clock) -> None:
    add(store, "a")
    finish(store, "a")
    clock.advance(days=1)
    before = events(store, "a")
    prune_tasks(store, store.now())
    assert events(store, "a") == before


def test_an_id_that_was_pruned_may_be_used_again(store: Store, clock: Clock) -> None:
    add(store, "a")
    finish(store, "a")
    clock.advance(days=1)
    prune_tasks(store, store.now())
    add(store, "a")
    assert store.check(fix=False) == []
    assert claim_ids(store) == ["a"]
