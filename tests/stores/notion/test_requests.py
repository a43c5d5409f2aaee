"""Requests per verb, counted by the emulator; and very long lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.lab.emulator import ntask_schema
from dibs.stores.port import Query

from .desk import SCOPE, add, claim, hold, move, peek_ids, request, select, title

if TYPE_CHECKING:
    from .desk import Place


def test_claim_by_id_costs_three_or_five_requests(place: Place) -> None:
    store = place.open()
    one, two = add(store, "one", "two")
    place.served()
    hold(place.join(), one.id)
    assert place.served() == ["GET 200", "PATCH 200", "GET 200"]
    place.forget()
    hold(place.join(), two.id)
    assert place.served() == ["GET 200", "POST 200", "GET 200", "PATCH 200", "GET 200"]


def test_claim_of_the_next_costs_four_or_five_requests(place: Place) -> None:
    store = place.open()
    add(store, "one", "two", "three")
    place.served()
    claim(place.join())
    assert place.served() == ["POST 200", "GET 200", "PATCH 200", "GET 200"]
    place.forget()
    claim(place.join())
    assert place.served() == ["GET 200", "POST 200", "GET 200", "PATCH 200", "GET 200"]


def test_claim_after_peek_needs_no_page_lookup(place: Place) -> None:
    store = place.open()
    place.page("one")
    place.forget()
    (found,) = place.join().peek(request(), 1)
    place.served()
    hold(place.join(), found.id)
    assert place.served() == ["GET 200", "PATCH 200", "GET 200"]
    assert store.get(SCOPE, found.id).status is Status.ACTIVE


def test_heartbeat_costs_two_or_four_requests(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "one")
    token = hold(store, task.id)
    place.clock.advance(minutes=5)
    place.served()
    move(place.join(), Verb.RENEW, task.id, token)
    assert place.served() == ["GET 200", "PATCH 200"]
    place.clock.advance(minutes=5)
    place.forget()
    move(place.join(), Verb.RENEW, task.id, token)
    assert place.served() == ["GET 200", "POST 200", "GET 200", "PATCH 200"]


def test_finishing_costs_three_requests(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "one")
    token = hold(store, task.id)
    place.served()
    move(place.join(), Verb.DONE, task.id, token)
    assert place.served() == ["GET 200", "PATCH 200", "GET 200"]


def test_strict_claim_costs_two_requests_and_the_list(place: Place) -> None:
    place.make()
    arbiter = f"sqlite:///{place.folder}/arbiter.db"
    from dibs.stores.opening import open_store

    open_store(arbiter, create=True).close()
    store = place.join(arbiter=arbiter)
    one, two = add(store, "one", "two")
    place.served()
    claim(store)
    assert place.served() == ["POST 200", "GET 200", "PATCH 200"]
    token = hold(store, two.id)
    assert place.served() == ["GET 200", "GET 200", "PATCH 200"]
    move(store, Verb.RENEW, two.id, token)
    assert place.served() == ["GET 200", "PATCH 200"]
    assert store.get(SCOPE, one.id).status is Status.ACTIVE


@pytest.mark.parametrize("status", ["select", "status"])
def test_next_of_a_thousand_costs_eleven_requests(place: Place, status: str) -> None:
    place.make(schema=ntask_schema(status=status))
    for number in range(1000):
        place.notion.page(place.database, {"Task name": title(f"t{number}"), "Status": {status: {"name": "READY"}}})
    assert len(peek_ids(place.join(), 1)) == 1
    newcomer = place.served()
    assert len(newcomer) == (11 if status == "select" else 13)  # a wrong guess about the type costs two, once
    assert len(peek_ids(place.join(), 1)) == 1
    assert place.served() == [*["POST 200"] * 10, "GET 200"]
    assert len(peek_ids(place.join(), 5000)) == 1000
    assert place.served() == ["POST 200"] * 10


def test_more_tasks_than_notion_lists_at_once_are_all_found(place: Place) -> None:
    store = place.open()
    place.notion.faults.result_cap = 150
    for number in range(700):
        place.page(f"t{number:03}")
        if number % 50 == 49:
            place.clock.advance(minutes=1)
    assert len(set(peek_ids(store, 5000))) == 700
    assert {task.title for task in store.find(Query(SCOPE))} == {f"t{number:03}" for number in range(700)}


def test_too_many_tasks_of_one_minute_are_an_error(place: Place) -> None:
    store = place.open()
    place.notion.faults.result_cap = 100
    for number in range(250):
        place.page(f"t{number}")
    with pytest.raises(StoreUnavailable, match="one minute"):
        peek_ids(store, 5000)


def test_empty_list_counts_only_with_known_words(place: Place) -> None:
    schema = ntask_schema()
    schema["Status"] = {
        "select": {"options": [{"name": name} for name in ("READY", "IN_PROGRESS", "DONE", "CANCELED")]}
    }
    store = place.open(schema=schema)
    assert claim(store) == []
    assert place.served() == ["GET 200", "POST 200", "GET 200", "POST 200"]
    assert claim(store) == []
    assert place.served() == ["POST 200"]


def test_a_list_that_lags_behind_leads_to_no_second_claim(place: Place) -> None:
    store, other = place.open(), place.join()
    place.page("one")
    place.clock.advance(minutes=3)
    assert [claimed.task.title for claimed in claim(store)] == ["one"]
    place.notion.faults.query_lag = 120
    assert peek_ids(other) == ["TASK-1"]
    assert claim(other, "bob") == []


def test_changed_property_types_are_learned(place: Place) -> None:
    store = place.open()
    page = place.page("one")
    assert peek_ids(store) == ["TASK-1"]
    place.notion.human.change_columns(place.database, {"Status": {"name": "Old"}, "Status ": {"rich_text": {}}})
    place.notion.human.change_columns(
        place.database,
        {"Status ": None, "STATUS": {"select": {"options": [{"name": "READY"}, {"name": "IN_PROGRESS"}]}}},
    )
    place.notion.human.edit(page, {"STATUS": select("READY")})
    assert peek_ids(place.join()) == ["TASK-1"]
    assert [claimed.task.id for claimed in claim(place.join())] == ["TASK-1"]


def test_parent_id_is_known_from_its_sub_task(place: Place) -> None:
    store = place.open()
    (house,) = add(store, "House")
    (part,) = add(store, "Kitchen", parent=house.id)
    assert store.find(Query(SCOPE, parent=house.id)) == [store.get(SCOPE, part.id)]
    assert place.join().get(SCOPE, part.id).parent == house.id
    place.forget()
    assert place.join().get(SCOPE, part.id).parent == house.origin


class Turns:
    """A limiter that only records its calls."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def reserve(self, count: int = 1) -> None:
        self.asked.append(count)


def test_reservation_is_used_at_once_or_void(monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.stores.notion import gateway

    now = [0.0]
    monkeypatch.setattr(gateway, "ticks", lambda: now[0])
    turns = Turns()
    pace = gateway.Pace(turns)  # type: ignore[arg-type]
    pace.reserve(2)
    pace.take()
    pace.take()
    assert turns.asked == [2]
    pace.take()
    assert turns.asked == [2, 1]
    pace.reserve(2)
    pace.take()
    now[0] += 3
    pace.take()
    assert turns.asked == [2, 1, 2, 1]
