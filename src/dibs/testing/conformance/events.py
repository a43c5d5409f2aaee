"""The audit log, and pruning it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, LostLock, NotFound
from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Edit, Holder, Status
from dibs.stores.port import EventQuery

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    UNFINISHED,
    add,
    amend,
    apply,
    blockers,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    dump,
    events,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    last_seq,
    move,
    no_trace,
    only,
    parallel,
    plan,
    quiet,
    request,
    restore,
    statuses,
    verbs,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.task import Link
    from dibs.stores.port import Store
    from dibs.testing import Clock


def since(store: Store, start: int) -> list[Event]:
    return [event._replace(seq=0) for event in events(store, after=start)]


REFUSALS = {
    "held": ("HELD", Status.ACTIVE, 1),
    "waiting": ("WAITING", Status.READY, None),
    "early": ("WAITING", Status.READY, None),
    "assigned": ("NOT_FOR_YOU", Status.READY, None),
    "skilled": ("NOT_FOR_YOU", Status.READY, None),
    "shelved": ("ILLEGAL_MOVE", Status.BACKLOG, None),
    "over": ("ILLEGAL_MOVE", Status.DONE, 1),
}


def seqs(store: Store, query: EventQuery) -> list[int]:
    return [event.seq for event in store.events(query)]


QUERIES = pytest.mark.parametrize(("scope", "task"), [(None, None), (SCOPE, None), (SCOPE, "a")])


@needs("history")
class EventsTests(Suite):
    """The record: every transition and every claim attempt, who, when and why, and never a token."""

    def test_adding_is_on_record_for_every_task(self, store: Store) -> None:
        store.add(SCOPE, [draft("a"), draft("b", status=Status.BACKLOG)], [blocks("b", "a")], Actor("zoe", "r"))
        now = store.now()
        zoe = Event(now, SCOPE, "", "add", agent="zoe", run="r")
        assert since(store, 0) == [
            zoe._replace(task="a", target=Status.READY),
            zoe._replace(task="b", target=Status.BACKLOG),
            zoe._replace(task="b", verb="link", detail={"on": "a", "kind": "blocks", "detected_by": "explicit"}),
        ]

    def test_a_won_claim_is_on_record_with_its_attempt(self, store: Store) -> None:
        add(store, "a")
        start = last_seq(store)
        claim(store, "ann", run="r7")
        assert since(store, start) == [
            Event(store.now(), SCOPE, "a", "claim", Outcome.OK, "ann", "r7", 1, Status.READY, Status.ACTIVE)
        ]

    def test_every_task_of_a_batch_is_on_record(self, store: Store) -> None:
        add(store, "a", "b")
        start = last_seq(store)
        claim(store, "ann", count=2)
        assert [(event.task, event.verb) for event in since(store, start)] == [("a", "claim"), ("b", "claim")]

    def test_claim_after_expiry_records_the_previous_holder(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold(store, "a", "ann")
        clock.advance(hours=1)
        start = last_seq(store)
        claim(store, "bob")
        taken = Event(store.now(), SCOPE, "a", "claim", Outcome.OK, "bob", None, 2, Status.ACTIVE, Status.ACTIVE)
        assert since(store, start) == [taken._replace(detail={"taken_from": "ann", "forced": False})]

    @pytest.mark.parametrize("task", REFUSALS)
    def test_a_refused_claim_is_on_record_with_the_reason(self, store: Store, task: str) -> None:
        add(
            store,
            "held",
            "waiting",
            draft("early", not_before=store.now() + LEASE),
            draft("assigned", assigned_to="bob"),
        )
        add(store, draft("skilled", requires=("x",)), draft("shelved", status=Status.BACKLOG), "over")
        finish(store, "over")
        hold(store, "held", "bob")
        store.link(SCOPE, [blocks("waiting", "held")], Actor())
        start = last_seq(store)
        with pytest.raises(DibsError):
            claim(store, "ann", task, run="r7")
        code, status, attempt = REFUSALS[task]
        event = only(since(store, start))
        assert (event.attempt or None) == attempt
        assert event._replace(attempt=None) == Event(
            store.now(), SCOPE, task, "claim", Outcome.REFUSED, "ann", "r7", None, status, status, code
        )

    def test_refused_task_of_a_batch_is_recorded(self, store: Store) -> None:
        add(store, "a", "b", "c")
        hold(store, "b", "bob")
        start = last_seq(store)
        with pytest.raises(DibsError):
            claim(store, "ann", "a", "b", "c")
        assert [(event.task, event.outcome) for event in since(store, start)] == [("b", Outcome.REFUSED)]

    def test_finding_nothing_leaves_no_trace(self, store: Store) -> None:
        add(store, draft("a", assigned_to="bob"))
        with no_trace(store):
            assert claim(store, "ann") == []
            assert claim(store, "ann", scope=None) == []

    def test_renewing_leaves_no_event_unless_the_lease_was_lost(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        token = hold(store, "a")
        start = last_seq(store)
        move(store, Verb.RENEW, "a", token, lease=LEASE)
        with pytest.raises(DibsError):
            move(store, Verb.RENEW, "a", lease=LEASE)
        assert since(store, start) == []
        clock.advance(hours=1)
        with pytest.raises(LostLock):
            move(store, Verb.RENEW, "a", token, by=Actor("ann", "r"), lease=LEASE)
        lost = Event(store.now(), SCOPE, "a", "renew", Outcome.LOST, "ann", "r", 1, Status.ACTIVE, Status.ACTIVE)
        assert since(store, start) == [lost._replace(reason="LOST_LOCK")]

    def test_a_refused_move_is_on_record_once_with_the_reason(self, store: Store) -> None:
        add(store, "a")
        hold(store, "a", "bob")
        start = last_seq(store)
        with pytest.raises(DibsError):
            move(store, Verb.DONE, "a", by=Actor("ann", "r"), result="mine", reason="no")
        refused = Event(store.now(), SCOPE, "a", "done", Outcome.REFUSED, "ann", "r", 1, Status.ACTIVE, Status.ACTIVE)
        assert since(store, start) == [refused._replace(reason="HELD")]

    def test_an_exhausted_lease_is_on_record_in_its_holders_name(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a", "ann")
        clock.advance(hours=1)
        start = last_seq(store)
        claim(store, "bob")
        exhausted = Event(
            store.now(), SCOPE, "a", "exhaust", Outcome.OK, "ann", None, 1, Status.ACTIVE, Status.ESCALATED
        )
        assert since(store, start) == [exhausted._replace(reason=get(store, "a").reason)]

    def test_finishing_and_going_on_are_two_events_of_one_moment(self, store: Store) -> None:
        add(store, "a", "b")
        token = hold(store, "a")
        start = last_seq(store)
        move(store, Verb.DONE, "a", token, then=request("ann"))
        assert [(event.task, event.verb) for event in since(store, start)] == [("a", "done"), ("b", "claim")]

    @needs("transactions")
    def test_a_plans_changes_are_each_on_record(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s", "deps": ["a"]}))
        start = last_seq(store)
        apply(store, plan({"id": "a", "spec": "s", "p": 1}, {"id": "c", "spec": "s"}))
        told = [(event.task, event.verb, event.agent) for event in since(store, start)]
        assert sorted(told) == [("a", "edit", "maker"), ("b", "cancel", "maker"), ("c", "add", "maker")]

    def test_events_of_a_task_are_in_order(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        move(store, Verb.FAIL, "a", hold(store, "a"))
        clock.advance(minutes=1)
        move(store, Verb.REVIEW, "a", hold(store, "a"))
        move(store, Verb.APPROVE, "a")
        assert verbs(store, "a") == ["add", "claim", "fail", "claim", "review", "approve"]
        numbers = [event.seq for event in events(store)]
        assert numbers == sorted(set(numbers))

    @needs("transactions")
    def test_no_token_is_ever_on_record(self, store: Store, another: Store, clock: Clock) -> None:
        add(store, "a", "b", draft("c", max_retries=0), draft("d", priority=9), links=[blocks("b", "a")])
        hold(store, "c")
        for verb in (Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RELEASE, Verb.PAUSE, Verb.RENEW):
            token = bring(store, f"x-{verb}", Status.ACTIVE)
            with pytest.raises(DibsError):
                move(store, verb, f"x-{verb}", "secret-made-up")
            with pytest.raises(DibsError):
                move(store, verb, f"x-{verb}")
            move(store, verb, f"x-{verb}", token, on_cancel=CanceledBlocker.CASCADES, then=request("zoe"))
        hold_as_human(store, "a", force=True)
        amend(store, "d", Edit(title="New"))
        clock.advance(hours=1)
        claim(store, "bob", count=9)
        with pytest.raises(DibsError):
            claim(store, "eve", "a", holder=Holder.HUMAN)
        restore(another, dump(store))
        told = events(store, scope=None)
        assert {event.outcome for event in told} == set(Outcome)
        assert "secret-" not in repr(told) + repr(events(another, scope=None))

    @pytest.fixture
    def story(self, store: Store) -> list[Event]:
        """Ten events, in two scopes, about three tasks."""
        add(store, "a", "b")
        add(store, "a", scope="elsewhere")
        finish(store, "a", "b")
        move(store, Verb.BLOCK, "a", scope="elsewhere")
        move(store, Verb.UNBLOCK, "a", scope="elsewhere")
        move(store, Verb.SHELVE, "a", scope="elsewhere")
        return store.events(EventQuery())

    def test_events_come_oldest_first_from_every_scope(self, store: Store, story: list[Event]) -> None:
        assert len(story) == 10
        assert [event.seq for event in story] == sorted(event.seq for event in story)
        assert {event.scope for event in story} == {SCOPE, "elsewhere"}
        assert store.events(EventQuery(SCOPE)) == [event for event in story if event.scope == SCOPE]

    def test_events_of_one_task_are_those_of_its_scope(self, store: Store, story: list[Event]) -> None:
        assert store.events(EventQuery(SCOPE, "a")) == [e for e in story if (e.scope, e.task) == (SCOPE, "a")]
        assert store.events(EventQuery("elsewhere", "a")) == [e for e in story if e.scope == "elsewhere"]
        assert store.events(EventQuery(SCOPE, "nowhere")) == []

    def test_events_of_a_task_in_any_scope_are_those_of_all_its_namesakes(
        self, store: Store, story: list[Event]
    ) -> None:
        assert store.events(EventQuery(None, "a")) == [event for event in story if event.task == "a"]
        assert store.events(EventQuery(None, "a", last=2)) == [event for event in story if event.task == "a"][-2:]

    @QUERIES
    def test_events_can_be_read_on_from_a_number(
        self, store: Store, story: list[Event], scope: str | None, task: str | None
    ) -> None:
        everything = store.events(EventQuery(scope, task))
        for number, event in enumerate(everything):
            assert store.events(EventQuery(scope, task, after=event.seq)) == everything[number + 1 :]
        assert store.events(EventQuery(scope, task, after=story[-1].seq)) == []

    @QUERIES
    def test_events_can_be_limited_to_the_oldest_or_the_newest(
        self, store: Store, story: list[Event], scope: str | None, task: str | None
    ) -> None:
        everything = store.events(EventQuery(scope, task))
        after, kept = everything[0].seq, everything[1:]
        for number in (0, 1, 3, 99):
            assert store.events(EventQuery(scope, task, limit=number)) == everything[:number]
            assert store.events(EventQuery(scope, task, last=number)) == everything[max(0, len(everything) - number) :]
            assert store.events(EventQuery(scope, task, after=after, limit=number)) == kept[:number]
            assert store.events(EventQuery(scope, task, after=after, last=number)) == kept[max(0, len(kept) - number) :]
        assert len(story) == 10

    def test_numbers_never_repeat_and_only_rise(self, store: Store) -> None:
        seen = 0
        for task in "abc":
            add(store, task)
            newest = seqs(store, EventQuery(last=1))
            assert newest[0] > seen
            seen = newest[0]

    def test_protocol_event_is_recorded_at_the_stores_time(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        said = Event(
            store.now(), SCOPE, "a", "comment", agent="zoe", run="r", reason="mind the gap", detail={"to": ["b", 1]}
        )
        start = last_seq(store)
        clock.advance(minutes=5)
        store.record(said)
        assert since(store, start) == [said._replace(at=store.now())]

    def test_protocol_event_leaves_its_task_unchanged(self, store: Store) -> None:
        add(store, "a")
        before = get(store, "a")
        store.record(Event(store.now(), SCOPE, "a", "comment", reason="one"))
        assert get(store, "a") == before
        token = hold(store, "a")
        store.record(Event(store.now(), SCOPE, "a", "comment", reason="two"))
        move(store, Verb.DONE, "a", token)
        told = store.events(EventQuery(SCOPE, "a"))
        assert [event.verb for event in told] == ["add", "comment", "claim", "comment", "done"]

    def test_protocol_event_may_have_no_task(self, store: Store) -> None:
        store.record(Event(store.now(), SCOPE, "", "message", reason="good morning"))
        assert [(event.task, event.reason) for event in events(store)] == [("", "good morning")]

    def test_event_of_an_unknown_task_is_refused(self, store: Store) -> None:
        add(store, "a")
        with no_trace(store), pytest.raises(NotFound):
            store.record(Event(store.now(), SCOPE, "b", "comment", reason="who?"))


DAY = timedelta(days=1)


def prune_events(store: Store, before: datetime) -> int:
    dropped, tasks = store.prune(events_before=before, tasks_before=None, progress=quiet)
    assert tasks == 0
    return dropped


def prune_tasks(store: Store, before: datetime) -> int:
    dropped, tasks = store.prune(events_before=None, tasks_before=before, progress=quiet)
    assert dropped == 0
    return tasks


def names(store: Store) -> list[str]:
    return sorted(statuses(store))


@needs("history")
class PruningTests(Suite):
    """Pruning: old events and long finished tasks go, in small bites; what anyone still needs stays."""

    def test_pruning_nothing_leaves_no_trace(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        finish(store, "a")
        clock.advance(days=9)
        with no_trace(store):
            assert store.prune(events_before=None, tasks_before=None, progress=quiet) == (0, 0)

    # Events
    def test_pruning_deletes_events_before_the_time_only(self, store: Store, clock: Clock) -> None:
        for task in "abc":
            add(store, task)
            clock.advance(days=1)
        cut = events(store, "b")[0].at
        assert prune_events(store, cut) == 1
        assert [event.task for event in events(store)] == ["b", "c"]

    def test_the_newest_event_stays_so_that_numbers_never_repeat(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", "c")
        clock.advance(days=1)
        newest = last_seq(store)
        assert prune_events(store, store.now()) == 2
        assert [event.seq for event in events(store)] == [newest]
        add(store, "d")
        assert last_seq(store) == newest + 1

    def test_events_of_an_empty_store_are_pruned_without_ado(self, store: Store) -> None:
        assert prune_events(store, store.now() + DAY) == 0

    def test_pruning_events_leaves_the_tasks_alone(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        token = hold(store, "a")
        clock.advance(minutes=1)
        prune_events(store, store.now())
        assert move(store, Verb.DONE, "a", token).unblocked == ("b",)

    def test_many_events_are_pruned_in_small_batches(self, store: Store, clock: Clock) -> None:
        add(store, *(f"t{number}" for number in range(2500)))
        clock.advance(days=1)
        add(store, "last")
        bites: list[int] = []
        dropped, _ = store.prune(events_before=store.now(), tasks_before=None, progress=bites.append)
        assert (dropped, sum(bites)) == (2500, 2500)
        assert max(bites) <= 1000
        assert [event.task for event in events(store)] == ["last"]

    # Tasks
    def test_pruning_deletes_tasks_finished_before_the_time_only(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", "c", "d")
        finish(store, "a")
        move(store, Verb.CANCEL, "b", reason="no")
        clock.advance(days=1)
        cut = store.now()
        finish(store, "c")
        move(store, Verb.CANCEL, "d")
        clock.advance(days=1)
        assert prune_tasks(store, cut) == 2
        assert names(store) == ["c", "d"]

    @pytest.mark.parametrize("status", UNFINISHED)
    def test_unfinished_tasks_are_not_pruned(self, store: Store, clock: Clock, status: Status) -> None:
        bring(store, "a", status)
        clock.advance(days=1000)
        with no_trace(store):
            assert prune_tasks(store, store.now()) == 0

    def test_a_reopened_task_is_not_finished(self, store: Store, clock: Clock) -> None:
        bring(store, "a", Status.CANCELED)
        move(store, Verb.REOPEN, "a")
        clock.advance(days=1)
        assert prune_tasks(store, store.now()) == 0

    @pytest.mark.parametrize("kind", [blocks, feeds, parallel])
    def test_tasks_that_an_unfinished_task_refers_to_are_not_pruned(
        self, store: Store, clock: Clock, kind: Callable[[str, str], Link]
    ) -> None:
        add(store, "a", "b", links=[kind("b", "a")])
        finish(store, "a", result="for b")
        clock.advance(days=1)
        with no_trace(store):
            assert prune_tasks(store, store.now()) == 0
        finish(store, "b")
        clock.advance(days=1)
        assert prune_tasks(store, store.now()) == 2

    def test_finished_task_with_a_link_to_an_unfinished_one_is_pruned(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), feeds("c", "a"), blocks("c", "b")])
        move(store, Verb.CANCEL, "b", on_cancel=CanceledBlocker.RESOLVES)
        move(store, Verb.CANCEL, "c")
        clock.advance(days=1)
        assert prune_tasks(store, store.now()) == 2
        assert store.links("home", "a") == []
        finish(store, "a")

    def test_a_parent_stays_as_long_as_it_has_children(self, store: Store, clock: Clock) -> None:
        add(store, "p", draft("x", parent="p"))
        finish(store, "x", "p")
        add(store, draft("y", parent="p"))
        clock.advance(days=1)
        prune_tasks(store, store.now())
        assert names(store) == ["p", "y"]

    def test_families_of_tasks_are_pruned_in_several_runs(self, store: Store, clock: Clock) -> None:
        add(store, "p", draft("x", parent="p"), draft("y", parent="x"), draft("z", parent="x"))
        move(store, Verb.CANCEL, "z")
        finish(store, "y", "x", "p")
        clock.advance(days=1)
        assert sum(prune_tasks(store, store.now()) for _ in range(3)) == 4
        assert store.scopes() == []

    def test_finished_child_of_an_unfinished_parent_is_pruned(self, store: Store, clock: Clock) -> None:
        add(store, "p", draft("x", parent="p"))
        finish(store, "x")
        clock.advance(days=1)
        assert prune_tasks(store, store.now()) == 1
        finish(store, "p")

    def test_tasks_of_every_scope_are_pruned_in_small_batches(self, store: Store, clock: Clock) -> None:
        add(store, *(f"t{number}" for number in range(1500)))
        ends = [Move(Verb.DONE, task, SCOPE, MAKER, force=True) for task in claim_ids(store, count=1500)]
        for at in range(0, 1500, 100):
            store.move_all(ends[at : at + 100], CanceledBlocker.RESOLVES)
        add(store, "a", scope="elsewhere")
        move(store, Verb.CANCEL, "a", scope="elsewhere")
        clock.advance(days=1)
        bites: list[int] = []
        _, dropped = store.prune(events_before=None, tasks_before=store.now(), progress=bites.append)
        assert (dropped, sum(bites)) == (1501, 1501)
        assert max(bites) <= 1000
        assert store.scopes() == []

    def test_pruning_keeps_the_counts_of_remaining_tasks(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "b")])
        finish(store, "a")
        clock.advance(days=1)
        add(store, "d", links=[blocks("c", "d")])
        assert prune_tasks(store, store.now()) == 0
        finish(store, "b")
        clock.advance(days=1)
        assert prune_tasks(store, store.now()) == 1
        assert blockers(store) == {"b": 0, "c": 1, "d": 0}

    def test_events_outlive_their_tasks(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        finish(store, "a")
        clock.advance(days=1)
        before = events(store, "a")
        prune_tasks(store, store.now())
        assert events(store, "a") == before

    def test_an_id_that_was_pruned_may_be_used_again(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        finish(store, "a")
        clock.advance(days=1)
        prune_tasks(store, store.now())
        add(store, "a")
        assert store.check(fix=False) == []
        assert claim_ids(store) == ["a"]
