"""The one total order: claim, peek and find all keep it, whatever the tasks are like."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.order import order_key
from dibs.core.task import Draft, Edit, ServiceClass, Task
from dibs.stores.port import Query

from .builders import MAKER, add, amend, claim_ids, draft, hold, peek_ids, request

if TYPE_CHECKING:
    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness

# Each beats all that follow it. Every step differs from the next in one thing only, and the later ones have the
# better values of all lesser things, so a key that is missing or out of its place shows.
LADDER = [
    Draft("", "z9", service_class=ServiceClass.EXPEDITE, priority=9),
    Draft("", "z8", service_class=ServiceClass.FIXED_DATE, override=True, priority=9),
    Draft("", "z7", service_class=ServiceClass.FIXED_DATE, priority=-5),
    Draft("", "z6", override=True, priority=9),
    Draft("", "z5", priority=-1),
    Draft("", "z4", priority=0.5),
    Draft("", "z3", priority=2),
    Draft("", "A", priority=10),
    Draft("", "a", priority=10),
    Draft("", "ab", priority=10),
    Draft("", "b", priority=10),
    Draft("", "é", priority=10),
    Draft("", "😀", priority=10),
    Draft("", "a2", service_class=ServiceClass.INTANGIBLE, override=True, priority=-9),
    Draft("", "a1", service_class=ServiceClass.INTANGIBLE, priority=-9),
]


@pytest.mark.parametrize("seed", range(3))
def test_class_then_override_then_priority_then_id(store: Store, seed: int) -> None:
    shuffled = LADDER.copy()
    random.Random(seed).shuffle(shuffled)
    store.add("home", shuffled, [], MAKER)
    expected = [given.id for given in LADDER]
    assert peek_ids(store) == expected
    assert [task.id for task in store.find(Query("home"))] == expected
    assert [task_id for _ in LADDER for task_id in claim_ids(store)] == expected


def test_who_came_first_is_served_first_before_the_id_is_asked(store: Store, clock: Clock) -> None:
    for task in ("c", "a", "b"):
        add(store, task)
        clock.advance(microseconds=1)
    assert peek_ids(store) == claim_ids(store, count=3) == ["c", "a", "b"]


def test_a_lower_priority_comes_before_a_longer_wait(store: Store, clock: Clock) -> None:
    add(store, draft("a", priority=3))
    clock.advance(days=30)
    add(store, draft("b", priority=2))
    assert peek_ids(store) == claim_ids(store, count=2) == ["b", "a"]


def test_a_place_in_the_queue_can_be_given_by_an_edit(store: Store, clock: Clock) -> None:
    add(store, "a", "b")
    clock.advance(minutes=1)
    amend(store, "a", Edit(queued_at=store.now()))
    assert peek_ids(store) == claim_ids(store, count=2) == ["b", "a"]


drafts = st.tuples(
    st.text("ab", min_size=1, max_size=3),
    st.sampled_from(ServiceClass),
    st.booleans(),
    st.sampled_from([-1, 0, 0.5, 1, 2, 1e9]),
).map(lambda drawn: Draft("t", drawn[0], service_class=drawn[1], override=drawn[2], priority=drawn[3]))
waits = st.integers(0, 2)


@pytest.mark.needs("scopes")
@given(
    given=st.lists(st.tuples(drafts, waits), min_size=1, max_size=12, unique_by=lambda pair: pair[0].id),
    batch=st.integers(1, 4),
)
def test_claim_peek_and_find_agree_with_the_order_of_the_core(
    store: Store, clock: Clock, given: list[tuple[Draft, int]], batch: int
) -> None:
    scope = f"order {len(store.scopes())}"
    for one, wait in given:
        store.add(scope, [one], [], MAKER)
        clock.advance(microseconds=wait)
    expected = [task.id for task in sorted(store.graph(scope, finished=True).tasks, key=order_key)]
    assert [task.id for task in store.find(Query(scope))] == expected
    assert peek_ids(store, scope=scope) == expected
    assert peek_ids(store, scope=scope, limit=batch) == expected[:batch]
    claimed: list[str] = []
    while len(claimed) < len(expected):
        claimed += claim_ids(store, scope=scope, count=batch)
    assert claimed == expected


@pytest.mark.needs("scopes")
@given(
    given=st.lists(
        st.tuples(drafts, waits, st.sampled_from("xyz")), min_size=1, max_size=12, unique_by=lambda t: (t[2], t[0].id)
    )
)
def test_across_scopes_the_order_is_the_same(harness: StoreHarness, given: list[tuple[Draft, int, str]]) -> None:
    with harness.open() as store:
        for one, wait, scope in given:
            store.add(scope, [one], [], MAKER)
            harness.clock.advance(microseconds=wait)
        everything = [task for scope in store.scopes() for task in store.graph(scope, finished=True).tasks]
        expected = [(task.scope, task.id) for task in sorted(everything, key=order_key)]
        asked = request("ann", scope=None, count=len(expected))
        assert _named(store.find(Query())) == expected
        assert _named(store.peek(asked, 100)) == expected
        assert _named([claimed.task for claimed in store.claim(asked)]) == expected


def _named(tasks: list[Task]) -> list[tuple[str, str]]:
    return [(task.scope, task.id) for task in tasks]


def test_expired_leases_and_due_tasks_are_claimed_in_order_among_the_ready(store: Store, clock: Clock) -> None:
    due = store.now().replace(year=2027)
    add(store, draft("d", priority=4, not_before=due), draft("b", priority=2, not_before=due))
    add(store, draft("a", priority=1), draft("c", priority=3), draft("e", priority=5))
    hold(store, "c")
    hold(store, "a")
    clock.advance(days=400)
    assert peek_ids(store) == claim_ids(store, count=9) == ["a", "b", "c", "d", "e"]
