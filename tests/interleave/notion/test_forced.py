"""The one interleaving in which a claim without compare-and-set has two winners, forced step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, LostLock, StoreUnavailable
from dibs.core.task import Status
from dibs.stores.notion import guard
from dibs.stores.notion.guard import Bounds, Wait
from interleave.notion import unguarded
from interleave.notion.hands import Player
from interleave.notion.page import LEASE, Page, leaving, taking

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.guard import Ask, Steps

BOUNDS = Bounds(window=4, settle=5)


def claimer(page: Page, name: str, claim: Callable[[str, Ask, Bounds], Steps] = guard.claim) -> Player:
    return Player(page, claim(name, taking(name, name, BOUNDS), BOUNDS))


def test_naive_claim_has_two_winners() -> None:
    page = Page()
    ann, bob = claimer(page, "ann", unguarded.naive), claimer(page, "bob", unguarded.naive)
    bob.reads(0.0)
    ann.reads(0.1).writes(0.2).reads(0.3)
    bob.writes(0.4).reads(0.5)
    assert ann.holds
    assert bob.holds


def test_guarded_claim_reads_back_after_every_possible_write() -> None:
    page = Page()
    ann, bob = claimer(page, "ann"), claimer(page, "bob")
    bob.reads(0.0)
    ann.reads(0.1).writes(0.2)
    assert ann.waits() == 5
    bob.writes(0.4)
    ann.reads(5.2)
    assert isinstance(ann.result, Held)
    assert bob.waits() == 5
    assert bob.reads(5.4).holds


def test_guarded_claim_with_a_late_write_is_abandoned() -> None:
    """The same r(bob) < w(ann) < v(ann) < w(bob): bob's own clock shows that he was too slow."""
    page = Page()
    ann, bob = claimer(page, "ann"), claimer(page, "bob")
    bob.reads(0.0)
    ann.reads(0.1).writes(0.2).waits()
    ann.reads(5.2)
    bob.writes(5.3)
    assert ann.holds
    assert isinstance(bob.result, StoreUnavailable)


@pytest.mark.parametrize("lost", [0.5, 3.9])
def test_quick_claim_with_a_lost_answer_is_abandoned(lost: float) -> None:
    page = Page()
    bob = claimer(page, "bob").reads(0.0).writes_unheard(lost)
    assert isinstance(bob.result, StoreUnavailable)
    assert not hasattr(bob.result, "token")


def test_claim_window_starts_when_the_first_read_is_sent() -> None:
    """Notion may have served the read at any moment since it was sent."""
    page = Page()
    bob = claimer(page, "bob").reads(3.0, sent=0.0).writes(4.1)
    assert isinstance(bob.result, StoreUnavailable)


def test_claim_window_ends_when_the_write_is_answered() -> None:
    """Notion may have made the write at any moment before its answer."""
    page = Page()
    bob = claimer(page, "bob").reads(0.0).writes(0.1, received=4.1)
    assert isinstance(bob.result, StoreUnavailable)


def test_claim_that_wakes_too_early_waits_and_reads_again() -> None:
    page = Page()
    ann = claimer(page, "ann").reads(0.0).writes(0.1)
    ann.waits()
    ann.reads(5.0)
    assert isinstance(ann.step, Wait)
    assert not ann.holds
    ann.waits()
    assert ann.reads(6.1).holds


def test_wait_runs_from_the_answered_write_to_the_sent_read() -> None:
    """Notion may make the write as late as its answer, and serve the read as early as its sending."""
    page = Page()
    slow = claimer(page, "ann").reads(0.0).writes(0.1, received=1.0)
    slow.waits()
    assert not slow.reads(5.9).holds
    page = Page()
    early = claimer(page, "ann").reads(0.0).writes(0.1)
    early.waits()
    assert not early.reads(6.0, sent=5.0).holds


def test_late_write_on_a_live_claim_does_not_free_the_task() -> None:
    """Bob stalls between read and write for half an hour, so the lease he writes has already expired."""
    page = Page()
    bob = claimer(page, "bob").reads(0.0)
    ann = claimer(page, "ann").reads(10.0).writes(10.1)
    ann.waits()
    assert ann.reads(15.2).holds
    renewal = Player(page, guard.renew("ann", None, LEASE, BOUNDS))
    assert renewal.reads(1000.0).writes(1000.1).holds
    bob.writes(1900.0)
    assert isinstance(bob.result, StoreUnavailable)
    cat = claimer(page, "cat").reads(1901.0)
    assert isinstance(cat.result, Held)
    late = claimer(page, "cat").reads(1860.0 + 1200 + 91)
    assert late.result is None  # by now ann's lease has expired too


def test_release_with_a_lost_answer_is_not_repeated() -> None:
    """Otherwise a delayed first release frees the task under the agent that claimed it after the second."""
    page = Page()
    ann = claimer(page, "ann").reads(0.0).writes(0.1)
    ann.waits()
    assert ann.reads(5.1).holds
    release = Player(page, guard.finish("ann", None, leaving(Status.READY), BOUNDS)).reads(10.0).fails().reads(20.0)
    assert isinstance(release.result, LostLock)


def test_release_delayed_past_all_margins_needs_an_arbiter() -> None:
    """The limit of time-based claims (docs/decisions/0010): the release frees the task under its next holder."""
    page = Page()
    ann = claimer(page, "ann").reads(0.0).writes(0.1)
    ann.waits()
    assert ann.reads(5.1).holds
    release = Player(page, guard.finish("ann", None, leaving(Status.READY), BOUNDS)).reads(1100.0)
    bob = claimer(page, "bob").reads(1290.0).writes(1290.1)
    bob.waits()
    assert bob.reads(1295.1).holds
    release.writes(1296.0)
    cat = claimer(page, "cat").reads(1297.0).writes(1297.1)
    cat.waits()
    assert cat.reads(1302.1).holds
