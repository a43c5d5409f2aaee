"""Reading tasks: single tasks, lists, counts and pages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import NotFound
from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Edit, Status, order_key
from dibs.desk import Desk
from dibs.stores.port import Query

from .builders import (
    LEASE,
    SCOPE,
    UNFINISHED,
    add,
    amend,
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
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.task import Task
    from dibs.stores.port import Store
    from dibs.testing import Clock


def found(store: Store, query: Query) -> list[str]:
    return [task.id for task in store.find(query)]


IN_TEXTS = {
    "letter": ["a", "b", "c"],
    "LETTER": ["a", "b", "c"],
    "tter t": ["b"],
    "50%": ["d"],
    "_": [],
    "ünd": ["e"],
    "nowhere": [],
}


def counted(store: Store, scope: str | None = SCOPE) -> dict[str, int]:
    counts = store.counts(scope)
    shown = {status.value: number for status, number in counts.by_status.items() if number}
    return shown | {"waiting": counts.waiting, "claimable": counts.claimable, "expired": counts.expired}


class LookingTests(Suite):
    """Looking changes nothing: get, match, find, peek, links, graph, counts, scopes."""

    @needs("links")
    def test_looking_leaves_no_trace(self, store: Store, clock: Clock) -> None:
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

    @needs("scopes")
    def test_get_knows_exactly_one_task(self, store: Store) -> None:
        add(store, "abc")
        add(store, "x", scope="elsewhere")
        assert get(store, "abc").id == "abc"
        for unknown in ("ab", "abcd", "ABC", "x", ""):
            with pytest.raises(NotFound):
                get(store, unknown)

    @needs("scopes")
    def test_match_lists_ids_by_their_beginning_in_order(self, store: Store) -> None:
        add(store, "ab", "abc", "abd", "b", "Ab")
        add(store, "abz", scope="elsewhere")
        assert store.match(SCOPE, "ab", 10) == ["ab", "abc", "abd"]
        assert store.match(SCOPE, "abc", 10) == ["abc"]
        assert store.match(SCOPE, "c", 10) == []

    def test_match_stops_at_the_limit_with_the_shortest_first(self, store: Store) -> None:
        add(store, "abc", "abd", "ab")
        assert store.match(SCOPE, "ab", 2) == ["ab", "abc"]

    @pytest.mark.parametrize("prefix", ["a%", "a_", "a*", "a?", "a["])
    def test_match_takes_pattern_characters_literally(self, store: Store, prefix: str) -> None:
        add(store, "abc", f"{prefix}c")
        assert store.match(SCOPE, prefix, 10) == [f"{prefix}c"]

    @needs("scopes")
    def test_find_without_conditions_lists_everything_everywhere(self, store: Store) -> None:
        add(store, "a", "b")
        add(store, "c", scope="elsewhere")
        finish(store, "a")
        assert sorted(found(store, Query())) == ["a", "b", "c"]
        assert sorted(found(store, Query(SCOPE))) == ["a", "b"]
        assert found(store, Query("nowhere")) == []

    def test_find_by_status_lists_that_status_only(self, store: Store) -> None:
        for status in Status:
            bring(store, status.value, status)
        for status in Status:
            assert found(store, Query(SCOPE, statuses=(status,))) == [status.value]

    def test_find_by_several_statuses_lists_all_of_them_in_claim_order(self, store: Store) -> None:
        for number, status in enumerate(Status):
            bring(store, f"{number}", status)
        assert found(store, Query(SCOPE, statuses=UNFINISHED)) == [f"{number}" for number in range(7)]
        assert found(store, Query(SCOPE, statuses=())) == []

    @pytest.mark.parametrize("field", ["assigned_to", "parent"], ids=lambda field: f"by {field}")
    def test_find_by_an_attribute_takes_equal_values_only(self, store: Store, field: str) -> None:
        add(store, "one", "two", "ONE")
        add(store, draft("a", **{field: "one"}), draft("b", **{field: "two"}), draft("c", **{field: "ONE"}), draft("d"))
        assert found(store, Query(SCOPE, **{field: "one"})) == ["a"]  # type: ignore[arg-type]

    def test_find_by_agent_lists_its_held_tasks(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        hold(store, "a", "ann")
        hold(store, "b", "bob")
        move(store, Verb.RELEASE, "c", hold(store, "c", "ann"))
        hold_as_human(store, "d", "ann")
        assert found(store, Query(SCOPE, agent="ann")) == ["a", "d"]

    def test_find_by_text_looks_into_title_and_description_in_any_case(self, store: Store) -> None:
        add(
            store,
            Draft("Write a letter", id="a"),
            Draft("Letter to Bob", id="b"),
            Draft("Post", id="c", description="the Letter"),
            Draft("Save 50% now", id="d"),
            Draft("gegründet", id="e"),
        )
        assert {text: found(store, Query(SCOPE, text=text)) for text in IN_TEXTS} == IN_TEXTS

    def test_find_conditions_are_all_required(self, store: Store) -> None:
        add(store, draft("a", category="x", assigned_to="ann"), draft("b", category="x"), draft("c", assigned_to="ann"))
        assert found(store, Query(SCOPE, only=Filter(category="x"), assigned_to="ann")) == ["a"]

    def test_find_stops_at_the_limit_with_the_first_in_order(self, store: Store) -> None:
        add(store, draft("a", priority=3), draft("b", priority=1), draft("c", priority=2))
        assert found(store, Query(SCOPE, limit=2)) == ["b", "c"]
        assert found(store, Query(SCOPE, limit=0)) == []

    @needs("links")
    def test_peek_lists_the_tasks_that_a_claim_would_get(self, store: Store) -> None:
        add(store, "a", "b", draft("c", priority=1), draft("d", assigned_to="bob"), links=[blocks("b", "a")])
        assert peek_ids(store, "ann") == ["c", "a"]
        assert peek_ids(store, "bob") == ["c", "a", "d"]
        assert peek_ids(store, "ann", limit=1) == ["c"]
        assert peek_ids(store, "ann", limit=0) == []

    @needs("exact leases")
    def test_peek_shows_expired_leases_before_anyone_has_claimed_again(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", priority=1), "b")
        hold(store, "a")
        assert peek_ids(store) == ["b"]
        clock.advance(minutes=20)
        assert peek_ids(store) == ["a", "b"]

    @needs("scopes")
    def test_peek_shows_expired_leases_also_after_someone_has_claimed(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", priority=1), draft("b", priority=9))
        hold(store, "a")
        clock.advance(minutes=20)
        claim(store, "bob", scope="elsewhere")
        assert peek_ids(store) == ["a", "b"]

    def test_peek_lists_tasks_that_have_become_due(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + LEASE), draft("b", not_before=store.now() + 3 * LEASE))
        assert peek_ids(store) == []
        clock.advance(minutes=20)
        assert peek_ids(store) == ["a"]

    def test_peek_hides_an_expired_lease_without_retries_left(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        assert peek_ids(store) == []

    @needs("links")
    def test_peek_lists_only_due_tasks_that_the_agent_may_claim(self, store: Store, clock: Clock) -> None:
        due = store.now() + LEASE
        add(store, "first", draft("a", assigned_to="bob"), draft("b", requires=("x",)), not_before=due)
        add(store, draft("c", not_before=due), links=[blocks("c", "first")])
        clock.advance(hours=1)
        assert peek_ids(store, "ann") == ["first"]
        assert peek_ids(store, "bob") == ["a", "first"]
        assert peek_ids(store, "ann", can=frozenset({"x"})) == ["b", "first"]
        assert peek_ids(store, "ann", unable=True) == ["b", "first"]

    def test_peek_lists_claimable_tasks_of_any_capability(self, store: Store) -> None:
        add(
            store,
            draft("a", requires=("x", "y")),
            draft("b"),
            draft("c", requires=("x",)),
            draft("d", assigned_to="bob"),
        )
        assert peek_ids(store, "ann") == ["b"]
        assert peek_ids(store, "ann", unable=True) == ["a", "b", "c"]
        assert peek_ids(store, "ann", unable=True, limit=1) == ["a"]

    @needs("fleet")
    def test_peek_lists_assigned_tasks_of_any_capability(self, store: Store) -> None:
        add(store, draft("a", requires=("x",), assigned_to="ann"), draft("b", assigned_to="ann"), "c")
        assert peek_ids(store, "ann", assigned=True) == ["b"]
        assert peek_ids(store, "ann", assigned=True, unable=True) == ["a", "b"]

    @needs("scopes")
    def test_peek_across_scopes_merges_them_into_one_order(self, store: Store) -> None:
        add(store, draft("a", priority=2), draft("c", priority=4))
        add(store, draft("b", priority=3), scope="elsewhere")
        assert peek_ids(store, scope=None) == ["a", "b", "c"]
        assert peek_ids(store, scope=None, limit=2) == ["a", "b"]
        assert peek_ids(store, scope="elsewhere") == ["b"]

    @needs("links")
    def test_links_lists_both_directions_and_only_this_task(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        links = [blocks("b", "a"), feeds("c", "b"), parallel("d", "b"), blocks("d", "c")]
        link(store, *links)
        assert store.links(SCOPE, "b") == links[:3]
        with pytest.raises(NotFound):
            store.links(SCOPE, "nowhere")

    @needs("links")
    def test_links_keep_their_fields(self, store: Store) -> None:
        add(store, "a", "b")
        stated = feeds("b", "a")._replace(weight=0.25, detected_by="semantic", confidence=0.75)
        link(store, stated)
        assert store.links(SCOPE, "b") == [stated]

    @needs("links")
    def test_the_graph_holds_one_scopes_tasks_and_links(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), feeds("c", "b")])
        add(store, "x", "y", scope="elsewhere", links=[blocks("x", "y")])
        graph = store.graph(SCOPE, finished=True)
        assert [task.id for task in graph.tasks] == ["a", "b", "c"]
        assert list(graph.links) == [blocks("b", "a"), feeds("c", "b")]

    @needs("links")
    def test_the_graph_can_leave_finished_tasks_out_with_their_links(self, store: Store) -> None:
        add(store, "a", "b", "c", "d", links=[blocks("b", "a"), blocks("c", "b"), blocks("c", "d")])
        finish(store, "a")
        move(store, Verb.CANCEL, "d")
        move(store, Verb.UNBLOCK, "c")
        graph = store.graph(SCOPE, finished=False)
        assert [task.id for task in graph.tasks] == ["b", "c"]
        assert list(graph.links) == [blocks("c", "b")]

    @needs("scopes")
    def test_scopes_are_those_that_have_tasks(self, store: Store) -> None:
        assert store.scopes() == []
        add(store, "a", scope="work")
        add(store, "a", "b", scope="home")
        claim(store, scope="nowhere")
        assert store.scopes() == ["home", "work"]

    def test_counts_of_an_empty_store_are_zero(self, store: Store) -> None:
        assert counted(store) == counted(store, None) == {"waiting": 0, "claimable": 0, "expired": 0}

    def test_counts_by_status_count_each_task_once(self, store: Store) -> None:
        for number, status in enumerate(Status):
            for copy in range(number + 1):
                bring(store, f"{status}-{copy}", status)
        by_status = store.counts(SCOPE).by_status
        assert dict(by_status) == {status: number + 1 for number, status in enumerate(Status)}

    @needs("links")
    def test_counts_are_of_one_scope_or_of_all(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        add(store, "c", scope="elsewhere")
        assert counted(store) == {"ready": 2, "waiting": 1, "claimable": 1, "expired": 0}
        assert counted(store, "elsewhere") == {"ready": 1, "waiting": 0, "claimable": 1, "expired": 0}
        assert counted(store, None) == {"ready": 3, "waiting": 1, "claimable": 2, "expired": 0}

    @needs("scopes")
    @pytest.mark.parametrize("woken", [False, True])
    def test_counts_see_expired_leases_whether_or_not_someone_has_claimed_since(
        self, store: Store, clock: Clock, woken: bool
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

    @needs("scopes")
    @pytest.mark.parametrize("woken", [False, True])
    def test_counts_see_tasks_as_they_become_due(self, store: Store, clock: Clock, woken: bool) -> None:
        add(store, draft("a", not_before=store.now() + LEASE))
        assert counted(store) == {"ready": 1, "waiting": 0, "claimable": 0, "expired": 0}
        clock.advance(minutes=20)
        if woken:
            claim(store, scope="elsewhere")
        assert counted(store) == {"ready": 1, "waiting": 0, "claimable": 1, "expired": 0}

    @needs("scopes")
    def test_counts_include_later_tasks_and_the_next_due_time(self, store: Store, clock: Clock) -> None:
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

    def test_counts_do_not_call_a_lease_without_retries_claimable(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        assert store.counts(SCOPE).claimable == len(store.peek(request("ann"), 10)) == 0

    def test_a_store_describes_itself(self, store: Store) -> None:
        told = store.describe()
        assert told["kind"]
        assert told["place"]


def nothing(_shown: Sequence[Task]) -> None:
    """All pages, without writes between them."""


def paged(store: Store, query: Query, size: int, between: Callable[[Sequence[Task]], None] = nothing) -> list[str]:
    """All pages of so many tasks, one after the other, each from where the last one ended."""
    shown: list[Task] = []
    while page := store.find(query._replace(limit=size, after=order_key(shown[-1]) if shown else None)):
        assert len(page) <= size
        shown += page
        between(shown)
    return [task.id for task in shown]


def whole(store: Store, query: Query) -> list[str]:
    return [task.id for task in store.find(query)]


def one_of_each_kind(store: Store) -> None:
    """Tasks of every status, of several priorities, and not yet due."""
    for status in Status:
        bring(store, f"{status}-a", status)
    add(store, draft("first", priority=1), draft("last", priority=9), draft("same"), draft("again"))
    add(store, draft("early", not_before=store.now() + timedelta(hours=9), priority=1))
    hold(store, "last")


class PagesTests(Suite):
    """In a listing by page, unchanged tasks appear once, even while others change."""

    def test_pages_together_are_the_whole_listing(self, store: Store) -> None:
        one_of_each_kind(store)
        for statuses in (tuple(Status), UNFINISHED, (Status.DONE, Status.CANCELED), (Status.READY,), (Status.ACTIVE,)):
            query = Query(SCOPE, statuses)
            together = whole(store, query)
            for size in (2, len(together), 100):
                assert paged(store, query, size) == together, (statuses, size)

    @needs("links")
    @pytest.mark.parametrize("woken", [False, True])
    def test_waiting_and_expired_tasks_keep_their_place_on_a_page(
        self, store: Store, clock: Clock, woken: bool
    ) -> None:
        add(store, draft("a", max_retries=0), "b", "c", "d", "e", "f", links=[blocks("c", "f"), blocks("d", "c")])
        hold(store, "a")
        hold(store, "b")
        clock.advance(hours=1)
        if woken:
            claim(store, scope="elsewhere")
        finish(store, "f")
        expected = [task for task in "abcdef" if store.get(SCOPE, task).status is not Status.DONE]
        assert paged(store, Query(SCOPE, UNFINISHED), 2) == expected

    def test_unmoved_task_is_listed_once_while_others_change(self, store: Store) -> None:
        stay = [f"s{number}" for number in range(4)]
        add(store, "goes", stay[0], "moves", stay[1], "claimed", stay[2], stay[3], "finished")
        done: list[int] = []

        def between(shown: Sequence[Task]) -> None:
            turn = len(done)
            done.append(len(shown))
            if turn == 0:
                move(store, Verb.CANCEL, "goes")
                add(store, draft("ahead", priority=0), draft("behind", priority=9))
                store.amend(SCOPE, "moves", Edit(priority=8), Actor())
            if turn == 1:
                hold(store, "claimed")
                finish(store, "finished")

        shown = paged(store, Query(SCOPE, UNFINISHED), 2, between)
        assert [task for task in shown if task in stay] == stay
        assert "behind" in shown
        assert "ahead" not in shown
        assert shown.count("claimed") == 1

    def test_page_may_begin_after_a_finished_or_unknown_task(self, store: Store) -> None:
        add(store, "a", "b", "c")
        rank, behind, priority, queued_at, _, scope = order_key(store.get(SCOPE, "b"))
        move(store, Verb.CANCEL, "b")
        assert whole(store, Query(SCOPE, UNFINISHED, after=(rank, behind, priority, queued_at, "b", scope))) == ["c"]
        assert whole(store, Query(SCOPE, after=(rank, behind, 1000.0, queued_at, "", ""))) == []

    @pytest.mark.parametrize(
        "narrow",
        [{"assigned_to": "ann"}, {"parent": "p"}, {"text": "wanted"}, {"category": "x"}, {"spec_ref": "x"}],
        ids=lambda narrow: next(iter(narrow)),
    )
    def test_pages_of_a_filtered_listing_have_only_matches(self, store: Store, narrow: dict[str, Any]) -> None:
        fields = {"title": "Wanted"} if "text" in narrow else narrow
        add(store, "p")
        for number in range(5):
            add(store, draft(f"fits-{number}", **fields), f"not-{number}")
        asked = {"only": Filter(**narrow)} if narrow.keys() <= set(Filter._fields) else narrow
        assert paged(store, Query(SCOPE, **asked), 2) == [f"fits-{number}" for number in range(5)]

    def test_tasks_of_a_holder_are_listed_by_page(self, store: Store) -> None:
        add(store, *"abcde")
        for task in "abce":
            hold(store, task, "bob" if task == "b" else "ann")
        assert paged(store, Query(SCOPE, agent="ann"), 2) == ["a", "c", "e"]

    @needs("scopes")
    def test_pages_of_all_scopes_do_not_confuse_tasks_of_the_same_name(self, store: Store) -> None:
        for scope in ("one", "two", "three"):
            add(store, "a", "b", scope=scope)
        everything = [(task.scope, task.id) for task in store.find(Query())]
        shown: list[Task] = []
        while page := store.find(Query(limit=1, after=order_key(shown[-1]) if shown else None)):
            shown += page
        assert [(task.scope, task.id) for task in shown] == everything
        assert len(set(everything)) == 6

    @needs("transactions")
    def test_internal_scopes_are_in_no_listing_or_count_of_all(self, store: Store) -> None:
        add(store, "a")
        for scope in (".inbox.mira", ".outbox.mira", ".mail.ann"):
            add(store, "message", scope=scope)
        assert whole(store, Query()) == ["a"]
        assert store.counts(None) == store.counts(SCOPE)
        assert whole(store, Query(".inbox.mira")) == ["message"]
        assert store.counts(".mail.ann").by_status[Status.READY] == 1

    @needs("scopes")
    def test_scopes_of_users_are_in_every_listing(self, store: Store) -> None:
        for scope in ("mail.team", "inbox.x"):
            add(store, "a", scope=scope)
        assert {task.scope for task in store.find(Query())} == {"mail.team", "inbox.x"}
        assert store.counts(None).by_status[Status.READY] == 2

    # Search

    def test_search_matches_beginnings_of_words_in_every_text(self, store: Store) -> None:
        add(
            store,
            draft("a", title="Write the Parser"),
            draft("b", title="Manual", description="What the parsers accept"),
            draft("c", title="Über alles"),
            draft("d", title="Pars%er_x"),
        )
        desk = Desk(store, scope=SCOPE, by=Actor("ann"))
        assert [hit.task.id for hit in desk.search("PARSER")] == ["a", "b"]
        assert [hit.task.id for hit in desk.search("pars the")] == ["a", "b"]
        assert [hit.task.id for hit in desk.search("über")] == ["c"]
        assert [hit.task.id for hit in desk.search("er_x")] == ["d"]
        assert desk.search("arser") == []
        assert [hit.task.id for hit in desk.search("pars", limit=1)] == ["d"]
        finish(store, "a")
        assert [hit.task.id for hit in desk.search("parser", finished=False)] == ["b"]
        amend(store, "b", Edit(description="Something else"))
        assert [hit.task.id for hit in desk.search("parser")] == ["a"]

    @needs("history")
    def test_search_reads_comments_too(self, store: Store) -> None:
        add(store, "a", "b")
        desk = Desk(store, scope=SCOPE, by=Actor("ann"))
        desk.comment("b", "Mind the lexer")
        desk.comment("b", "and the grammar")
        (hit,) = desk.search("lexer grammar")
        assert (hit.task.id, hit.where) == ("b", ("notes",))

    @needs("scopes")
    def test_search_stays_within_its_scope(self, store: Store) -> None:
        add(store, draft("a", title="parser"))
        add(store, draft("a", title="parser too"), scope="other")
        assert [hit.task.title for hit in Desk(store, scope=SCOPE).search("parser")] == ["parser"]
