"""With an arbiter: late writes, and people who change a page at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held
from dibs.core.lifecycle import Verb
from dibs.core.task import Status

from .desk import PATIENCE, SCOPE, Place, add, claim, hold, move, request, select, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.store import NotionStore


def late_release(place: Place, store: NotionStore, task: str) -> None:
    """Ann's release arrives after her lease expired and bob finished the task."""
    token = hold(store, task, "ann")
    page = str(store.get(SCOPE, task).origin)
    held = place.notion.faults.hold("PATCH", page)
    outcome = place.aside(lambda store: move(store, Verb.RELEASE, task, token))
    held.wait_for_arrival(PATIENCE)
    place.clock.advance(minutes=30)
    move(store, Verb.DONE, task, hold(store, task, "bob"))
    held.release()
    assert "Read the page" in outcome().message
    assert place.shows(page)["Status"] == "READY"


def test_late_release_does_not_reopen_a_done_task(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    late_release(place, store, task.id)
    assert claim(opened(), "cid") == []
    assert place.shows(str(task.origin))["Status"] == "DONE"
    assert any("came late" in comment for comment in place.comments(str(task.origin)))


def test_doctor_corrects_a_late_release(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    late_release(place, store, task.id)
    assert [finding.fixed for finding in store.check(fix=True)] == [True]
    assert place.shows(str(task.origin))["Status"] == "DONE"
    assert store.check(fix=False) == []


def test_late_release_is_corrected_once(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    late_release(place, store, task.id)
    assert claim(opened(), "cid") == []
    place.notion.human.edit(str(task.origin), {"Status": select("READY")})
    assert [claimed.task.id for claimed in claim(opened(), "cid")] == [task.id]


def test_persons_reopening_is_no_late_release(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    late_release(place, store, task.id)
    move(store, Verb.BLOCK, task.id)
    move(store, Verb.UNBLOCK, task.id)
    assert [claimed.task.id for claimed in claim(opened(), "cid")] == [task.id]


@pytest.mark.parametrize("kind", ["conflict", "rate_limited", "unavailable_after_commit"])
def test_person_can_reopen_after_answered_releases(place: Place, opened: Callable[[], NotionStore], kind: str) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.faults.next(kind, method="PATCH")
    move(store, Verb.RELEASE, task.id, token)
    move(store, Verb.DONE, task.id, hold(store, task.id, "bob"))
    place.notion.human.edit(str(task.origin), {"Status": select("READY")})
    assert [claimed.task.id for claimed in claim(opened(), "cid")] == [task.id]


def test_late_claim_is_recognised_after_the_next_claimer_died(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    old = hold(store, task.id, "ann")
    move(store, Verb.RELEASE, task.id, old)
    move(store, Verb.DONE, task.id, hold(store, task.id, "bob"))
    late = {"Claimed By": select("AGENT"), "Lock Token": text(old), "Status": select("IN_PROGRESS")}
    place.notion.human.edit(str(task.origin), late)
    assert store._db.ledger is not None
    store._db.ledger.claim(task.id, request("cid", task.id), "the token of one who died")
    place.clock.advance(minutes=30)
    assert claim(opened(), "dan") == []
    assert place.shows(str(task.origin))["Status"] == "DONE"


def test_reopened_task_stays_open_after_its_holder_died(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    move(store, Verb.DONE, task.id, hold(store, task.id))
    place.notion.human.edit(str(task.origin), {"Status": select("READY")})
    hold(store, task.id, "bob")
    place.clock.advance(minutes=30)
    assert [claimed.task.id for claimed in claim(opened(), "cid")] == [task.id]


def test_claim_of_a_just_unblocked_task_is_kept(place: Place, opened: Callable[[], NotionStore]) -> None:
    """The row is claimed between the page's change and its record in the arbiter."""
    store = opened()
    (task,) = add(store, "Sweep")
    move(store, Verb.BLOCK, task.id, hold(store, task.id))
    changed = place.notion.faults.hold("PATCH", str(task.origin), after_commit=True)
    unblocked = place.aside(lambda store: move(store, Verb.UNBLOCK, task.id))
    changed.wait_for_arrival(PATIENCE)
    shown = place.notion.faults.hold("PATCH", str(task.origin))
    token = place.aside(lambda store: hold(store, task.id, "bob"))
    shown.wait_for_arrival(PATIENCE)
    changed.release()
    assert unblocked().task.status is Status.READY
    with pytest.raises(Held):
        hold(store, task.id, "cid")
    shown.release()
    assert move(store, Verb.DONE, task.id, token()).task.status is Status.DONE


def test_claim_lost_before_its_write_returns_no_foreign_token(place: Place, opened: Callable[[], NotionStore]) -> None:
    store = opened()
    (task,) = add(store, "Sweep")
    held = place.notion.faults.hold("PATCH", str(task.origin))
    outcome = place.aside(lambda store: claim(store, "ann", task.id))
    held.wait_for_arrival(PATIENCE)
    place.clock.advance(minutes=30)
    token = hold(store, task.id, "bob")
    held.release()
    assert isinstance(outcome(), Held)
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE
