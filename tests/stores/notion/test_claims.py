"""Which task an agent gets, also when another one is quicker."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, InvalidInput, LostLock, StoreUnavailable
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Status
from dibs.stores.port import Query

from .desk import (
    LEASE,
    PATIENCE,
    SCOPE,
    add,
    claim,
    hold,
    in_background,
    move,
    number,
    peek_ids,
    request,
    select,
    text,
    title,
)
from .test_people import stores

if TYPE_CHECKING:
    from dibs.core.task import Task

    from .desk import Place


def overtake(place: Place, page: str) -> None:
    """Let another agent's claim of the page arrive a moment later."""
    place.notion.human.edit(page, {"Lock Token": text("bob's token"), "Agent": text("bob")})


def test_overtaken_claim_takes_the_next_task(place: Place) -> None:
    store = place.open()
    first = place.page("first", Priority=number(9))
    second = place.page("second", Priority=number(1))
    held = place.notion.faults.hold("PATCH", first, after_commit=True)
    outcome = in_background(lambda: claim(store))
    held.wait_for_arrival(PATIENCE)
    overtake(place, first)
    held.release()
    assert [claimed.task.origin for claimed in outcome()] == [second]
    assert place.shows(first)["Lock Token"] == "bob's token"


def test_overtaken_claim_of_a_named_task_names_the_winner(place: Place) -> None:
    store = place.open()
    page = place.page("first")
    held = place.notion.faults.hold("PATCH", page, after_commit=True)
    outcome = in_background(lambda: hold(store, page))
    held.wait_for_arrival(PATIENCE)
    overtake(place, page)
    held.release()
    refused = outcome()
    assert isinstance(refused, Held)
    assert refused.holder == "bob"
    assert place.shows(page)["Lock Token"] == "bob's token"


def test_several_named_tasks_are_had_together_or_given_back(place: Place) -> None:
    store = place.open()
    one, two, three = add(store, "one", "two", "three")
    assert [claimed.task.id for claimed in claim(store, "ann", one.id, two.id)] == [one.id, two.id]
    with pytest.raises(Held):
        claim(store, "bob", three.id, one.id)
    assert store.get(SCOPE, three.id).status is Status.READY


@pytest.mark.parametrize("strict", [False, True])
def test_failed_claim_of_several_releases_the_others(place: Place, strict: bool) -> None:
    store = stores(place, strict=strict)
    one, two = add(store, "one", "two")
    place.notion.faults.next("unavailable", method="PATCH", path=str(two.origin))
    with pytest.raises(StoreUnavailable):
        claim(store, "ann", one.id, two.id)
    assert peek_ids(store) == [one.id, two.id]
    assert place.shows(str(one.origin))["Lock Token"] == ""


def test_several_next_tasks_are_claimed_in_their_order(place: Place) -> None:
    store = place.open()
    for priority in (1, 3, 2):
        place.page(f"p{priority}", Priority=number(priority))
    assert [claimed.task.title for claimed in claim(store, count=2)] == ["p3", "p2"]
    assert [claimed.task.title for claimed in claim(store, "bob", count=2)] == ["p1"]
    assert claim(store, "bob") == []


def test_a_finish_may_go_on_with_the_next_task(place: Place) -> None:
    store = place.open()
    one, two = add(store, "one", "two")
    token = hold(store, one.id)
    moved = store.move(Move(Verb.DONE, one.id, SCOPE, token=token), CanceledBlocker.RESOLVES, request("ann"))
    assert (moved.task.status, [claimed.task.id for claimed in moved.next]) == (Status.DONE, [two.id])


def test_too_short_lease_is_refused_before_writes(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "one")
    with pytest.raises(InvalidInput, match="4m or more"):
        claim(store, "ann", task.id, lease=LEASE / 10)
    assert place.shows(str(task.origin))["Status"] == "READY"


def test_agents_share_one_pace_and_retry_after(place: Place) -> None:
    pace = place.folder / "pace"
    store = place.open(limiter=str(pace))
    (task,) = add(store, "one")
    assert os.path.getsize(pace) > 0
    before = pace.read_bytes()
    place.notion.faults.next("rate_limited", method="GET")
    assert store.get(SCOPE, task.id).title == "one"
    assert pace.read_bytes() != before


def test_tasks_of_people_are_found_by_every_field(place: Place) -> None:
    store = place.open()
    page = place.page("Sweep the floor", Class=select("EXPEDITE"))
    backlog = place.page("Some day", Status=select("BACKLOG"))
    nameless = place.notion.page(place.database, {"Status": select(None)})
    assert [task.origin for task in store.find(Query(SCOPE, text="FLOOR"))] == [page]
    found = store.find(Query(SCOPE, statuses=(Status.BACKLOG,)))
    assert {task.origin for task in found} == {backlog, nameless}
    assert {task.title for task in found} == {"Some day", ""}
    assert store.counts(None).by_status[Status.BACKLOG] == 2
    hold(store, page, "ann")
    assert [task.origin for task in store.find(Query(SCOPE, agent="ann"))] == [page]


@pytest.mark.parametrize("strict", [False, True])
def test_late_write_is_rejected_in_every_protocol(place: Place, strict: bool) -> None:
    store = stores(place, strict=strict)
    (task,) = add(store, "one")
    token = hold(store, task.id)
    place.clock.advance(minutes=21)
    for verb in (Verb.RENEW, Verb.DONE):
        with pytest.raises(LostLock):
            move(store, verb, task.id, token, late_ok=True)


@pytest.mark.parametrize("strict", [False, True])
def test_named_holder_may_act_until_the_guard_band(place: Place, strict: bool) -> None:
    store = stores(place, strict=strict)
    (task,) = add(store, "one")
    hold(store, task.id, "ann")

    def named(verb: Verb, agent: str) -> Task:
        asked = Move(verb, task.id, SCOPE, Actor(agent), named=True, lease=LEASE if verb is Verb.RENEW else None)
        moved: Task = store.move(asked, CanceledBlocker.RESOLVES).task
        return moved

    with pytest.raises(Held):
        named(Verb.DONE, "bob")
    assert named(Verb.RENEW, "ann").status is Status.ACTIVE
    if not strict:
        place.clock.advance(minutes=19, seconds=45)
        with pytest.raises(LostLock, match="close to its end"):
            named(Verb.DONE, "ann")
    else:
        assert named(Verb.DONE, "ann").status is Status.DONE


def test_mesh_task_is_leased_in_the_arbiter_by_its_timeout(place: Place) -> None:
    stores(place, strict=True)
    place.make("mesh")
    store = place.join(layout="mesh", arbiter=f"sqlite:///{place.folder}/arbiter.db")
    said = {"title": title("Sweep"), "status": select("OPEN"), "claim_timeout_minutes": number(45)}
    page = place.notion.page(place.database, said)
    (claimed,) = claim(store, "Sandman")
    lease = claimed.task.lease
    assert lease is not None
    assert lease.expires_at == lease.claimed_at + timedelta(minutes=45)
    place.clock.advance(minutes=1)
    renewed = move(store, Verb.RENEW, page, lease.token).task.lease
    assert renewed is not None
    assert renewed.expires_at == lease.claimed_at + timedelta(minutes=46)
    assert move(store, Verb.DONE, page, lease.token).task.status is Status.DONE
