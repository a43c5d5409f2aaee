"""Claim, renewal and finish, step by step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import (
    DibsError,
    Held,
    IllegalMove,
    InvalidInput,
    LostLock,
    Misconfigured,
    StoreBusy,
    StoreUnavailable,
    Unconfirmed,
)
from dibs.core.task import Holder, Status
from dibs.stores.notion import guard
from dibs.stores.notion.guard import Bounds, Failed, Read, Seen, View, Wait, Write
from interleave.notion.hands import Player
from interleave.notion.page import BEGIN, LEASE, Page, leaving, moment, taking

BOUNDS = Bounds()
TOKEN = "5f0c7e9a-secret-of-ann"  # noqa: S105 - a sample
OTHER = "77aa31bc-secret-of-bob"
UNSENT = Failed(StoreBusy("come back later"), sent=False)


def claiming(page: Page, token: str = TOKEN) -> Player:
    return Player(page, guard.claim(token, taking("ann", token, BOUNDS), BOUNDS))


def held(run: str | None = None) -> Page:
    """A page that ann holds from second 0 to 12:20."""
    page = Page()
    page.write(taking("ann", TOKEN, BOUNDS)(page.view, BEGIN), 0)
    page.view = page.view._replace(run=run)
    return page


def renewing(page: Page, run: str | None = None, length: timedelta = LEASE) -> Player:
    return Player(page, guard.renew(TOKEN, run, length, BOUNDS))


def finishing(page: Page, status: Status = Status.DONE) -> Player:
    return Player(page, guard.finish(TOKEN, None, leaving(status), BOUNDS))


def person(page: Page, at: float, **said: Any) -> None:
    """A person's change of properties."""
    page.write({}, at)
    page.view = page.view._replace(**said)


def said(player: Player) -> str:
    assert isinstance(player.result, DibsError)
    return player.result.message


# Bounds


@pytest.mark.parametrize(("window", "settle", "staleness"), [(4, 4, 0), (4, 3, 0), (4, 6, 1), (0, 5, 0), (4, 5, -1)])
def test_bounds_refuse_a_wait_that_is_too_short(window: float, settle: float, staleness: float) -> None:
    with pytest.raises(Misconfigured, match="not safe"):
        Bounds(window, settle, staleness)


@pytest.mark.parametrize("name", ["guard_band", "steal_after"])
def test_bounds_refuse_margins_below_the_minute_that_notion_rounds_to(name: str) -> None:
    with pytest.raises(Misconfigured, match="60 s"):
        Bounds(**{name: timedelta(seconds=59)})  # type: ignore[arg-type]


# Leases


def test_lease_end_is_rounded_up_to_the_minute() -> None:
    assert guard.lease_end(moment(0), LEASE) == moment(1200)
    assert guard.lease_end(moment(1), LEASE) == moment(1260)
    assert guard.lease_end(moment(59.999), LEASE) == moment(1260)


def test_a_lease_of_less_than_four_minutes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="4m or more"):
        guard.lease_end(BEGIN, timedelta(minutes=4) - timedelta(seconds=1))
    assert guard.lease_end(BEGIN, timedelta(minutes=4)) == moment(240)


def view(**fields: Any) -> View:
    stated: dict[str, Any] = {
        "status": Status.ACTIVE,
        "edited_at": BEGIN,
        "holder": Holder.AGENT,
        "agent": "ann",
        "token": TOKEN,
        "expires_at": moment(1200),
        "written_at": BEGIN,
        **fields,
    }
    return View("TASK-1", **stated)


@pytest.mark.parametrize(
    ("fields", "free_at"),
    [
        ({}, 1290),
        ({"edited_at": moment(600)}, 1890),  # an agent's write, maybe a late claim over a valid one
        ({"edited_at": moment(600), "by_person": True}, 1290),
        ({"edited_at": moment(600), "written_at": moment(600)}, 1290),  # a renewal
        ({"edited_at": moment(60), "written_at": moment(60), "expires_at": moment(300)}, 390),
        ({"edited_at": moment(600), "longest": timedelta(hours=1)}, 4290),
        ({"edited_at": moment(600), "token": None}, 1290),  # a page with a claim always has a token
        ({"expires_at": moment(1500)}, 1590),
    ],
)
def test_expired_lease_is_free_after_its_margin(fields: dict[str, Any], free_at: float) -> None:
    one = view(**fields)
    early = guard.too_early(one, moment(free_at - 0.001), BOUNDS)
    assert isinstance(early, Held)
    assert early.holder == "ann"
    assert early.retry_after_ms == 1
    assert guard.too_early(one, moment(free_at), BOUNDS) is None


_SECONDS = st.floats(0, 7_200)
_SKEW = st.floats(-28, 28)  # seconds that an agent's clock may be off


@given(_SECONDS, _SECONDS, _SECONDS, st.integers(4, 60), _SKEW, _SKEW, _SKEW)
def test_page_is_not_free_before_the_overwritten_holder_has_stopped(
    claimed: float, later: float, held_up: float, minutes: int, skew: float, other_skew: float, third_skew: float
) -> None:
    """A write that was sent before ann's claim or renewal arrives after it; then an agent looks for free pages."""
    length, arrived = timedelta(minutes=minutes), claimed + later
    sent = moment(arrived - later - held_up + third_skew)  # it read the page before ann's claim
    ann = view(expires_at=guard.lease_end(moment(claimed + skew), length))
    until = guard.trusted_until(ann, BOUNDS)
    assert until is not None
    stops = (until - BEGIN).total_seconds() - skew
    edited = moment(arrived).replace(second=0, microsecond=0)
    ends = guard.lease_end(sent, length)
    written = guard.due_by(sent, BOUNDS)
    over = view(token=OTHER, edited_at=edited, expires_at=ends, written_at=written, longest=max(length, ends - written))
    early = guard.too_early(over, moment(arrived + other_skew), BOUNDS)
    wait = 0 if early is None else (early.retry_after_ms or 0) / 1000
    assert arrived + wait >= stops - 0.002


@given(_SECONDS, st.floats(0, 4), st.floats(0, 10), st.integers(4, 60))
def test_timely_claim_is_free_at_its_end(sent: float, underway: float, behind: float, minutes: int) -> None:
    """Also if its sender's clock is some seconds slow."""
    now = moment(sent - behind)
    ends = guard.lease_end(now, timedelta(minutes=minutes))
    edited = moment(sent + underway).replace(second=0, microsecond=0)
    one = view(edited_at=edited, written_at=guard.due_by(now, BOUNDS), expires_at=ends)
    assert guard.too_early(one, ends + BOUNDS.steal_after, BOUNDS) is None


@pytest.mark.parametrize("fields", [{"expires_at": None}, {"status": Status.READY}])
def test_page_freed_by_a_person_is_claimable_at_once(fields: dict[str, Any]) -> None:
    assert guard.too_early(view(**fields), BEGIN, BOUNDS) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"holder": Holder.HUMAN}, "A person has taken"),
        ({"holder": Holder.HUMAN, "token": OTHER}, "A person has taken"),
        ({"status": Status.READY}, "is ready now"),
        ({"status": Status.DONE, "token": None}, "is done now"),
        ({"token": OTHER, "agent": "bob"}, "held by bob"),
        ({"token": None, "agent": None}, "held by someone else"),
        ({"run": "run-2"}, "another run of ann"),
        ({"expires_at": None}, "is over"),
        ({"expires_at": moment(90)}, "is over"),
    ],
)
def test_refused_holder_gets_the_reason(fields: dict[str, Any], why: str) -> None:
    error = guard.lost(view(**{"run": "run-1", **fields}), TOKEN, "run-1", BEGIN, BOUNDS)
    assert isinstance(error, LostLock)
    assert why in error.message
    assert "secret" not in error.message


def test_the_holder_may_act_until_the_guard_band_begins() -> None:
    assert guard.lost(view(), TOKEN, None, moment(1109.999), BOUNDS) is None
    assert guard.lost(view(), TOKEN, None, moment(1110), BOUNDS) is not None


# Claims


def test_claim_reads_writes_waits_and_reads() -> None:
    page = Page()
    player = claiming(page)
    assert player.step == Read()
    player.reads(1.0, sent=0.9)
    assert isinstance(player.step, Write)
    assert player.step.by == pytest.approx(4.9)
    assert player.step.changes["status"] is Status.ACTIVE
    player.writes(1.5)
    assert player.step == Wait(5)
    player.waits()
    assert player.reads(6.5).holds
    assert isinstance(player.result, Seen)
    assert player.result.view.expires_at == moment(1260)


@pytest.mark.parametrize(("read", "minute"), [(1.0, 0), (45.9, 0), (46.0, 60)])
def test_claim_states_its_latest_arrival_minute(read: float, minute: float) -> None:
    """The window is 4 s, and an agent's clock may be 10 s slow."""
    step = claiming(Page()).reads(read).step
    assert isinstance(step, Write)
    assert step.changes["written_at"] == moment(minute)


def test_refused_claim_writes_nothing() -> None:
    page = held()
    player = claiming(page, OTHER).reads(1.0)
    assert isinstance(player.result, Held)
    page = Page(Status.DONE)
    assert isinstance(claiming(page).reads(1.0).result, IllegalMove)
    assert len(page.history) == 1


def test_unsent_write_raises_its_own_error() -> None:
    assert claiming(Page()).reads(0).fails(UNSENT).result is UNSENT.error
    assert claiming(Page()).fails(UNSENT).result is UNSENT.error


def test_unanswered_claim_does_not_return_its_token() -> None:
    player = claiming(Page()).reads(0).fails()
    assert isinstance(player.result, StoreUnavailable)
    assert not isinstance(player.result, Unconfirmed)
    assert "pick another task" in said(player)


def test_store_clock_detects_unnoticed_sleep() -> None:
    """A machine whose clock stopped thinks that it was quick."""
    page = Page()
    for gap, code in ((6.0, None), (6.1, "STORE_UNAVAILABLE")):
        player = claiming(page).reads(0)
        assert isinstance(player.step, Write)
        answer = page.write(player.step.changes, 0.1)
        player._go(Seen(answer, 0.1, 0.2, moment(gap)))
        assert getattr(player.result, "code", None) == code
        page = Page()


def test_a_read_that_fails_after_the_write_is_tried_again() -> None:
    player = claiming(Page()).reads(0).writes(0.1)
    assert player.waits() == 5
    player.fails()
    assert player.waits() == 1
    assert player.reads(6.1).holds


def test_unconfirmed_claim_returns_its_token_outside_the_message() -> None:
    player = claiming(Page()).reads(0).writes(0.1)
    for pause in (5, 1, 2, 4):
        assert player.waits() == pause
        player.fails()
    assert isinstance(player.result, Unconfirmed)
    assert player.result.token == TOKEN
    assert TOKEN not in f"{player.result!r} {player.result}"


@pytest.mark.parametrize(
    "change",
    [
        {"holder": Holder.HUMAN, "agent": "pat"},
        {"status": Status.BLOCKED},
        {"status": Status.READY, "token": None, "holder": None, "agent": None},
        {"token": OTHER, "agent": "bob"},
    ],
)
def test_claim_overwritten_in_between_writes_nothing_more(change: dict[str, Any]) -> None:
    page = Page()
    player = claiming(page).reads(0).writes(0.1)
    player.waits()
    person(page, 2.0, **change)
    written = len(page.history)
    player.reads(5.2)
    assert isinstance(player.result, Held)
    assert "in the same moment" in said(player)
    assert len(page.history) == written


def test_read_back_near_the_lease_end_is_no_claim() -> None:
    player = claiming(Page()).reads(0).writes(0.1)
    player.waits()
    assert isinstance(player.reads(1200 - 90).result, StoreUnavailable)


# Renewals


def test_renewal_reads_once_and_writes_end_and_date() -> None:
    player = renewing(held()).reads(600.0)
    assert isinstance(player.step, Write)
    assert player.step == Write({"expires_at": moment(1800), "written_at": moment(600)}, 604.0)
    assert player.writes(600.1).holds
    assert isinstance(player.result, Seen)
    assert player.result.view.expires_at == moment(1800)


def test_a_renewal_never_moves_the_end_closer() -> None:
    """Other agents would rely on it, while a holder without the answer relies on the old end."""
    page = held()
    assert renewing(page, length=timedelta(minutes=5)).reads(60.0).holds
    assert page.view.expires_at == moment(1200)


@pytest.mark.parametrize(
    "change",
    [{"holder": Holder.HUMAN}, {"status": Status.READY}, {"token": OTHER}, {"expires_at": None}, {"run": "another"}],
)
def test_lost_holder_cannot_renew(change: dict[str, Any]) -> None:
    page = held(run="mine")
    person(page, 300, **change)
    before = page.view
    assert isinstance(renewing(page, "mine").reads(600).result, LostLock)
    assert page.view == before


def test_renewal_answer_reveals_a_loss() -> None:
    page = held()
    player = renewing(page).reads(600)
    person(page, 600.05, token=OTHER, agent="bob")
    assert isinstance(player.writes(600.1).result, LostLock)


def test_unanswered_renewal_is_read_not_repeated() -> None:
    assert renewing(held()).reads(600).writes_unheard(600.1).reads(604).holds
    lost = renewing(held()).reads(600).fails().reads(604)
    assert isinstance(lost.result, StoreUnavailable)
    assert "you still hold it" in said(lost)
    assert renewing(held()).reads(600).fails(UNSENT).result is UNSENT.error
    unread = renewing(held()).reads(600).fails().fails()
    assert isinstance(unread.result, StoreUnavailable)


def test_renewal_answered_after_its_lease_does_not_count() -> None:
    """Bob finds the lease expired before the renewal arrives."""
    page = held()
    ann = renewing(page).reads(1200 - 91)
    bob = claiming(page, OTHER).reads(1290)
    late = ann.writes(1291)
    assert isinstance(late.result, LostLock)
    assert "does not count" in said(late)
    bob.writes(1292)
    bob.waits()
    assert bob.reads(1298).holds


# Final writes


def test_a_finish_is_a_read_a_write_and_a_read() -> None:
    page = held()
    player = finishing(page).reads(600.0)
    assert getattr(player.step, "by", None) == 604.0
    assert not player.writes(600.1).holds
    assert player.reads(600.2).holds
    assert page.view.status is Status.DONE
    assert page.view.token is None


def test_repeated_finish_writes_nothing() -> None:
    page = Page(Status.DONE)
    assert Player(page, guard.finish(TOKEN, None, lambda _view, _now: {}, BOUNDS)).reads(1).holds
    assert len(page.history) == 1


@pytest.mark.parametrize("at", [1110, 5000])
def test_finish_in_the_guard_band_is_rejected(at: float) -> None:
    page = held()
    assert isinstance(finishing(page).reads(at).result, LostLock)
    assert page.view.status is Status.ACTIVE


def test_finish_after_a_persons_takeover_is_rejected() -> None:
    page = held()
    person(page, 300, holder=Holder.HUMAN, agent="pat")
    assert isinstance(finishing(page).reads(600).result, LostLock)
    assert page.view.status is Status.ACTIVE


def test_a_foreign_token_after_the_finish_is_a_loss() -> None:
    page = held()
    player = finishing(page).reads(600).writes(600.1)
    page.write(taking("bob", OTHER, BOUNDS)(Page().view, moment(600)), 600.2)
    assert isinstance(player.reads(600.3).result, LostLock)
    assert "taken by bob" in said(player)


def test_a_finish_without_an_answer_is_recognised_when_it_arrived() -> None:
    page = held()
    assert finishing(page).reads(600).writes_unheard(600.1).reads(604).holds
    assert len(page.history) == 3


def test_unanswered_and_missing_finish_is_in_doubt() -> None:
    player = finishing(held()).reads(600).fails().reads(604)
    assert isinstance(player.result, StoreUnavailable)
    assert "not certain" in said(player)
    assert finishing(held()).reads(600).fails(UNSENT).result is UNSENT.error


def test_answered_finish_counts_without_read_back() -> None:
    assert finishing(held()).reads(600).writes(600.1).fails().holds


def test_released_task_may_be_claimed_at_once() -> None:
    page = held()
    player = finishing(page, Status.READY).reads(600).writes(600.1)
    assert player.holds
    assert isinstance(player.result, Seen)
    assert player.result.view.status is Status.READY


def test_unanswered_release_is_recognised_or_lost() -> None:
    """A release is never repeated: see test_forced.py in tests/interleave/notion."""
    assert finishing(held(), Status.READY).reads(600).writes_unheard(600.1).reads(604).holds
    for player in (
        finishing(held(), Status.READY).reads(600).fails().reads(604),
        finishing(held(), Status.READY).reads(600).fails().fails(),
    ):
        assert isinstance(player.result, LostLock)
        assert "do not give it back again" in said(player)
    assert finishing(held(), Status.READY).reads(600).fails(UNSENT).result is UNSENT.error


def test_steps_show_no_token() -> None:
    page = held()
    player = claiming(Page()).reads(0)
    shown = f"{page.view!r} {player.step!r} {Seen(page.view, 0, 0, datetime.min)!r}"  # noqa: DTZ901 - any time will do
    assert TOKEN not in shown
