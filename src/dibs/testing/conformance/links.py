"""Links between tasks, and the graph of a scope."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import CycleDetected, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Link, LinkKind, Status

from .builders import (
    SCOPE,
    add,
    amend,
    blockers,
    blocks,
    bring,
    chain,
    claim,
    draft,
    events,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    last_seq,
    link,
    links_of,
    move,
    no_trace,
    only,
    parallel,
    peek_ids,
    request,
    unlink,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.stores.port import Store
    from dibs.testing import Clock


STRENGTH = {LinkKind.PARALLEL_OK: 1, LinkKind.FEEDS_INTO: 2, LinkKind.BLOCKS: 3}


# Cycles
def is_cycle(store: Store, path: Sequence[str], closing: tuple[str, str]) -> bool:
    """Every step of the path is an edge that is there, or the one that was asked for."""
    edges = {
        (task, on) for task, befores in store.graph(SCOPE, finished=True).prerequisites().items() for on in befores
    }
    steps = set(pairwise(path))
    return path[0] == path[-1] and closing in steps and steps <= edges | {closing} and len(set(path)) == len(path) - 1


def edge(kind: str, task: str, on: str) -> Callable[[Store], object]:
    """Make `task` come after `on`, by a link or as its parent."""
    if kind == "parent":
        return lambda store: amend(store, on, Edit(parent=task))
    return lambda store: link(store, Link(task, on, LinkKind(kind)))


ORDERING = ("blocks", "feeds_into", "parent")


@needs("links")
class LinksTests(Suite):
    """Links: one per pair, the strongest kind wins, the count of blockers stays true, and never a cycle."""

    @pytest.mark.parametrize(("old", "new"), list(product(LinkKind, LinkKind)))
    def test_a_pair_has_one_link_and_the_stronger_kind_wins(self, store: Store, old: LinkKind, new: LinkKind) -> None:
        add(store, "a", "b")
        first = Link("b", "a", old, 0.5, "semantic", 0.25)
        second = Link("b", "a", new, 0.75, "explicit", 1.0)
        assert link(store, first) == [first]
        stronger = STRENGTH[new] > STRENGTH[old]
        start = last_seq(store)
        assert link(store, second) == ([second] if stronger else [])
        assert store.links(SCOPE, "a") == [second if stronger else first]
        assert len(events(store, after=start)) == int(stronger)
        assert blockers(store) == {"a": 0, "b": int(LinkKind.BLOCKS in {old, new})}

    def test_a_link_that_changes_nothing_leaves_no_trace(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        with no_trace(store):
            assert link(store, blocks("b", "a"), feeds("b", "a"), parallel("b", "a")) == []

    def test_links_of_one_call_are_judged_in_order(self, store: Store) -> None:
        add(store, "a", "b", "c")
        given = [parallel("b", "a"), blocks("b", "a"), feeds("b", "a"), feeds("c", "a")]
        assert link(store, *given) == [given[0], given[1], given[3]]
        assert blockers(store) == {"a": 0, "b": 1, "c": 0}

    def test_opposite_links_are_two_links_where_none_of_them_orders(self, store: Store) -> None:
        add(store, "a", "b")
        link(store, parallel("b", "a"), parallel("a", "b"))
        assert len(store.links(SCOPE, "a")) == 2

    def test_a_link_gates_at_once(self, store: Store) -> None:
        add(store, "a", "b")
        link(store, blocks("b", "a"))
        assert peek_ids(store) == ["a"]
        assert get(store, "b").updated_at == get(store, "b").created_at

    @pytest.mark.parametrize("status", Status)
    def test_only_an_unfinished_prerequisite_counts(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        add(store, "b")
        link(store, blocks("b", "a"))
        unfinished = status not in {Status.DONE, Status.CANCELED}
        assert get(store, "b").blockers == int(unfinished)
        assert ("b" in peek_ids(store)) is not unfinished
        unlink(store, blocks("b", "a"))
        assert get(store, "b").blockers == 0
        assert "b" in peek_ids(store)

    def test_a_finished_task_may_be_linked_and_unlinked_too(self, store: Store) -> None:
        add(store, "a", "b")
        finish(store, "b")
        link(store, blocks("b", "a"))
        assert blockers(store)["b"] == 1
        unlink(store, blocks("b", "a"))
        assert blockers(store)["b"] == 0
        assert claim(store, scope=None, count=9)[0].task.id == "a"

    def test_unlinking_sets_free_when_it_was_the_last_blocker(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("c", "a"), blocks("c", "b")])
        unlink(store, blocks("c", "a"))
        assert (blockers(store)["c"], peek_ids(store)) == (1, ["a", "b"])
        unlink(store, blocks("c", "b"))
        assert (blockers(store)["c"], peek_ids(store)) == (0, ["a", "b", "c"])

    def test_unlinking_does_not_make_a_backlog_task_ready(self, store: Store, clock: Clock) -> None:
        for status in (Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.ACTIVE):
            bring(store, status.value, status)
        add(store, "a", draft("early", not_before=store.now().replace(year=2100)))
        hold(store, "a")
        tasks = [status.value for status in (Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW)]
        tasks += ["escalated", "active", "early"]
        link(store, *(blocks(task, "a") for task in tasks))
        unlink(store, *(blocks(task, "a") for task in tasks))
        assert claim(store, count=9) == []
        clock.advance(minutes=20)
        assert sorted(peek_ids(store)) == ["a", "active"]

    def test_unlinking_gives_back_the_links_as_they_were(self, store: Store) -> None:
        add(store, "a", "b", "c")
        stated = Link("b", "a", LinkKind.FEEDS_INTO, 0.5, "semantic", 0.25)
        link(store, stated, blocks("c", "a"))
        assert unlink(store, blocks("c", "a"), feeds("b", "a")) == [blocks("c", "a"), stated]
        assert store.links(SCOPE, "a") == []

    def test_unlinking_takes_the_link_of_that_direction_only(self, store: Store) -> None:
        add(store, "a", "b", links=[parallel("a", "b"), parallel("b", "a")])
        unlink(store, parallel("a", "b"))
        assert links_of(store, "a") == {("b", "a", LinkKind.PARALLEL_OK)}

    @pytest.mark.parametrize(
        "asked",
        [blocks("a", "b"), blocks("c", "a"), blocks("a", "nowhere"), blocks("nowhere", "a"), feeds("b", "a")],
        ids=lambda asked: f"{asked.task}-{asked.kind}-{asked.on}",
    )
    def test_unlinking_an_unknown_link_removes_nothing(self, store: Store, asked: Link) -> None:
        add(store, "a", "b", "c", "d", links=[blocks("b", "a"), blocks("d", "a")])
        with no_trace(store), pytest.raises(NotFound):
            unlink(store, blocks("d", "a"), asked)

    @pytest.mark.parametrize("ends", [("a", "nowhere"), ("nowhere", "a"), ("a", "elsewhere's")])
    @pytest.mark.parametrize("kind", LinkKind)
    def test_a_link_has_two_known_ends_in_one_scope(self, store: Store, ends: tuple[str, str], kind: LinkKind) -> None:
        add(store, "a", "b")
        add(store, "elsewhere's", scope="elsewhere")
        with no_trace(store), pytest.raises(NotFound):
            link(store, blocks("b", "a"), Link(*ends, kind))

    @pytest.mark.parametrize("kind", [LinkKind.BLOCKS, LinkKind.FEEDS_INTO])
    def test_a_task_does_not_wait_for_itself(self, store: Store, kind: LinkKind) -> None:
        add(store, "a")
        with no_trace(store), pytest.raises(CycleDetected) as refused:
            link(store, Link("a", "a", kind))
        assert refused.value.path == ("a", "a")

    def test_links_record_their_author(self, store: Store) -> None:
        add(store, "a", "b")
        store.link(SCOPE, [Link("b", "a", LinkKind.BLOCKS, detected_by="semantic")], Actor("zoe", "r"))
        made = only(events(store, "b")[1:])
        assert (made.verb, made.agent, made.run) == ("link", "zoe", "r")
        assert made.detail == {"on": "a", "kind": "blocks", "detected_by": "semantic"}
        store.unlink(SCOPE, [blocks("b", "a")], Actor("yan"))
        gone = events(store, "b")[-1]
        assert (gone.verb, gone.agent, gone.run, gone.detail) == ("unlink", "yan", None, {"on": "a", "kind": "blocks"})

    @pytest.mark.parametrize("kind", ORDERING)
    def test_two_tasks_never_wait_for_each_other(self, store: Store, kind: str) -> None:
        add(store, "a", "b")
        edge(kind, "b", "a")(store)
        with no_trace(store):
            for closing in ORDERING:
                with pytest.raises(CycleDetected) as refused:
                    edge(closing, "a", "b")(store)
                assert is_cycle(store, refused.value.path, ("a", "b"))

    @pytest.mark.parametrize("kinds", list(product(ORDERING, ORDERING)), ids="-".join)
    def test_three_tasks_never_wait_for_each_other(self, store: Store, kinds: tuple[str, str]) -> None:
        add(store, "a", "b", "c")
        edge(kinds[0], "b", "a")(store)
        edge(kinds[1], "c", "b")(store)
        with no_trace(store):
            for closing in ORDERING:
                with pytest.raises(CycleDetected) as refused:
                    edge(closing, "a", "c")(store)
                assert is_cycle(store, refused.value.path, ("a", "c"))

    @pytest.mark.parametrize("length", [4, 50])
    @pytest.mark.parametrize("missing", [0, 1, -1])
    def test_last_link_of_a_longer_cycle_is_refused(self, store: Store, length: int, missing: int) -> None:
        ids = [f"t{number:02}" for number in range(length)]
        add(store, *ids)
        edges = [(task, on, ORDERING[number % 3]) for number, (on, task) in enumerate(pairwise([*ids, ids[0]]))]
        closing = edges.pop(missing)
        for task, on, kind in edges:
            edge(kind, task, on)(store)
        with no_trace(store), pytest.raises(CycleDetected) as refused:
            edge(closing[2], closing[0], closing[1])(store)
        assert len(refused.value.path) == length + 1
        assert is_cycle(store, refused.value.path, closing[:2])

    def test_a_cycle_is_named_by_a_real_way_round_among_many(self, store: Store) -> None:
        ids = [f"{layer}{place}" for layer in "abcd" for place in range(4)]
        add(store, *ids)
        for here, there in pairwise("abcd"):
            link(store, *(blocks(f"{there}{i}", f"{here}{j}") for i in range(4) for j in range(4) if (i + j) % 2))
        with no_trace(store), pytest.raises(CycleDetected) as refused:
            link(store, feeds("a0", "d1"))
        assert is_cycle(store, refused.value.path, ("a0", "d1"))
        assert all(task in str(refused.value) for task in refused.value.path)

    def test_link_without_a_cycle_is_accepted_in_any_graph(self, store: Store) -> None:
        ids = [f"t{number:02}" for number in range(20)]
        add(store, *ids)
        for late in range(1, 20):
            link(store, *(blocks(ids[late], ids[early]) for early in range(late) if (late + early) % 3 != 0))
        link(store, *(blocks(ids[late], ids[early]) for late in range(20) for early in range(late)))
        assert blockers(store) == {task: number for number, task in enumerate(ids)}

    @pytest.mark.parametrize("kind", ORDERING)
    def test_independence_takes_no_part_in_cycles(self, store: Store, kind: str) -> None:
        add(store, "a", "b", "c", links=[parallel("a", "b"), parallel("b", "c"), parallel("c", "a")])
        edge(kind, "b", "a")(store)
        edge(kind, "c", "b")(store)
        link(store, parallel("a", "b"), parallel("a", "c"))
        with pytest.raises(CycleDetected):
            link(store, feeds("a", "c"))

    def test_independence_may_not_be_strengthened_into_a_cycle(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a"), parallel("a", "b")])
        with no_trace(store), pytest.raises(CycleDetected):
            link(store, feeds("a", "b"))

    def test_a_link_may_be_strengthened_in_place(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[feeds("b", "a"), feeds("c", "b")])
        link(store, blocks("b", "a"), blocks("c", "b"))
        assert blockers(store) == {"a": 0, "b": 1, "c": 1}

    def test_after_unlinking_the_order_may_be_turned_around(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        unlink(store, blocks("b", "a"))
        link(store, blocks("a", "b"))
        assert blockers(store) == {"a": 1, "b": 0}

    def test_finished_tasks_are_part_of_cycles_too(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        finish(store, "a", "b")
        with no_trace(store), pytest.raises(CycleDetected):
            link(store, feeds("a", "b"))

    def test_one_cycle_refuses_all_the_links_of_a_call(self, store: Store) -> None:
        add(store, "a", "b", "c")
        with no_trace(store), pytest.raises(CycleDetected):
            link(store, blocks("b", "a"), blocks("c", "b"), blocks("a", "c"))

    def test_siblings_may_wait_for_each_other_but_not_for_their_parent(self, store: Store) -> None:
        add(store, "p", draft("x", parent="p"), draft("y", parent="p"), links=[blocks("y", "x")])
        with no_trace(store), pytest.raises(CycleDetected):
            link(store, feeds("x", "p"))
        link(store, blocks("p", "x"))
        assert blockers(store) == {"p": 1, "x": 0, "y": 1}

    def test_a_namesake_in_another_scope_closes_no_cycle(self, store: Store) -> None:
        add(store, "a", "x", draft("y", parent="x"))
        add(store, "a", draft("x", parent="a"), scope="elsewhere")
        link(store, blocks("y", "a"))
        link(store, blocks("a", "x"), scope="elsewhere")
        assert blockers(store) == {"a": 0, "x": 0, "y": 1}

    def test_a_long_chain_grows_at_both_ends_and_never_closes(self, store: Store) -> None:
        ids = [f"t{number:04}" for number in range(500)]
        add(store, *ids, links=chain(ids))
        add(store, "first", "last", links=[blocks(ids[0], "first"), blocks("last", ids[-1])])
        with no_trace(store), pytest.raises(CycleDetected) as refused:
            link(store, blocks("first", "last"))
        assert len(refused.value.path) == 503

    def test_a_task_that_is_moved_keeps_its_count(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        for verb in (
            Verb.BLOCK,
            Verb.UNBLOCK,
            Verb.PAUSE,
            Verb.RESUME,
            Verb.SHELVE,
            Verb.QUEUE,
            Verb.CANCEL,
            Verb.REOPEN,
        ):
            assert move(store, verb, "b").task.blockers == 1
            assert blockers(store) == {"a": 0, "b": 1}
        assert peek_ids(store) == ["a"]


def landscape(store: Store, agent: str = "ann", *, limit: int = 100, scope: str | None = SCOPE) -> list[str]:
    return [task.id for task in store.peek(request(agent, scope=scope), limit, held=True)]


class GraphTests(Suite):
    """Claimable and held tasks in one consistent listing, and the links of several tasks."""

    def test_held_tasks_follow_claimable_ones(self, store: Store) -> None:
        add(store, *"abcd", priority=2)
        add(store, "z", priority=0)
        hold(store, "z", "bob")
        hold(store, "b", "ann")
        assert landscape(store) == ["a", "c", "d", "z", "b"]

    def test_limit_counts_only_claimable_tasks(self, store: Store) -> None:
        add(store, *"abcde")
        for task in "abc":
            hold(store, task, "bob")
        assert landscape(store, limit=1) == ["d", "a", "b", "c"]

    def test_an_abandoned_task_can_be_claimed_and_is_not_held(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        hold(store, "a", "bob")
        clock.advance(minutes=30)
        hold(store, "b", "bob")
        assert landscape(store) == ["a", "b"]

    @needs("links")
    def test_an_abandoned_task_that_is_blocked_is_in_neither_list(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        hold(store, "a", "bob")
        link(store, blocks("a", "b"))
        clock.advance(minutes=30)
        assert landscape(store) == ["b"]

    def test_human_hold_is_listed_without_a_time_limit(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold_as_human(store, "a")
        clock.advance(days=365)
        assert landscape(store) == ["a"]

    @needs("links")
    def test_waiting_paused_and_finished_tasks_are_left_out(self, store: Store) -> None:
        add(store, "waiting", "done", "paused", "ready")
        link(store, blocks("waiting", "ready"))
        move(store, Verb.DONE, "done", hold(store, "done"))
        move(store, Verb.PAUSE, "paused")
        assert landscape(store) == ["ready"]

    def test_tasks_held_by_others_are_listed(self, store: Store) -> None:
        add(store, "a", assigned_to="bob")
        add(store, "b", assigned_to="bob")
        hold(store, "a", "bob")
        assert landscape(store, "ann") == ["a"]

    @needs("scopes")
    def test_it_is_of_one_scope_or_of_all(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", scope="away")
        hold(store, "b", scope="away")
        assert landscape(store) == ["a"]
        assert landscape(store, scope=None) == ["a", "b"]

    def test_held_tasks_are_left_out_by_default(self, store: Store) -> None:
        add(store, "a", "b")
        hold(store, "a")
        assert [task.id for task in store.peek(request(), 9)] == ["b"]

    @needs("links")
    def test_links_of_several_tasks_come_each_once_and_in_order(self, store: Store) -> None:
        add(store, *"abcde")
        made = [blocks("b", "a"), feeds("c", "b"), parallel("a", "d"), blocks("e", "d")]
        link(store, *made)
        assert store.links(SCOPE, "a", "b", "c") == sorted(made[:3])
        assert store.links(SCOPE, "e", "c") == sorted([made[1], made[3]])
        assert store.links(SCOPE, "c", "e", "c") == sorted([made[1], made[3]])

    @needs("links")
    def test_links_of_no_tasks_are_none(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        assert store.links(SCOPE) == []

    def test_one_unknown_task_among_several_is_not_found(self, store: Store) -> None:
        add(store, "a")
        with pytest.raises(NotFound) as refused:
            store.links(SCOPE, "a", "nowhere")
        assert "nowhere" in refused.value.message
