"""Looking changes nothing: get, match, find, peek, links, graph, counts, scopes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import NotFound
from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from dibs.stores.port import Query

from .builders import (
    LEASE,
    SCOPE,
    UNFINISHED,
    add,
    blocks,
    bring,
    claim,
    draft,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    link,
    move,
    no_trace,
    parallel,
    peek_ids,
    request,
)

if TYPE_CHECKING:
    from clock import Clock
    from dibs.stores.port import Store


def found(store: Store, query: Query) -> list[str]:
    return [task.id for task in store.find(query)]


@pytest.mark.needs("links")
def test_looking_leaves_no_trace(store: Store, clock: Clock) -> None:
    add(store, "a", "b", draft("c", max_retries=0), links=[blocks("b", "a")])
    hold(store, "c")
    clock.advance(hours=1)
    with no_trace(store):
        store.get(SCOPE, "a")
        store.match(SCOPE, "a", 5)
        store.find(Query())
        store.peek(request("ann"), 10)
        store.links(SCOPE, "a")
        store.graph(SCOPE, finished=True)
        store.counts(None)
        store.scopes()
        store.describe()
        store.check(fix=False)


@pytest.mark.needs("scopes")
def test_get_knows_exactly_one_task(store: Store) -> None:
    add(store, "abc")
    add(store, "x", scope="elsewhere")
    assert get(store, "abc").id == "abc"
    for unknown in ("ab", "abcd", "ABC", "x", ""):
        with pytest.raises(NotFound):
            get(store, unknown)


@pytest.mark.needs("scopes")
def test_match_lists_ids_by_their_beginning_in_order(store: Store) -> None:
    add(store, "ab", "abc", "abd", "b", "Ab")
    add(store, "abz", scope="elsewhere")
    assert store.match(SCOPE, "ab", 10) == ["ab", "abc", "abd"]
    assert store.match(SCOPE, "abc", 10) == ["abc"]
    assert store.match(SCOPE, "c", 10) == []


def test_match_stops_at_the_limit_with_the_shortest_first(store: Store) -> None:
    add(store, "abc", "abd", "ab")
    assert store.match(SCOPE, "ab", 2) == ["ab", "abc"]


@pytest.mark.parametrize("prefix", ["a%", "a_", "a*", "a?", "a["])
def test_match_takes_pattern_characters_literally(store: Store, prefix: str) -> None:
    add(store, "abc", f"{prefix}c")
    assert store.match(SCOPE, prefix, 10) == [f"{prefix}c"]


@pytest.mark.needs("scopes")
def test_find_without_conditions_lists_everything_everywhere(store: Store) -> None:
    add(store, "a", "b")
    add(store, "c", scope="elsewhere")
    finish(store, "a")
    assert sorted(found(store, Query())) == ["a", "b", "c"]
    assert sorted(found(store, Query(SCOPE))) == ["a", "b"]
    assert found(store, Query("nowhere")) == []


def test_find_by_status_lists_that_status_only(store: Store) -> None:
    for status in Status:
        bring(store, status.value, status)
    for status in Status:
        assert found(store, Query(SCOPE, statuses=(status,))) == [status.value]


def test_find_by_several_statuses_lists_all_of_them_in_claim_order(store: Store) -> None:
    for number, status in enumerate(Status):
        bring(store, f"{number}", status)
    assert found(store, Query(SCOPE, statuses=UNFINISHED)) == [f"{number}" for number in range(7)]
    assert found(store, Query(SCOPE, statuses=())) == []


@pytest.mark.parametrize("field", ["assigned_to", "parent"], ids=lambda field: f"by {field}")
def test_find_by_an_attribute_takes_equal_values_only(store: Store, field: str) -> None:
    add(store, "one", "two", "ONE")
    add(store, draft("a", **{field: "one"}), draft("b", **{field: "two"}), draft("c", **{field: "ONE"}), draft("d"))
    assert found(store, Query(SCOPE, **{field: "one"})) == ["a"]  # type: ignore[arg-type]


def test_find_by_agent_lists_what_that_agent_holds_now(store: Store) -> None:
    add(store, "a", "b", "c", "d")
    hold(store, "a", "ann")
    hold(store, "b", "bob")
    move(store, Verb.RELEASE, "c", hold(store, "c", "ann"))
    hold_as_human(store, "d", "ann")
    assert found(store, Query(SCOPE, agent="ann")) == ["a", "d"]


IN_TEXTS = {
    "letter": ["a", "b", "c"],
    "LETTER": ["a", "b", "c"],
    "tter t": ["b"],
    "50%": ["d"],
    "_": [],
    "ünd": ["e"],
    "nowhere": [],
}


def test_find_by_text_looks_into_title_and_description_in_any_case(store: Store) -> None:
    add(
        store,
        Draft("Write a letter", id="a"),
        Draft("Letter to Bob", id="b"),
        Draft("Post", id="c", description="the Letter"),
        Draft("Save 50% now", id="d"),
        Draft("gegründet", id="e"),
    )
    assert {text: found(store, Query(SCOPE, text=text)) for text in IN_TEXTS} == IN_TEXTS


def test_find_conditions_are_all_required(store: Store) -> None:
    add(store, draft("a", category="x", assigned_to="ann"), draft("b", category="x"), draft("c", assigned_to="ann"))
    assert found(store, Query(SCOPE, only=Filter(category="x"), assigned_to="ann")) == ["a"]


def test_find_stops_at_the_limit_with_the_first_in_order(store: Store) -> None:
    add(store, draft("a", priority=3), draft("b", priority=1), draft("c", priority=2))
    assert found(store, Query(SCOPE, limit=2)) == ["b", "c"]
    assert found(store, Query(SCOPE, limit=0)) == []


@pytest.mark.needs("links")
def test_peek_shows_what_a_claim_would_get(store: Store) -> None:
    add(store, "a", "b", draft("c", priority=1), draft("d", assigned_to="bob"), links=[blocks("b", "a")])
    assert peek_ids(store, "ann") == ["c", "a"]
    assert peek_ids(store, "bob") == ["c", "a", "d"]
    assert peek_ids(store, "ann", limit=1) == ["c"]
    assert peek_ids(store, "ann", limit=0) == []


@pytest.mark.needs("exact leases")
def test_peek_shows_expired_leases_before_anyone_has_claimed_again(store: Store, clock: Clock) -> None:
    add(store, draft("a", priority=1), "b")
    hold(store, "a")
    assert peek_ids(store) == ["b"]
    clock.advance(minutes=20)
    assert peek_ids(store) == ["a", "b"]


@pytest.mark.needs("scopes")
def test_peek_shows_expired_leases_also_after_someone_has_claimed(store: Store, clock: Clock) -> None:
    add(store, draft("a", priority=1), draft("b", priority=9))
    hold(store, "a")
    clock.advance(minutes=20)
    claim(store, "bob", scope="elsewhere")
    assert peek_ids(store) == ["a", "b"]


def test_peek_shows_what_has_become_due(store: Store, clock: Clock) -> None:
    add(store, draft("a", not_before=store.now() + LEASE), draft("b", not_before=store.now() + 3 * LEASE))
    assert peek_ids(store) == []
    clock.advance(minutes=20)
    assert peek_ids(store) == ["a"]


def test_peek_hides_an_expired_lease_without_retries_left(store: Store, clock: Clock) -> None:
    add(store, draft("a", max_retries=0))
    hold(store, "a")
    clock.advance(hours=1)
    assert peek_ids(store) == []


@pytest.mark.needs("links")
def test_peek_fits_due_tasks_to_the_asker_too(store: Store, clock: Clock) -> None:
    due = store.now() + LEASE
    add(store, "first", draft("a", assigned_to="bob"), draft("b", requires=("x",)), not_before=due)
    add(store, draft("c", not_before=due), links=[blocks("c", "first")])
    clock.advance(hours=1)
    assert peek_ids(store, "ann") == ["first"]
    assert peek_ids(store, "bob") == ["a", "first"]
    assert peek_ids(store, "ann", can=frozenset({"x"})) == ["b", "first"]
    assert peek_ids(store, "ann", unable=True) == ["b", "first"]


def test_peek_tells_what_is_free_whatever_it_takes(store: Store) -> None:
    add(store, draft("a", requires=("x", "y")), draft("b"), draft("c", requires=("x",)), draft("d", assigned_to="bob"))
    assert peek_ids(store, "ann") == ["b"]
    assert peek_ids(store, "ann", unable=True) == ["a", "b", "c"]
    assert peek_ids(store, "ann", unable=True, limit=1) == ["a"]


@pytest.mark.needs("fleet")
def test_peek_at_what_is_assigned_to_the_asker_whatever_it_takes(store: Store) -> None:
    add(store, draft("a", requires=("x",), assigned_to="ann"), draft("b", assigned_to="ann"), "c")
    assert peek_ids(store, "ann", assigned=True) == ["b"]
    assert peek_ids(store, "ann", assigned=True, unable=True) == ["a", "b"]


@pytest.mark.needs("scopes")
def test_peek_across_scopes_merges_them_into_one_order(store: Store) -> None:
    add(store, draft("a", priority=2), draft("c", priority=4))
    add(store, draft("b", priority=3), scope="elsewhere")
    assert peek_ids(store, scope=None) == ["a", "b", "c"]
    assert peek_ids(store, scope=None, limit=2) == ["a", "b"]
    assert peek_ids(store, scope="elsewhere") == ["b"]


@pytest.mark.needs("links")
def test_links_lists_both_directions_and_only_this_task(store: Store) -> None:
    add(store, "a", "b", "c", "d")
    links = [blocks("b", "a"), feeds("c", "b"), parallel("d", "b"), blocks("d", "c")]
    link(store, *links)
    assert store.links(SCOPE, "b") == links[:3]
    with pytest.raises(NotFound):
        store.links(SCOPE, "nowhere")


@pytest.mark.needs("links")
def test_links_keep_what_was_stated_about_them(store: Store) -> None:
    add(store, "a", "b")
    stated = feeds("b", "a")._replace(weight=0.25, detected_by="semantic", confidence=0.75)
    link(store, stated)
    assert store.links(SCOPE, "b") == [stated]


@pytest.mark.needs("links")
def test_the_graph_holds_one_scopes_tasks_and_links(store: Store) -> None:
    add(store, "a", "b", "c", links=[blocks("b", "a"), feeds("c", "b")])
    add(store, "x", "y", scope="elsewhere", links=[blocks("x", "y")])
    graph = store.graph(SCOPE, finished=True)
    assert [task.id for task in graph.tasks] == ["a", "b", "c"]
    assert list(graph.links) == [blocks("b", "a"), feeds("c", "b")]


@pytest.mark.needs("links")
def test_the_graph_can_leave_finished_tasks_out_with_their_links(store: Store) -> None:
    add(store, "a", "b", "c", "d", links=[blocks("b", "a"), blocks("c", "b"), blocks("c", "d")])
    finish(store, "a")
    move(store, Verb.CANCEL, "d")
    move(store, Verb.UNBLOCK, "c")
    graph = store.graph(SCOPE, finished=False)
    assert [task.id for task in graph.tasks] == ["b", "c"]
    assert list(graph.links) == [blocks("c", "b")]


@pytest.mark.needs("scopes")
def test_scopes_are_those_that_have_tasks(store: Store) -> None:
    assert store.scopes() == []
    add(store, "a", scope="work")
    add(store, "a", "b", scope="home")
    claim(store, scope="nowhere")
    assert store.scopes() == ["home", "work"]


def counted(store: Store, scope: str | None = SCOPE) -> dict[str, int]:
    counts = store.counts(scope)
    shown = {status.value: number for status, number in counts.by_status.items() if number}
    return shown | {"waiting": counts.waiting, "claimable": counts.claimable, "expired": counts.expired}


def test_counts_of_an_empty_store_are_zero(store: Store) -> None:
    assert counted(store) == counted(store, None) == {"waiting": 0, "claimable": 0, "expired": 0}


def test_counts_by_status_count_each_task_once(store: Store) -> None:
    for number, status in enumerate(Status):
        for copy in range(number + 1):
            bring(store, f"{status}-{copy}", status)
    by_status = store.counts(SCOPE).by_status
    assert dict(by_status) == {status: number + 1 for number, status in enumerate(Status)}


@pytest.mark.needs("links")
def test_counts_are_of_one_scope_or_of_all(store: Store) -> None:
    add(store, "a", "b", links=[blocks("b", "a")])
    add(store, "c", scope="elsewhere")
    assert counted(store) == {"ready": 2, "waiting": 1, "claimable": 1, "expired": 0}
    assert counted(store, "elsewhere") == {"ready": 1, "waiting": 0, "claimable": 1, "expired": 0}
    assert counted(store, None) == {"ready": 3, "waiting": 1, "claimable": 2, "expired": 0}


@pytest.mark.needs("scopes")
@pytest.mark.parametrize("woken", [False, True])
def test_counts_see_expired_leases_whether_or_not_someone_has_claimed_since(
    store: Store, clock: Clock, woken: bool
) -> None:
    add(store, "a", "b", "c")
    hold(store, "a")
    hold(store, "b", lease=timedelta(hours=9))
    hold_as_human(store, "c")
    assert counted(store) == {"active": 3, "waiting": 0, "claimable": 0, "expired": 0}
    clock.advance(hours=1)
    if woken:
        claim(store, scope="elsewhere")
    assert counted(store) == {"active": 3, "waiting": 0, "claimable": 1, "expired": 1}


@pytest.mark.needs("scopes")
@pytest.mark.parametrize("woken", [False, True])
def test_counts_see_tasks_as_they_become_due(store: Store, clock: Clock, woken: bool) -> None:
    add(store, draft("a", not_before=store.now() + LEASE))
    assert counted(store) == {"ready": 1, "waiting": 0, "claimable": 0, "expired": 0}
    clock.advance(minutes=20)
    if woken:
        claim(store, scope="elsewhere")
    assert counted(store) == {"ready": 1, "waiting": 0, "claimable": 1, "expired": 0}


@pytest.mark.needs("scopes")
def test_counts_tell_what_is_not_due_yet_and_when_time_will_change_something(store: Store, clock: Clock) -> None:
    now = store.now()
    assert store.counts(SCOPE).next_due is None
    add(store, draft("a", not_before=now + LEASE), draft("b", not_before=now + 3 * LEASE), "c", "d")
    add(store, draft("x", not_before=now + timedelta(minutes=1)), scope="elsewhere")
    store.link(SCOPE, [blocks("b", "c")], Actor())
    assert (store.counts(SCOPE).later, store.counts(SCOPE).next_due) == (1, now + LEASE)
    assert (store.counts(None).later, store.counts(None).next_due) == (2, now + timedelta(minutes=1))
    hold(store, "d", lease=timedelta(minutes=5))
    assert store.counts(SCOPE).next_due == now + timedelta(minutes=5)
    clock.advance(minutes=20)
    assert (store.counts(SCOPE).later, store.counts(SCOPE).next_due) == (0, now + 3 * LEASE)
    hold_as_human(store, "c")
    clock.advance(hours=9)
    assert store.counts(SCOPE).next_due is None


def test_counts_do_not_call_a_lease_without_retries_claimable(store: Store, clock: Clock) -> None:
    add(store, draft("a", max_retries=0))
    hold(store, "a")
    clock.advance(hours=1)
    assert store.counts(SCOPE).claimable == len(store.peek(request("ann"), 10)) == 0


def test_a_store_describes_itself(store: Store) -> None:
    told = store.describe()
    assert told["kind"]
    assert told["place"]
