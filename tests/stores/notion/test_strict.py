"""With an arbiter: exact leases, one holder, and corrected pages after crashes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, IllegalMove, LostLock, Misconfigured, StoreBusy, StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder, Status

from .desk import LEASE, PATIENCE, SCOPE, add, claim, hold, move, peek_ids, request, select, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.store import NotionStore

    from .desk import Place


def test_store_with_arbiter_declares_strict_claims(opened: Callable[[], NotionStore]) -> None:
    store = opened()
    assert store.capabilities.exclusive == "strict"
    assert "arbiter.db" in store.describe()["claims"]


def test_lease_is_exact_and_attempts_rise(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    span = timedelta(seconds=90)
    (first,) = store.claim(request("ann", task.id, lease=span))
    assert first.task.lease is not None
    assert (first.task.lease.expires_at, first.task.attempt) == (place.clock() + span, 1)
    place.clock.advance(seconds=89)
    with pytest.raises(Held):
        hold(opened(), task.id, "bob")
    place.clock.advance(seconds=1)
    (second,) = claim(opened(), "bob", task.id)
    assert second.task.attempt == 2
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, first.task.lease.token)


def test_same_free_page_is_claimed_once(place: Place, opened: Callable[[], NotionStore]) -> None:
    mine, theirs = opened(), opened()
    add(mine, "Sweep")
    place.clock.advance(minutes=3)
    place.notion.faults.query_lag = 120
    assert (len(claim(mine)), len(claim(theirs, "bob"))) == (1, 0)


def test_task_finished_after_the_list_is_not_claimed(place: Place, opened: Callable[[], NotionStore]) -> None:
    mine, theirs = opened(), opened()
    (task,) = add(mine, "Sweep")
    place.clock.advance(minutes=3)
    place.notion.faults.query_lag = 120
    move(mine, Verb.DONE, task.id, hold(mine, task.id))
    assert peek_ids(theirs) == [task.id]
    assert claim(theirs, "bob") == []
    assert place.shows(str(task.origin))["Status"] == "DONE"
    assert not theirs._db.ledger.row(task.id).live  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["unavailable", "drop", "conflict", "rate_limited"])
def test_a_claim_that_cannot_be_shown_is_taken_back(place: Place, opened: Callable[[], NotionStore], kind: str) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    place.notion.faults.next(kind, method="PATCH", times=9)
    with pytest.raises((StoreUnavailable, StoreBusy)):
        hold(store, task.id)
    place.notion.faults.clear()
    assert [claimed.task.id for claimed in claim(opened(), "bob")] == [task.id]


@pytest.mark.parametrize("kind", ["unavailable_after_commit", "drop_after_commit", "garbage"])
def test_claim_written_with_a_lost_answer_counts(place: Place, opened: Callable[[], NotionStore], kind: str) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    place.notion.faults.next(kind, method="PATCH")
    token = hold(store, task.id)
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE


def test_doubtful_finish_keeps_the_lease_and_is_repeatable(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.faults.next("unavailable", method="PATCH")
    with pytest.raises(StoreUnavailable, match="You still hold it"):
        move(store, Verb.DONE, task.id, token)
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE


def test_finish_after_its_lease_counts_without_a_new_claim(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    held = place.notion.faults.hold("PATCH", str(task.origin), after_commit=True)
    outcome = place.aside(lambda store: move(store, Verb.DONE, task.id, token))
    held.wait_for_arrival(PATIENCE)
    place.clock.advance(minutes=30)
    held.release()
    assert outcome().task.status is Status.DONE
    assert claim(opened(), "bob") == []


def test_finish_after_its_lease_is_in_doubt_with_a_new_claim(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    held = place.notion.faults.hold("PATCH", str(task.origin))
    outcome = place.aside(lambda store: move(store, Verb.DONE, task.id, token))
    held.wait_for_arrival(PATIENCE)
    place.clock.advance(minutes=30)
    theirs = hold(store, task.id, "bob")
    held.release()
    doubt = outcome()
    assert isinstance(doubt, StoreUnavailable)
    assert "Read the page" in doubt.message
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, theirs)


def test_a_renewal_counts_also_where_notion_cannot_show_it(
    place: Place, opened: Callable[[], NotionStore], caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.clock.advance(minutes=19)
    place.notion.faults.next("unavailable", method="PATCH", times=9)
    renewed = move(store, Verb.RENEW, task.id, token).task.lease
    assert renewed is not None
    assert renewed.expires_at == place.clock() + LEASE
    assert "not shown in Notion yet" in caplog.text
    place.clock.advance(minutes=5)
    place.notion.faults.clear()
    with pytest.raises(Held):
        hold(opened(), task.id, "bob")


def unlike(store: NotionStore) -> list[tuple[str, bool]]:
    return [(finding.subject, finding.fixed) for finding in store.check(fix=False)]


def test_crash_between_row_and_page_is_corrected(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    place.clock.advance(minutes=2)
    ledger = store._db.ledger
    assert ledger is not None
    ledger.claim(task.id, request("ann", task.id), "the token of one who died")
    assert unlike(store) == [(task.id, False)]
    assert [finding.fixed for finding in store.check(fix=True)] == [True]
    shown = place.shows(str(task.origin))
    assert (shown["Status"], shown["Agent"]) == ("IN_PROGRESS", "ann")
    assert unlike(store) == []


def test_late_write_is_corrected_for_the_present_holder(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    old = hold(store, task.id, "ann")
    place.clock.advance(hours=1)
    token = hold(store, task.id, "bob")
    late = {"Lock Token": text(old), "Agent": text("ann"), "Status": select("IN_PROGRESS")}
    place.notion.human.edit(str(task.origin), late)
    assert store.get(SCOPE, task.id).lease is not None
    assert [finding.fixed for finding in store.check(fix=True)] == [True]
    assert place.shows(str(task.origin))["Agent"] == "bob"
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE


def test_late_claim_does_not_reopen_a_done_task(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    old = hold(store, task.id, "ann")
    move(store, Verb.RELEASE, task.id, old)
    move(store, Verb.DONE, task.id, hold(store, task.id, "bob"))
    late = {
        "Claimed By": select("AGENT"),
        "Lock Token": text(old),
        "Agent": text("ann"),
        "Status": select("IN_PROGRESS"),
    }
    place.notion.human.edit(str(task.origin), late)
    with pytest.raises(IllegalMove, match="done"):
        hold(opened(), task.id, "cid")
    shown = place.shows(str(task.origin))
    assert (shown["Status"], shown["Lock Token"]) == ("DONE", "")
    assert claim(opened(), "cid") == []


def test_page_of_an_ended_row_is_corrected_without_holder(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    ledger = store._db.ledger
    assert ledger is not None
    ledger.release(task.id, token, Status.READY, request().by)
    assert [finding.fixed for finding in store.check(fix=True)] == [True]
    shown = place.shows(str(task.origin))
    assert (shown["Status"], shown["Claimed By"], shown["Lock Token"]) == ("READY", None, "")
    assert peek_ids(store) == [task.id]


@pytest.mark.parametrize("edit", [{"Claimed By": select("HUMAN")}, {"Status": select("BLOCKED")}])
def test_persons_change_is_not_corrected(
    place: Place, opened: Callable[[], NotionStore], edit: dict[str, object]
) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    hold(store, task.id)
    place.clock.advance(minutes=2)
    place.notion.human.edit(str(task.origin), edit)
    before = place.shows(str(task.origin))
    assert store.check(fix=True) == []
    assert place.shows(str(task.origin)) == before


def test_persons_takeover_through_dibs_ends_the_lease(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    hold(store, task.id, "hannah", holder=Holder.HUMAN, force=True)
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, token)
    assert store._db.ledger is not None
    assert not store._db.ledger.row(task.id).live
    assert place.shows(str(task.origin))["Claimed By"] == "HUMAN"


def test_an_arbiter_must_itself_be_strict(place: Place) -> None:
    place.make()
    with pytest.raises(Misconfigured, match="arbiter"):
        place.join(arbiter=f"notion://{place.database}")
