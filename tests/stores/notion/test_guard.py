"""Claim, renewal and finish, step by step on a page that the test has in its hands."""

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
    """A page that ann holds from 0 s on, until 12:20."""
    page = Page()
    page.write(taking("ann", TOKEN, BOUNDS)(page.view, BEGIN), 0)
    page.view = page.view._replace(run=run)
    return page


def renewing(page: Page, run: str | None = None, length: timedelta = LEASE) -> Player:
    return Player(page, guard.renew(TOKEN, run, length, BOUNDS))


def finishing(page: Page, status: Status = Status.DONE) -> Player:
    return Player(page, guard.finish(TOKEN, None, leaving(status), BOUNDS))


def person(page: Page, at: float, **said: Any) -> None:
    """What a person changes in Notion, property by property."""
    page.write({}, at)
    page.view = page.view._replace(**said)


def said(player: Player) -> str:
    assert isinstance(player.result, DibsError)
    return player.result.message


# Bounds


@pytest.mark.parametrize(("window", "settle", "staleness"), [(4, 4, 0), (4, 3, 0), (4, 6, 1), (0, 5, 0), (4, 5, -1)])
def test_bounds_refuse_a_wait_that_is_not_longer_than_the_window_and_twice_the_staleness(
    window: float, settle: float, staleness: float
) -> None:
    with pytest.raises(Misconfigured, match="not safe"):
        Bounds(window, settle, staleness)


@pytest.mark.parametrize("name", ["guard_band", "steal_after"])
def test_bounds_refuse_margins_below_the_minute_that_notion_rounds_to(name: str) -> None:
    with pytest.raises(Misconfigured, match="60 s"):
        Bounds(**{name: timedelta(seconds=59)})  # type: ignore[arg-type]


# Leases


def test_a_lease_ends_at_a_whole_minute_and_never_before_its_time() -> None:
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
        ({"edited_at": moment(600)}, 1890),  # an agent wrote to it: maybe a late claim, over one that works
        ({"edited_at": moment(600), "by_person": True}, 1290),
        ({"edited_at": moment(600), "written_at": moment(600)}, 1290),  # a renewal
        ({"edited_at": moment(60), "written_at": moment(60), "expires_at": moment(300)}, 390),
        ({"edited_at": moment(600), "longest": timedelta(hours=1)}, 4290),
        ({"edited_at": moment(600), "token": None}, 1290),  # no claim leaves a page without a token
        ({"expires_at": moment(1500)}, 1590),
    ],
)
def test_expired_lease_is_free_once_no_holder_can_believe_in_it(fields: dict[str, Any], free_at: float) -> None:
    one = view(**fields)
    early = guard.too_early(one, moment(free_at - 0.001), BOUNDS)
    assert isinstance(early, Held)
    assert early.holder == "ann"
    assert early.retry_after_ms == 1
    assert guard.too_early(one, moment(free_at), BOUNDS) is None


_SECONDS = st.floats(0, 7_200)
_SKEW = st.floats(-28, 28)  # seconds that an agent's idea of the time may be off


@given(_SECONDS, _SECONDS, _SECONDS, st.integers(4, 60), _SKEW, _SKEW, _SKEW)
def test_page_is_not_free_before_the_overwritten_holder_has_stopped(
    claimed: float, later: float, held_up: float, minutes: int, skew: float, other_skew: float, third_skew: float
) -> None:
    """Ann claims or renews; later a write arrives that was sent before that; then an agent looks for free pages."""
    length, arrived = timedelta(minutes=minutes), claimed + later
    sent = moment(arrived - later - held_up + third_skew)  # it found the page free: ann's claim came after it
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
def test_claim_that_arrived_in_time_is_free_at_its_own_end(
    sent: float, underway: float, behind: float, minutes: int
) -> None:
    """Also where its sender's idea of the time is some seconds behind."""
    now = moment(sent - behind)
    ends = guard.lease_end(now, timedelta(minutes=minutes))
    edited = moment(sent + underway).replace(second=0, microsecond=0)
    one = view(edited_at=edited, written_at=guard.due_by(now, BOUNDS), expires_at=ends)
    assert guard.too_early(one, ends + BOUNDS.steal_after, BOUNDS) is None


@pytest.mark.parametrize("fields", [{"expires_at": None}, {"status": Status.READY}])
def test_a_page_that_a_person_has_freed_can_be_had_at_once(fields: dict[str, Any]) -> None:
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
def test_who_may_not_act_is_told_why(fields: dict[str, Any], why: str) -> None:
    error = guard.lost(view(**{"run": "run-1", **fields}), TOKEN, "run-1", BEGIN, BOUNDS)
    assert isinstance(error, LostLock)
    assert why in error.message
    assert "secret" not in error.message


def test_the_holder_may_act_until_the_guard_band_begins() -> None:
    assert guard.lost(view(), TOKEN, None, moment(1109.999), BOUNDS) is None
    assert guard.lost(view(), TOKEN, None, moment(1110), BOUNDS) is not None


# Claims


def test_a_claim_is_one_read_one_write_a_wait_and_one_read() -> None:
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
def test_claim_is_dated_by_the_minute_in_which_it_arrives_at_the_latest(read: float, minute: float) -> None:
    """The window is 4 s, and an agent's idea of the time may be 10 s behind."""
    step = claiming(Page()).reads(read).step
    assert isinstance(step, Write)
    assert step.changes["written_at"] == moment(minute)


def test_who_is_refused_writes_nothing() -> None:
    page = held()
    player = claiming(page, OTHER).reads(1.0)
    assert isinstance(player.result, Held)
    page = Page(Status.DONE)
    assert isinstance(claiming(page).reads(1.0).result, IllegalMove)
    assert len(page.history) == 1


def test_what_was_never_sent_is_told_as_it_is() -> None:
    assert claiming(Page()).reads(0).fails(UNSENT).result is UNSENT.error
    assert claiming(Page()).fails(UNSENT).result is UNSENT.error


def test_a_write_without_an_answer_is_no_claim_and_its_token_is_not_handed_out() -> None:
    player = claiming(Page()).reads(0).fails()
    assert isinstance(player.result, StoreUnavailable)
    assert not isinstance(player.result, Unconfirmed)
    assert "pick another task" in said(player)


def test_the_stores_clock_finds_out_who_slept_without_noticing() -> None:
    """A machine whose clock stood still thinks that it was quick."""
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


def test_a_claim_that_cannot_be_read_back_hands_out_its_token_but_not_in_its_message() -> None:
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
def test_whoever_comes_in_between_wins_and_nothing_more_is_written(change: dict[str, Any]) -> None:
    page = Page()
    player = claiming(page).reads(0).writes(0.1)
    player.waits()
    person(page, 2.0, **change)
    written = len(page.history)
    player.reads(5.2)
    assert isinstance(player.result, Held)
    assert "in the same moment" in said(player)
    assert len(page.history) == written


def test_who_reads_back_when_the_lease_is_as_good_as_over_has_no_claim() -> None:
    player = claiming(Page()).reads(0).writes(0.1)
    player.waits()
    assert isinstance(player.reads(1200 - 90).result, StoreUnavailable)


# Renewals


def test_renewal_is_one_read_and_one_write_of_the_end_and_its_date() -> None:
    player = renewing(held()).reads(600.0)
    assert isinstance(player.step, Write)
    assert player.step == Write({"expires_at": moment(1800), "written_at": moment(600)}, 604.0)
    assert player.writes(600.1).holds
    assert isinstance(player.result, Seen)
    assert player.result.view.expires_at == moment(1800)


def test_a_renewal_never_moves_the_end_closer() -> None:
    """Others would take it for the end, while whoever did not hear of it believes in the old one."""
    page = held()
    assert renewing(page, length=timedelta(minutes=5)).reads(60.0).holds
    assert page.view.expires_at == moment(1200)


@pytest.mark.parametrize(
    "change",
    [{"holder": Holder.HUMAN}, {"status": Status.READY}, {"token": OTHER}, {"expires_at": None}, {"run": "another"}],
)
def test_who_has_lost_the_page_renews_nothing(change: dict[str, Any]) -> None:
    page = held(run="mine")
    person(page, 300, **change)
    before = page.view
    assert isinstance(renewing(page, "mine").reads(600).result, LostLock)
    assert page.view == before


def test_the_answer_to_a_renewal_tells_of_a_loss_in_between() -> None:
    page = held()
    player = renewing(page).reads(600)
    person(page, 600.05, token=OTHER, agent="bob")
    assert isinstance(player.writes(600.1).result, LostLock)


def test_a_renewal_without_an_answer_is_looked_for_and_not_repeated() -> None:
    assert renewing(held()).reads(600).writes_unheard(600.1).reads(604).holds
    lost = renewing(held()).reads(600).fails().reads(604)
    assert isinstance(lost.result, StoreUnavailable)
    assert "you still hold it" in said(lost)
    assert renewing(held()).reads(600).fails(UNSENT).result is UNSENT.error
    unread = renewing(held()).reads(600).fails().fails()
    assert isinstance(unread.result, StoreUnavailable)


def test_a_renewal_that_is_heard_of_after_its_lease_counts_for_nothing() -> None:
    """Bob has found the lease over, and is about to write, when the renewal arrives after all."""
    page = held()
    ann = renewing(page).reads(1200 - 91)
    bob = claiming(page, OTHER).reads(1290)
    late = ann.writes(1291)
    assert isinstance(late.result, LostLock)
    assert "does not count" in said(late)
    bob.writes(1292)
    bob.waits()
    assert bob.reads(1298).holds


# Last words


def test_a_finish_is_a_read_a_write_and_a_read() -> None:
    page = held()
    player = finishing(page).reads(600.0)
    assert getattr(player.step, "by", None) == 604.0
    assert not player.writes(600.1).holds
    assert player.reads(600.2).holds
    assert page.view.status is Status.DONE
    assert page.view.token is None


def test_what_was_said_already_is_not_written_again() -> None:
    page = Page(Status.DONE)
    assert Player(page, guard.finish(TOKEN, None, lambda _view, _now: {}, BOUNDS)).reads(1).holds
    assert len(page.history) == 1


@pytest.mark.parametrize("at", [1110, 5000])
def test_nobody_finishes_in_the_guard_band_or_after_it(at: float) -> None:
    page = held()
    assert isinstance(finishing(page).reads(at).result, LostLock)
    assert page.view.status is Status.ACTIVE


def test_nobody_finishes_what_a_person_has_taken() -> None:
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


def test_a_finish_without_an_answer_that_is_not_there_is_in_doubt() -> None:
    player = finishing(held()).reads(600).fails().reads(604)
    assert isinstance(player.result, StoreUnavailable)
    assert "not certain" in said(player)
    assert finishing(held()).reads(600).fails(UNSENT).result is UNSENT.error


def test_a_finish_that_was_answered_stands_although_it_cannot_be_read_again() -> None:
    assert finishing(held()).reads(600).writes(600.1).fails().holds


def test_what_is_given_back_may_be_taken_by_the_next_at_once() -> None:
    page = held()
    player = finishing(page, Status.READY).reads(600).writes(600.1)
    assert player.holds
    assert isinstance(player.result, Seen)
    assert player.result.view.status is Status.READY


def test_giving_back_without_an_answer_is_recognised_or_ends_in_silence() -> None:
    """It is not to be said again: see test_forced.py in tests/interleave/notion."""
    assert finishing(held(), Status.READY).reads(600).writes_unheard(600.1).reads(604).holds
    for player in (
        finishing(held(), Status.READY).reads(600).fails().reads(604),
        finishing(held(), Status.READY).reads(600).fails().fails(),
    ):
        assert isinstance(player.result, LostLock)
        assert "do not give it back again" in said(player)
    assert finishing(held(), Status.READY).reads(600).fails(UNSENT).result is UNSENT.error


def test_no_token_is_in_what_is_shown_of_a_step() -> None:
    page = held()
    player = claiming(Page()).reads(0)
    shown = f"{page.view!r} {player.step!r} {Seen(page.view, 0, 0, datetime.min)!r}"  # noqa: DTZ901 - any time will do
    assert TOKEN not in shown
