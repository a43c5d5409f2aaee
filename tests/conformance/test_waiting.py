"""Waiting for work: woken by whoever readies some and by time, and never longer than asked for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb

from .builders import add, blocks, claim_ids, draft, hold, move, unlink

if TYPE_CHECKING:
    from collections.abc import Callable

    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness

    Woken = Callable[[Callable[[Store], object]], float]

LONG = 120.0


def settle(store: Store) -> None:
    """A hint may be left from before; then nothing happens."""
    for _ in range(10):
        if not store.wait(0.2):
            return
    raise AssertionError("there is always something new")


@pytest.fixture
def woken(store: Store, harness: StoreHarness) -> Callable[[Callable[[Store], object]], float]:
    """How long a wait takes during which someone else does this; a wait that is not woken fails."""

    def others_do(act: Callable[[Store], object]) -> None:
        with harness.join(store) as theirs:
            act(theirs)

    return lambda act: _waited(store, lambda: others_do(act))


def _waited(store: Store, act: Callable[[], None]) -> float:
    settle(store)
    soon = threading.Timer(0.3, act)
    soon.start()
    began = time.monotonic()
    heard = store.wait(LONG)
    took = time.monotonic() - began
    soon.join()
    assert heard, "the time was over before a hint came"
    return took


def test_a_wait_in_which_nothing_happens_ends_when_its_time_is_over(store: Store) -> None:
    settle(store)
    began = time.monotonic()
    assert not store.wait(0.5)
    assert 0.4 < time.monotonic() - began < LONG / 2


def test_no_time_is_no_wait(store: Store) -> None:
    settle(store)
    began = time.monotonic()
    assert not store.wait(0)
    assert time.monotonic() - began < LONG / 2


def test_a_new_task_wakes_who_waits(store: Store, woken: Woken) -> None:
    assert woken(lambda theirs: add(theirs, "a")) < LONG / 2
    assert claim_ids(store) == ["a"]


@pytest.mark.needs("links")
def test_a_finished_prerequisite_wakes_who_waits(store: Store, woken: Woken) -> None:
    add(store, "a", "b", links=[blocks("b", "a")])
    token = hold(store, "a")
    assert woken(lambda theirs: move(theirs, Verb.DONE, "a", token)) < LONG / 2
    assert claim_ids(store) == ["b"]


def test_a_released_task_wakes_who_waits(store: Store, woken: Woken) -> None:
    add(store, "a")
    token = hold(store, "a")
    assert woken(lambda theirs: move(theirs, Verb.RELEASE, "a", token)) < LONG / 2
    assert claim_ids(store) == ["a"]


@pytest.mark.needs("links")
def test_a_dropped_link_wakes_who_waits(store: Store, woken: Woken) -> None:
    add(store, "a", "b", links=[blocks("b", "a")])
    hold(store, "a")
    assert woken(lambda theirs: unlink(theirs, blocks("b", "a"))) < LONG / 2
    assert claim_ids(store) == ["b"]


def test_a_lease_that_ends_wakes_who_waits(store: Store, clock: Clock, woken: Woken) -> None:
    add(store, "a")
    hold(store, "a")
    assert woken(lambda _: clock.advance(hours=1)) < LONG / 2
    assert claim_ids(store, "bob") == ["a"]


def test_a_task_that_falls_due_wakes_who_waits(store: Store, clock: Clock, woken: Woken) -> None:
    add(store, draft("a", not_before=store.now().replace(year=2100)))
    assert woken(lambda _: clock.advance(days=365 * 100)) < LONG / 2
    assert claim_ids(store) == ["a"]


def test_what_happens_between_two_waits_ends_the_second_at_once(store: Store, beside: Store) -> None:
    settle(store)
    add(beside, "a")
    began = time.monotonic()
    assert store.wait(LONG)
    assert time.monotonic() - began < LONG / 2
