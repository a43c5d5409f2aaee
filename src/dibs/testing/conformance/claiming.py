"""Claiming tasks, and the order in which they are claimed."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import Held, IllegalMove, NotForYou, NotFound, Waiting
from dibs.core.fields import Filter
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Draft, Edit, Holder, Input, Lease, ServiceClass, Status, Task, order_key
from dibs.stores.port import Query

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    amend,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    events,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    keeps_history,
    link,
    move,
    no_trace,
    nothing_changes,
    only,
    parallel,
    peek_ids,
    request,
    verbs,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from dibs.stores.port import Store
    from dibs.testing import Clock

    from .suite import Harness


IDLE = (Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED)


class ClaimingTests(Suite):
    """Claiming: the next that fits, exactly the named ones, or the reason why not."""

    @needs("exact leases")
    def test_a_claim_leases_the_task_and_starts_an_attempt(self, store: Store) -> None:
        (before,) = add(store, "a")
        asked = request("ann", run="run-7", lease=timedelta(minutes=3))
        claimed = only(store.claim(asked)).task
        now = store.now()
        lease = Lease(asked.tokens[0], 1, "ann", "run-7", Holder.AGENT, now, now + timedelta(minutes=3))
        assert claimed == before._replace(status=Status.ACTIVE, attempt=1, lease=lease, started_at=now, updated_at=now)
        assert get(store, "a") == claimed

    def test_new_claim_clears_marks_and_keeps_earlier_results(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + LEASE, reason="first"))
        clock.advance(hours=1)
        token = hold(store, "a")
        move(store, Verb.REVIEW, "a", token, result={"so": "far"}, artifacts=("half.txt",), reason="look")
        move(store, Verb.REWORK, "a", reason="more please")
        before = get(store, "a")
        assert before.spent_token == token
        claimed = only(claim(store, "bob", "a")).task
        assert (claimed.result, claimed.artifacts) == ({"so": "far"}, ("half.txt",))
        assert (claimed.reason, claimed.not_before, claimed.finished_by) == (None,) * 3
        assert (claimed.ended, claimed.spent_token) == (None, None)
        assert (claimed.attempt, claimed.retries) == (2, 0)

    @needs("scopes")
    def test_nothing_ready_is_an_empty_answer_and_leaves_no_trace(self, store: Store) -> None:
        add(store, draft("a", status=Status.BACKLOG))
        with no_trace(store):
            assert claim(store) == []
            assert claim(store, scope="nowhere") == []
            assert claim(store, count=0) == []

    def test_batch_claim_takes_tasks_in_order_each_with_its_token(self, store: Store) -> None:
        add(store, draft("a", priority=3), draft("b", priority=1), draft("c", priority=2))
        asked = request("ann", count=2)
        claimed = store.claim(asked)
        assert [one.task.id for one in claimed] == ["b", "c"]
        assert [one.task.lease.token for one in claimed if one.task.lease] == list(asked.tokens)
        assert get(store, "a").status is Status.READY

    def test_batch_claim_larger_than_the_queue_takes_all(self, store: Store) -> None:
        add(store, "a", "b")
        assert claim_ids(store, count=5) == ["a", "b"]
        assert claim_ids(store, count=5) == []

    def test_named_tasks_are_claimed_in_the_order_they_were_named(self, store: Store) -> None:
        add(store, "a", "b", "c")
        asked = request("ann", "c", "a")
        claimed = store.claim(asked)
        assert [(one.task.id, one.task.lease and one.task.lease.token) for one in claimed] == [
            ("c", asked.tokens[0]),
            ("a", asked.tokens[1]),
        ]

    def test_claim_of_named_tasks_is_all_or_nothing(self, store: Store) -> None:
        add(store, "a", "b", "c")
        hold(store, "b", "bob")
        with nothing_changes(store), pytest.raises(Held):
            claim(store, "ann", "a", "b", "c")
        with nothing_changes(store), pytest.raises(NotFound):
            claim(store, "ann", "a", "nowhere")

    @needs("scopes")
    def test_a_task_of_another_scope_is_not_found(self, store: Store) -> None:
        add(store, "a", scope="elsewhere")
        with no_trace(store), pytest.raises(NotFound):
            claim(store, "ann", "a")
        assert claim(store) == []

    def test_a_held_task_is_refused_naming_holder_and_time_left(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold(store, "a", "bob")
        clock.advance(minutes=5)
        with nothing_changes(store), pytest.raises(Held) as refused:
            claim(store, "ann", "a")
        assert refused.value.holder == "bob"
        assert refused.value.retry_after_ms == 15 * 60_000

    @pytest.mark.parametrize("status", [*IDLE, Status.DONE, Status.CANCELED])
    def test_only_ready_work_is_up_for_claiming(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        with nothing_changes(store), pytest.raises(IllegalMove):
            claim(store, "ann", "a")
        with nothing_changes(store), pytest.raises(IllegalMove):
            claim(store, "hannah", "a", holder=Holder.HUMAN)
        assert claim(store) == []

    @needs("links")
    def test_a_task_with_unfinished_prerequisites_waits(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        with nothing_changes(store), pytest.raises(Waiting):
            claim(store, "ann", "b")
        assert claim_ids(store, count=2) == ["a"]

    @needs("links")
    def test_feeding_and_parallel_links_do_not_gate(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[feeds("b", "a"), parallel("c", "a")])
        assert claim_ids(store, count=3) == ["a", "b", "c"]

    def test_early_claim_of_a_named_task_tells_when_it_is_due(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + timedelta(minutes=10)))
        clock.advance(minutes=4)
        with nothing_changes(store), pytest.raises(Waiting) as refused:
            claim(store, "ann", "a")
        assert refused.value.retry_after_ms == 6 * 60_000
        assert claim(store) == []
        clock.advance(minutes=5, seconds=59.999999)
        assert claim(store) == []
        clock.advance(microseconds=1)
        assert claim_ids(store) == ["a"]

    def test_a_named_task_can_be_claimed_the_moment_it_is_due(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + LEASE))
        clock.advance(minutes=20)
        assert claim_ids(store, "ann", "a") == ["a"]

    def test_a_task_that_failed_with_a_delay_waits_for_it(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        move(store, Verb.FAIL, "a", hold(store, "a"), not_before=store.now() + LEASE)
        assert claim(store) == []
        clock.advance(minutes=20)
        assert claim_ids(store) == ["a"]

    def test_an_assigned_task_is_for_its_assignee_only(self, store: Store) -> None:
        add(store, draft("a", assigned_to="bob"))
        with nothing_changes(store), pytest.raises(NotForYou):
            claim(store, "ann", "a")
        with nothing_changes(store):
            assert claim(store, "ann") == []
            assert claim(store, "Bob") == []
        assert claim_ids(store, "bob") == ["a"]

    @pytest.mark.parametrize(
        ("can", "fits"),
        [((), False), (("gpu",), False), (("gpu", "web"), True), (("web", "gpu", "more"), True), (("gpu,web",), False)],
    )
    def test_claim_needs_all_required_capabilities(self, store: Store, can: tuple[str, ...], fits: bool) -> None:
        add(store, draft("a", requires=("gpu", "web")))
        fitness: dict[str, Any] = {"can": frozenset(can)}
        if fits:
            assert claim_ids(store, **fitness) == ["a"]
            return
        with nothing_changes(store), pytest.raises(NotForYou):
            claim(store, "ann", "a", **fitness)
        assert claim(store, **fitness) == []

    def test_a_task_without_requirements_is_for_everyone(self, store: Store) -> None:
        add(store, "a", draft("b", requires=("gpu",)))
        assert claim_ids(store, "ann", count=2, can=frozenset({"web"})) == ["a"]

    @needs("links")
    def test_unsuitable_task_is_skipped_for_the_next_suitable_one(self, store: Store) -> None:
        add(store, draft("a", assigned_to="bob"), draft("b", requires=("gpu",)), "c", "d", links=[blocks("c", "a")])
        assert claim_ids(store, count=9) == ["d"]

    @needs("scopes")
    def test_any_scope_takes_the_first_of_all_scopes(self, store: Store) -> None:
        add(store, draft("a", priority=2), draft("b", priority=4), scope="x")
        add(store, draft("a", priority=1), draft("c", priority=3), scope="y")
        claimed = claim(store, scope=None, count=3)
        assert [(one.task.scope, one.task.id) for one in claimed] == [("y", "a"), ("x", "a"), ("y", "c")]

    @needs("scopes")
    def test_any_scope_breaks_ties_by_id_and_then_by_scope(self, store: Store) -> None:
        for scope in ("z", "x", "y"):
            add(store, "b", "a", scope=scope)
        claimed = claim(store, scope=None, count=6)
        assert [(one.task.id, one.task.scope) for one in claimed] == [(i, s) for i in "ab" for s in "xyz"]

    @needs("links")
    def test_claim_returns_results_of_finished_prerequisites(self, store: Store) -> None:
        add(store, "a", "b", "c", "d", "e", "f")
        link(store, blocks("f", "b"), feeds("f", "a"), parallel("f", "c"), blocks("f", "d"), feeds("f", "e"))
        for task in "abc":
            token = hold(store, task)
            move(store, Verb.DONE, task, token, result={"from": task}, artifacts=(f"{task}.txt",))
        move(store, Verb.CANCEL, "d")
        move(store, Verb.UNBLOCK, "f")
        claimed = only(claim(store, "ann", "f"))
        assert claimed.inputs == tuple(Input(t, f"Task {t}", {"from": t}, (f"{t}.txt",)) for t in "ab")

    @needs("links")
    def test_follow_up_claim_returns_inputs(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        finish(store, "a", result="done so")
        assert only(claim(store)).inputs == (Input("a", "Task a", "done so", ()),)

    def test_person_may_claim_a_task_assigned_to_another(self, store: Store) -> None:
        add(store, draft("a", assigned_to="bob", requires=("gpu",)))
        hold_as_human(store, "a")
        assert get(store, "a").lease == Lease(
            get(store, "a").lease.token,  # type: ignore[union-attr]
            1, "hannah", None, Holder.HUMAN, store.now(), None,
        )  # fmt: skip

    @needs("links")
    def test_a_person_waits_like_everyone_unless_she_forces(self, store: Store) -> None:
        add(store, "a", "b", draft("c", not_before=store.now() + LEASE), "d", links=[blocks("b", "a")])
        hold(store, "d", "bob")
        for task, refused in (("b", Waiting), ("c", Waiting), ("d", Held)):
            with nothing_changes(store), pytest.raises(refused):
                hold_as_human(store, task)

    @needs("links")
    def test_a_person_may_take_over_any_unfinished_task_by_force(self, store: Store) -> None:
        add(store, "first", "waits", draft("early", not_before=store.now() + LEASE), links=[blocks("waits", "first")])
        for status in (*IDLE, Status.ACTIVE):
            bring(store, status.value, status)
        for task in ("waits", "early", *(status.value for status in (*IDLE, Status.ACTIVE))):
            token = hold_as_human(store, task, force=True)
            held = get(store, task)
            assert held.status is Status.ACTIVE
            assert held.lease is not None
            assert (held.lease.token, held.lease.agent, held.lease.holder) == (token, "hannah", Holder.HUMAN)
            assert (held.reason, held.paused_from, held.unblock_action, held.not_before) == (None,) * 4

    @needs("history")
    def test_a_take_over_is_on_record_with_the_one_it_was_taken_from(self, store: Store) -> None:
        add(store, "a")
        hold(store, "a", "bob")
        hold_as_human(store, "a", force=True)
        taken = events(store, "a")[-1]
        assert (taken.verb, taken.agent, taken.attempt) == ("claim", "hannah", 2)
        assert taken.detail == {"taken_from": "bob", "forced": True}

    def test_taking_over_live_work_is_no_retry_but_going_on_with_expired_work_is(
        self, store: Store, clock: Clock
    ) -> None:
        add(store, "a", "b")
        hold(store, "a")
        hold(store, "b")
        hold_as_human(store, "a", force=True)
        assert (get(store, "a").retries, get(store, "a").attempt) == (0, 2)
        clock.advance(hours=1)
        hold_as_human(store, "b", force=True)
        assert (get(store, "b").retries, get(store, "b").attempt) == (1, 2)

    def test_person_may_force_a_claim_without_retries_left(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a", "bob")
        clock.advance(hours=1)
        hold_as_human(store, "a", force=True)
        held = get(store, "a")
        assert (held.status, held.attempt, held.lease and held.lease.agent) == (Status.ACTIVE, 2, "hannah")
        if keeps_history(store):
            assert verbs(store, "a") == ["add", "claim", "claim"]

    @pytest.mark.parametrize("status", [Status.DONE, Status.CANCELED])
    def test_finished_task_cannot_be_claimed_by_force(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        with nothing_changes(store), pytest.raises(IllegalMove):
            hold_as_human(store, "a", force=True)

    @needs("exact leases")
    def test_force_is_for_persons_only(self, store: Store, clock: Clock) -> None:
        add(store, "a", draft("b", max_retries=0), draft("c", assigned_to="bob"), draft("d", status=Status.BACKLOG))
        hold(store, "a", "bob")
        hold(store, "b", "bob", lease=timedelta(minutes=1))
        clock.advance(minutes=2)
        for task, refused in (("a", Held), ("c", NotForYou), ("d", IllegalMove)):
            with nothing_changes(store), pytest.raises(refused):
                claim(store, "ann", task, force=True)
        with pytest.raises(IllegalMove):
            claim(store, "ann", "b", force=True)
        assert get(store, "b").status is Status.ESCALATED

    def test_agent_cannot_claim_a_task_held_by_a_person(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold_as_human(store, "a")
        clock.advance(days=365)
        assert peek_ids(store) == []
        assert claim(store, scope=None) == []
        with nothing_changes(store), pytest.raises(Held) as refused:
            claim(store, "ann", "a")
        assert (refused.value.holder, refused.value.retry_after_ms) == ("hannah", None)

    @needs("links")
    def test_finishing_can_claim_the_next_in_the_same_call(self, store: Store) -> None:
        add(store, draft("a", priority=1), draft("b", priority=1), "c", links=[blocks("b", "a")])
        then = request("ann", run="r2", lease=timedelta(minutes=7))
        moved = move(store, Verb.DONE, "a", hold(store, "a"), result="ok", then=then)
        taken = only(moved.next)
        assert (taken.task.id, taken.inputs) == ("b", (Input("a", "Task a", "ok", ()),))
        assert taken.task == get(store, "b")
        assert taken.task.lease == Lease(
            then.tokens[0], 1, "ann", "r2", Holder.AGENT, store.now(), store.now() + timedelta(minutes=7)
        )

    def test_every_move_can_claim_the_next_and_none_ready_is_no_error(self, store: Store) -> None:
        add(store, "a")
        moved = move(store, Verb.BLOCK, "a", hold(store, "a"), then=request("ann"))
        assert (moved.task.status, moved.next) == (Status.BLOCKED, ())

    def test_a_refused_move_claims_nothing(self, store: Store) -> None:
        add(store, "a", "b")
        with nothing_changes(store), pytest.raises(IllegalMove):
            move(store, Verb.APPROVE, "a", then=request("ann"))

    @needs("scopes")
    def test_claim_without_a_scope_takes_from_any_scope(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", scope="elsewhere")
        moved = move(store, Verb.DONE, "a", hold(store, "a"), then=request("ann", scope=None))
        assert only(moved.next).task.scope == "elsewhere"


# Each beats all that follow it. Every step differs from the next in one thing only, and the later ones have the
# better values of all lesser things, so a key that is missing or out of its place shows.
LADDER = [
    Draft("t", "z9", service_class=ServiceClass.EXPEDITE, priority=9),
    Draft("t", "z8", service_class=ServiceClass.FIXED_DATE, override=True, priority=9),
    Draft("t", "z7", service_class=ServiceClass.FIXED_DATE, priority=-5),
    Draft("t", "z6", override=True, priority=9),
    Draft("t", "z5", priority=-1),
    Draft("t", "z4", priority=0.5),
    Draft("t", "z3", priority=2),
    Draft("t", "A", priority=10),
    Draft("t", "a", priority=10),
    Draft("t", "ab", priority=10),
    Draft("t", "b", priority=10),
    Draft("t", "é", priority=10),
    Draft("t", "😀", priority=10),
    Draft("t", "a2", service_class=ServiceClass.INTANGIBLE, override=True, priority=-9),
    Draft("t", "a1", service_class=ServiceClass.INTANGIBLE, priority=-9),
]

drafts = st.tuples(
    st.text("ab", min_size=1, max_size=3),
    st.sampled_from(ServiceClass),
    st.booleans(),
    st.sampled_from([-1, 0, 0.5, 1, 2, 1e9]),
).map(lambda drawn: Draft("t", drawn[0], service_class=drawn[1], override=drawn[2], priority=drawn[3]))
waits = st.integers(0, 2)


def _named(tasks: list[Task]) -> list[tuple[str, str]]:
    return [(task.scope, task.id) for task in tasks]


class OrderTests(Suite):
    """The one total order: claim, peek and find all keep it, whatever the tasks are like."""

    @pytest.mark.parametrize("seed", range(3))
    def test_class_then_override_then_priority_then_id(self, store: Store, seed: int) -> None:
        shuffled = LADDER.copy()
        random.Random(seed).shuffle(shuffled)
        store.add("home", shuffled, [], MAKER)
        expected = [given.id for given in LADDER]
        assert peek_ids(store) == expected
        assert [task.id for task in store.find(Query("home"))] == expected
        assert [task_id for _ in LADDER for task_id in claim_ids(store)] == expected

    def test_earlier_task_is_claimed_before_a_lower_id(self, store: Store, clock: Clock) -> None:
        for task in ("c", "a", "b"):
            add(store, task)
            clock.advance(microseconds=1)
        assert peek_ids(store) == claim_ids(store, count=3) == ["c", "a", "b"]

    def test_a_lower_priority_comes_before_a_longer_wait(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", priority=3))
        clock.advance(days=30)
        add(store, draft("b", priority=2))
        assert peek_ids(store) == claim_ids(store, count=2) == ["b", "a"]

    def test_edit_can_set_the_place_in_the_queue(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        clock.advance(minutes=1)
        amend(store, "a", Edit(queued_at=store.now()))
        assert peek_ids(store) == claim_ids(store, count=2) == ["b", "a"]

    @needs("scopes")
    @given(
        given=st.lists(st.tuples(drafts, waits), min_size=1, max_size=12, unique_by=lambda pair: pair[0].id),
        batch=st.integers(1, 4),
    )
    def test_claim_peek_and_find_agree_with_the_order_of_the_core(
        self, store: Store, clock: Clock, given: list[tuple[Draft, int]], batch: int
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

    @needs("scopes")
    @given(
        given=st.lists(
            st.tuples(drafts, waits, st.sampled_from("xyz")),
            min_size=1,
            max_size=12,
            unique_by=lambda t: (t[2], t[0].id),
        )
    )
    def test_across_scopes_the_order_is_the_same(
        self, harness: Harness[Store], given: list[tuple[Draft, int, str]]
    ) -> None:
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

    def test_expired_leases_and_due_tasks_are_claimed_in_order_among_the_ready(
        self, store: Store, clock: Clock
    ) -> None:
        due = store.now().replace(year=2027)
        add(store, draft("d", priority=4, not_before=due), draft("b", priority=2, not_before=due))
        add(store, draft("a", priority=1), draft("c", priority=3), draft("e", priority=5))
        hold(store, "c")
        hold(store, "a")
        clock.advance(days=400)
        assert peek_ids(store) == claim_ids(store, count=9) == ["a", "b", "c", "d", "e"]


DOCS = Filter(category="docs")
URGENT = Filter(labels=("urgent",))
LATE = Filter(labels=("late",))


def found(store: Store, only: Filter) -> list[str]:
    return [task.id for task in store.find(Query(SCOPE, only=only))]


def sample(store: Store) -> None:
    add(
        store,
        draft("a", category="code"),
        draft("b", category="docs", spec_ref="one", labels=("urgent",)),
        draft("c", category="docs", spec_ref="two", labels=("café, 2nd floor", "urgent")),
        draft("d", labels=("late",)),
    )


class FilterTests(Suite):
    def test_a_filter_narrows_listings_and_looks(self, store: Store) -> None:
        sample(store)
        assert found(store, Filter()) == peek_ids(store, only=Filter()) == ["a", "b", "c", "d"]
        assert found(store, DOCS) == peek_ids(store, only=DOCS) == ["b", "c"]
        assert found(store, Filter(spec_ref="two")) == peek_ids(store, only=Filter(spec_ref="two")) == ["c"]
        both = Filter(category="code", spec_ref="one")
        assert found(store, both) == peek_ids(store, only=both) == []
        assert found(store, Filter(category="Docs")) == peek_ids(store, only=Filter(category="Docs")) == []

    def test_every_label_of_a_filter_must_match(self, store: Store) -> None:
        sample(store)
        assert found(store, URGENT) == peek_ids(store, only=URGENT) == ["b", "c"]
        both = Filter(labels=("café, 2nd floor", "urgent"))
        assert found(store, both) == peek_ids(store, only=both) == claim_ids(store, only=both) == ["c"]
        assert claim_ids(store, only=both) == []
        assert claim_ids(store, only=Filter(labels=("URGENT",))) == []
        assert claim_ids(store, only=Filter(labels=("urgent", "late"))) == []
        assert claim_ids(store, only=Filter(category="docs", labels=("urgent",))) == ["b"]

    def test_labels_are_kept_and_can_be_changed(self, store: Store) -> None:
        sample(store)
        assert store.get(SCOPE, "c").labels == ("café, 2nd floor", "urgent")
        assert amend(store, "c", Edit(labels=("late",))).labels == store.get(SCOPE, "c").labels == ("late",)
        assert amend(store, "d", Edit(labels=())).labels == store.get(SCOPE, "d").labels == ()
        assert found(store, Filter(labels=("late",))) == ["c"]

    def test_a_filter_narrows_claims(self, store: Store) -> None:
        sample(store)
        assert claim_ids(store, count=3, only=DOCS) == ["b", "c"]
        assert claim_ids(store, only=DOCS) == []
        assert claim_ids(store, count=3) == ["a", "d"]

    @needs("scopes")
    def test_a_filter_narrows_claims_from_any_scope(self, store: Store) -> None:
        sample(store)
        add(store, draft("x", category="docs", priority=0), scope="other")
        add(store, draft("y", priority=0), scope="other")
        assert claim_ids(store, scope=None, count=2, only=DOCS) == ["x", "b"]

    def test_a_named_task_that_does_not_match_is_refused(self, store: Store) -> None:
        sample(store)
        with pytest.raises(NotForYou, match="docs"):
            claim_ids(store, "ann", "a", only=DOCS)
        assert claim_ids(store, "ann", "c", only=DOCS) == ["c"]

    def test_finish_claims_the_next_matching_task(self, store: Store) -> None:
        sample(store)
        done = Move(Verb.DONE, "c", SCOPE, MAKER, hold(store, "c"))
        moved = store.move(done, CanceledBlocker.RESOLVES, request(only=LATE))
        assert [claimed.task.id for claimed in moved.next] == ["d"], "not 'a', which comes first in order"

    def test_batch_finish_claims_matching_tasks(self, store: Store) -> None:
        sample(store)
        done = [Move(Verb.DONE, task, SCOPE, MAKER, hold(store, task)) for task in ("b", "c")]
        batch = store.move_all(done, CanceledBlocker.RESOLVES, request(count=2, only=LATE))
        assert [claimed.task.id for claimed in batch.next] == ["d"]

    @needs("exact leases")
    def test_expired_task_is_claimed_only_by_a_matching_claim(self, store: Store, clock: Clock) -> None:
        sample(store)
        hold(store, "a")
        hold(store, "b")
        clock.advance(seconds=LEASE.total_seconds() + 1)
        assert peek_ids(store, "bob", only=DOCS) == ["b", "c"]
        assert claim_ids(store, "bob", only=DOCS) == ["b"]
        assert claim_ids(store, "bob", only=Filter(category="code")) == ["a"]

    @needs("fleet")
    def test_filter_applies_to_assigned_tasks(self, store: Store) -> None:
        sample(store)
        add(store, draft("e", category="docs", assigned_to="ann"), draft("f", assigned_to="ann"))
        assert peek_ids(store, assigned=True) == ["e", "f"]
        assert peek_ids(store, assigned=True, only=DOCS) == ["e"]
        assert claim_ids(store, count=2, assigned=True, only=DOCS) == ["e"]
