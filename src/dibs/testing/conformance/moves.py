"""Moves through the lifecycle, one by one and in batches."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from dibs.core.errors import DibsError, Held, IllegalMove, LostLock, NotFound
from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Holder, Status, Task
from dibs.core.times import time_text
from dibs.stores.port import Moved

from .builders import (
    SCOPE,
    add,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    dump,
    events,
    finish,
    get,
    hold,
    hold_as_human,
    keeps_history,
    last_seq,
    move,
    no_trace,
    nothing_changes,
    only,
    peek_ids,
    request,
    statuses,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.lifecycle import ClaimRequest
    from dibs.stores.port import Batch, Store
    from dibs.testing import Clock


B, R, A, K = Status.BACKLOG, Status.READY, Status.ACTIVE, Status.BLOCKED
P, V, E, D, C = Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.DONE, Status.CANCELED

SPAN = timedelta(hours=3)

Changes: TypeAlias = "Callable[[Task, datetime], dict[str, Any]]"


def brought(now: datetime) -> dict[str, Any]:
    """The optional fields of every move in the tests below."""
    return {
        "reason": "because",
        "result": {"n": 1},
        "artifacts": ("x.txt", "y.txt"),
        "unblock_action": "call them",
        "next_check_at": now + timedelta(hours=1),
        "not_before": now + timedelta(hours=2),
        "lease": SPAN,
    }


def some(*fields: str, **more: object) -> Changes:
    """The expected fields: those of the move, and the given ones."""
    return lambda _task, now: {name: brought(now)[name] for name in fields} | more


def ended(by: Verb, *fields: str, **more: object) -> Changes:
    """The same, and the lease is over."""

    def changes(task: Task, now: datetime) -> dict[str, Any]:
        over = {"lease": None, "ended": by, "spent_token": task.lease and task.lease.token}
        return some(*fields, **more)(task, now) | over

    return changes


def renewed(task: Task, now: datetime) -> dict[str, Any]:
    assert task.lease is not None
    return {"lease": task.lease._replace(expires_at=now + SPAN)}


def also(changes: Changes, *fields: str) -> Changes:
    """The same, and these moments are now."""
    return lambda task, now: changes(task, now) | dict.fromkeys(fields, now)


def paused(task: Task, now: datetime) -> dict[str, Any]:
    return some("reason", paused_from=task.status, reason_before=task.reason)(task, now)


NOT_BLOCKED = {"reason": None, "unblock_action": None, "next_check_at": None}

RESUMED = {"paused_from": None, "reason_before": None}

closed = also(some("result", "artifacts", finished_by="ann", **NOT_BLOCKED, **RESUMED), "finished_at")

# Every way a task can go, with all that changes on the way. Written by hand: this is the contract.
LEGAL: dict[tuple[Status, Verb], tuple[Status, Changes]] = {
    (A, Verb.RENEW): (A, renewed),
    (A, Verb.DONE): (D, also(ended(Verb.DONE, "result", "artifacts", reason=None, finished_by="ann"), "finished_at")),
    (A, Verb.FAIL): (R, ended(Verb.FAIL, "reason", "not_before", retries=1)),
    (A, Verb.BLOCK): (K, ended(Verb.BLOCK, "reason", "unblock_action", "next_check_at")),
    (A, Verb.REVIEW): (V, ended(Verb.REVIEW, "reason", "result", "artifacts", finished_by="ann")),
    (A, Verb.CANCEL): (C, also(ended(Verb.CANCEL, "reason"), "finished_at")),
    (A, Verb.RELEASE): (R, ended(Verb.RELEASE, "reason", "not_before")),
    (A, Verb.PAUSE): (P, ended(Verb.PAUSE, "reason", paused_from=R)),
    **{(source, Verb.BLOCK): (K, some("reason", "unblock_action", "next_check_at")) for source in (B, R, K, E)},
    **{(source, Verb.CANCEL): (C, also(some("reason"), "finished_at")) for source in (B, R, K, P, V, E)},
    **{(source, Verb.PAUSE): (P, paused) for source in (B, R, K, V, E)},
    **{(source, Verb.ESCALATE): (E, some("reason")) for source in (B, R, K, P)},
    (P, Verb.RESUME): (R, some(reason=None, **RESUMED)),
    (K, Verb.UNBLOCK): (R, some(**NOT_BLOCKED)),
    (E, Verb.UNBLOCK): (R, some(**NOT_BLOCKED)),
    (V, Verb.APPROVE): (D, also(some(reason=None), "finished_at")),
    (V, Verb.REWORK): (R, some("reason", finished_by=None)),
    (B, Verb.QUEUE): (R, some()),
    (R, Verb.SHELVE): (B, some()),
    (C, Verb.REOPEN): (R, some(reason=None, finished_at=None)),
    (D, Verb.REOPEN): (R, some(reason=None, finished_at=None, finished_by=None, ended=None, spent_token=None)),
    (A, Verb.CLOSE): (D, also(ended(Verb.CLOSE, "result", "artifacts", reason=None, finished_by="ann"), "finished_at")),
    **{(source, Verb.CLOSE): (D, closed) for source in (B, R, K, P, E)},
    (V, Verb.CLOSE): (D, also(some(reason=None), "finished_at")),
}
# To claim is no move, and giving up after the last retry is the store's own doing.
# A refusal changes nothing, so all moves can be tried on one task.
ILLEGAL = {status: [verb for verb in Verb if (status, verb) not in LEGAL] for status in Status}


def named(pair: tuple[Status, Verb]) -> str:
    return f"{pair[0]}-{pair[1]}"


REPEATABLE = (Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RELEASE, Verb.PAUSE)


class MovesTests(Suite):
    """A task's life: what each verb makes of it, and what no verb may do."""

    @pytest.mark.parametrize("pair", LEGAL, ids=named)
    def test_a_legal_move_changes_exactly_what_it_should(
        self, store: Store, clock: Clock, pair: tuple[Status, Verb]
    ) -> None:
        token = bring(store, "a", pair[0])
        before = get(store, "a")
        assert before.status is pair[0]
        clock.advance(minutes=1)
        moved = move(store, pair[1], "a", token, **brought(store.now()))
        target, changes = LEGAL[pair]
        expected = before._replace(status=target, updated_at=store.now(), **changes(before, store.now()))
        assert moved == Moved(expected)
        assert get(store, "a") == expected

    @needs("history")
    @pytest.mark.parametrize("pair", LEGAL, ids=named)
    def test_a_legal_move_leaves_one_event_but_a_renewal_none(
        self, store: Store, clock: Clock, pair: tuple[Status, Verb]
    ) -> None:
        token = bring(store, "a", pair[0])
        clock.advance(minutes=1)
        attempt = get(store, "a").attempt or None
        start = last_seq(store)
        after = move(store, pair[1], "a", token, by=Actor("zoe", "run-9"), **brought(store.now())).task
        written = events(store, after=start)
        if pair[1] is Verb.RENEW:
            assert written == []
            return
        event = only(written)
        due = time_text(store.now() + timedelta(hours=1))
        told = {"unblock_action": "call them", "next_check_at": due} if pair[1] is Verb.BLOCK else {}
        assert event == event._replace(
            at=store.now(), task="a", verb=pair[1], outcome=Outcome.OK, agent="zoe", run="run-9", attempt=attempt,
            source=pair[0], target=after.status, reason="because", detail=told,
        )  # fmt: skip

    @pytest.mark.parametrize("status", Status)
    def test_an_illegal_move_is_refused_on_record_and_changes_nothing(self, store: Store, status: Status) -> None:
        token = bring(store, "a", status)
        start = last_seq(store)
        with nothing_changes(store):
            for verb in ILLEGAL[status]:
                with pytest.raises(IllegalMove):
                    move(store, verb, "a", token, by=Actor("zoe", "run-9"), **brought(store.now()))
        if keeps_history(store):
            attempt = get(store, "a").attempt or None
            refused = Event(
                store.now(), SCOPE, "a", "", Outcome.REFUSED, "zoe", "run-9", attempt, status, status, "ILLEGAL_MOVE"
            )
            told = [refused._replace(verb=verb) for verb in ILLEGAL[status] if verb is not Verb.RENEW]
            assert [event._replace(seq=0) for event in events(store, after=start)] == told

    @pytest.mark.parametrize("status", Status)
    def test_force_does_not_make_an_illegal_move_legal(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        with nothing_changes(store):
            for verb in ILLEGAL[status]:
                with pytest.raises(IllegalMove):
                    move(store, verb, "a", force=True, **brought(store.now()))

    @needs("scopes")
    def test_an_unknown_task_is_not_found_and_leaves_no_trace(self, store: Store) -> None:
        add(store, "a", scope="elsewhere")
        with no_trace(store):
            for verb in Verb:
                with pytest.raises(NotFound):
                    move(store, verb, "a", then=request("ann", scope=None))

    @pytest.mark.parametrize("why", ["a holiday", None])
    @pytest.mark.parametrize("source", [B, R, K, V, E])
    def test_resumed_task_is_as_before_with_its_reason(self, store: Store, source: Status, why: str | None) -> None:
        bring(store, "a", source)
        before = get(store, "a")
        paused = move(store, Verb.PAUSE, "a", reason=why).task
        assert (paused.reason, paused.paused_from, paused.reason_before) == (why, source, before.reason)
        assert get(store, "a") == paused
        assert claim_ids(store) == []
        resumed = move(store, Verb.RESUME, "a", reason="the holiday is over").task
        assert resumed == get(store, "a") == before

    def test_every_pause_of_a_failed_task_keeps_its_reason(self, store: Store) -> None:
        add(store, "a")
        before = move(store, Verb.FAIL, "a", hold(store, "a"), reason="the tests fail").task
        for why in ("a holiday", "another"):
            move(store, Verb.PAUSE, "a", reason=why)
            assert move(store, Verb.RESUME, "a").task == before

    @pytest.mark.parametrize("verb", [Verb.CANCEL, Verb.ESCALATE, Verb.CLOSE])
    def test_task_that_is_not_resumed_forgets_the_earlier_reason(self, store: Store, verb: Verb) -> None:
        bring(store, "a", K)
        move(store, Verb.PAUSE, "a", reason="a holiday")
        assert move(store, verb, "a").task.reason_before is None

    def test_work_that_was_paused_is_ready_again_after_resuming(self, store: Store) -> None:
        token = bring(store, "a", A)
        move(store, Verb.PAUSE, "a", token)
        assert move(store, Verb.RESUME, "a").task.status is R
        assert claim_ids(store) == ["a"]

    def test_a_paused_task_that_is_escalated_and_solved_forgets_the_pause(self, store: Store) -> None:
        bring(store, "a", B)
        move(store, Verb.PAUSE, "a")
        move(store, Verb.ESCALATE, "a")
        assert move(store, Verb.UNBLOCK, "a").task.paused_from is None

    @pytest.mark.parametrize(
        ("status", "verb", "back"), [(E, Verb.ESCALATE, Verb.UNBLOCK), (C, Verb.CANCEL, Verb.REOPEN)]
    )
    def test_a_second_start_has_all_its_retries_again(
        self, store: Store, status: Status, verb: Verb, back: Verb
    ) -> None:
        add(store, draft("a", max_retries=1))
        move(store, Verb.FAIL, "a", hold(store, "a"))
        assert (get(store, "a").retries, move(store, verb, "a").task.status) == (1, status)
        assert move(store, back, "a").task.retries == 0

    def test_unblocking_keeps_the_retries_that_were_used(self, store: Store) -> None:
        add(store, "a")
        move(store, Verb.FAIL, "a", hold(store, "a"))
        move(store, Verb.BLOCK, "a", hold(store, "a"))
        assert move(store, Verb.UNBLOCK, "a").task.retries == 1

    def test_approval_keeps_the_worker_and_the_result(self, store: Store) -> None:
        bring(store, "a", V)
        approved = move(store, Verb.APPROVE, "a", by=Actor("hannah")).task
        assert (approved.finished_by, approved.result, approved.artifacts) == ("ann", {"by": "bring"}, ("made.txt",))

    def test_finishing_without_a_result_keeps_the_one_that_is_there(self, store: Store) -> None:
        bring(store, "a", V)
        move(store, Verb.REWORK, "a")
        done = move(store, Verb.DONE, "a", hold(store, "a")).task
        assert (done.result, done.artifacts) == ({"by": "bring"}, ("made.txt",))

    @pytest.mark.parametrize("result", [False, 0, "", [], {}])
    def test_a_result_may_be_false_or_empty(self, store: Store, result: Any) -> None:
        bring(store, "a", V)
        move(store, Verb.REWORK, "a")
        move(store, Verb.DONE, "a", hold(store, "a"), result=result)
        read = get(store, "a").result
        assert read == result
        assert type(read) is type(result)

    def test_a_person_finishes_what_she_holds(self, store: Store) -> None:
        add(store, "a")
        done = move(store, Verb.DONE, "a", hold_as_human(store, "a"), by=Actor()).task
        assert (done.finished_by, done.status) == ("hannah", D)

    def test_work_finished_by_force_is_credited_to_its_holder(self, store: Store) -> None:
        add(store, "a")
        hold(store, "a", "ann")
        assert move(store, Verb.DONE, "a", by=Actor("hook"), force=True).task.finished_by == "ann"

    @needs("history")
    def test_an_event_names_the_holder_where_the_caller_is_unknown(self, store: Store) -> None:
        add(store, "a")
        move(store, Verb.DONE, "a", hold(store, "a", "bob"), by=Actor())
        assert events(store, "a")[-1].agent == "bob"

    @pytest.mark.parametrize("verb", REPEATABLE)
    def test_a_finish_whose_answer_got_lost_may_be_repeated(self, store: Store, clock: Clock, verb: Verb) -> None:
        token = bring(store, "a", A)
        first = move(store, verb, "a", token, result="r")
        clock.advance(days=1)
        with no_trace(store):
            assert move(store, verb, "a", token, result="other") == Moved(first.task, repeated=True)
        assert not first.repeated

    def test_a_last_failure_whose_answer_got_lost_may_be_repeated(self, store: Store) -> None:
        add(store, draft("a", max_retries=0))
        token = hold(store, "a")
        first = move(store, Verb.FAIL, "a", token)
        with no_trace(store):
            assert move(store, Verb.FAIL, "a", token) == Moved(first.task, repeated=True)
        assert first.task.status is E

    def test_a_finish_is_recognised_though_others_have_moved_the_task_on(self, store: Store) -> None:
        token = bring(store, "a", A)
        move(store, Verb.BLOCK, "a", token)
        move(store, Verb.UNBLOCK, "a")
        with no_trace(store):
            assert move(store, Verb.BLOCK, "a", token).repeated

    @pytest.mark.parametrize("verb", REPEATABLE)
    def test_a_spent_token_is_good_for_nothing_but_the_same_again(self, store: Store, verb: Verb) -> None:
        token = bring(store, "a", A)
        move(store, verb, "a", token)
        with nothing_changes(store):
            for other in {*REPEATABLE, Verb.RENEW} - {verb}:
                with pytest.raises(LostLock):
                    move(store, other, "a", token)
            assert move(store, verb, "a", token).repeated

    @pytest.mark.parametrize("verb", REPEATABLE)
    def test_a_finish_is_not_repeated_once_another_attempt_has_begun(self, store: Store, verb: Verb) -> None:
        add(store, "a")
        token = hold(store, "a")
        move(store, Verb.RELEASE, "a", token)
        hold(store, "a", "bob")
        with nothing_changes(store), pytest.raises(LostLock):
            move(store, verb, "a", token)

    @pytest.mark.parametrize("verb", REPEATABLE)
    def test_only_the_attempt_that_finished_may_repeat_its_finish(self, store: Store, verb: Verb) -> None:
        add(store, "a")
        earlier = hold(store, "a")
        move(store, Verb.RELEASE, "a", earlier)
        move(store, verb, "a", hold(store, "a"))
        for token in (earlier, "made-up"):
            with nothing_changes(store), pytest.raises(LostLock):
                move(store, verb, "a", token)

    @pytest.mark.parametrize("status", [B, R, K, P, V, E, D, C])
    def test_a_token_that_was_never_given_is_refused_in_every_status(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        with nothing_changes(store), pytest.raises(LostLock):
            move(store, Verb.CANCEL, "a", "made-up")

    def test_a_repeated_finish_goes_on_to_the_next_task_too(self, store: Store) -> None:
        add(store, "a", "b")
        token = hold(store, "a")
        move(store, Verb.DONE, "a", token)
        again = move(store, Verb.DONE, "a", token, then=request("ann"))
        assert [claimed.task.id for claimed in again.next] == ["b"]

    @needs("strict claims")
    def test_a_repeated_finish_does_not_claim_a_second_task_for_the_same_request(self, store: Store) -> None:
        add(store, "a", "b", "c")
        token, then = hold(store, "a"), request("ann")
        first = move(store, Verb.DONE, "a", token, then=then)
        again = move(store, Verb.DONE, "a", token, then=then)
        assert [claimed.task.id for claimed in again.next] == [claimed.task.id for claimed in first.next] == ["b"]
        assert get(store, "c").status is R

    @needs("strict claims")
    def test_a_repeated_finish_does_not_hand_out_what_the_same_request_has_given_up_since(
        self, store: Store, clock: Clock
    ) -> None:
        add(store, "a", "b", "c")
        token, then = hold(store, "a"), request("ann")
        move(store, Verb.DONE, "a", token, then=then)
        move(store, Verb.FAIL, "b", then.tokens[0], not_before=clock() + timedelta(hours=1))
        again = move(store, Verb.DONE, "a", token, then=then)
        assert [claimed.task.id for claimed in again.next] == ["c"]

    @pytest.mark.parametrize("verb", [Verb.DONE, Verb.BLOCK, Verb.RELEASE])
    def test_a_move_sets_extra_fields_and_the_assignee_along_with_the_rest(self, store: Store, verb: Verb) -> None:
        add(store, "a", extra={"kept": [1], "changed": "old", "gone": True})
        brought_along = {"changed": {"n": 0.5}, "gone": None, "new": "word"}
        moved = move(store, verb, "a", hold(store, "a"), extra=brought_along, assigned_to="bob")
        assert moved.task.extra == {"kept": [1], "changed": {"n": 0.5}, "new": "word"}
        assert (moved.task.assigned_to, get(store, "a")) == ("bob", moved.task)

    def test_who_a_move_assigns_a_task_to_is_the_one_who_gets_it(self, store: Store) -> None:
        add(store, "a", assigned_to="ann")
        token = hold(store, "a")
        move(store, Verb.RELEASE, "a", token, assigned_to="bob")
        assert claim_ids(store, "ann") == []
        token = hold(store, "a", "bob")
        move(store, Verb.RELEASE, "a", token, assigned_to=None)
        assert claim_ids(store, "zoe") == ["a"]

    def test_a_refused_move_leaves_the_extra_fields_alone(self, store: Store) -> None:
        add(store, "a", extra={"count": 1})
        token = hold(store, "a")
        move(store, Verb.RELEASE, "a", token)
        for proof in (token, None):
            with pytest.raises((LostLock, IllegalMove)):
                move(store, Verb.DONE, "a", proof, extra={"count": 2})
        assert get(store, "a").extra == {"count": 1}

    def test_requeue_policy_moves_the_task_to_the_end(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        clock.advance(minutes=1)
        token = hold(store, "a")
        released = move(store, Verb.RELEASE, "a", token, requeue=True)
        assert released.task.queued_at == get(store, "a").queued_at == store.now()
        assert peek_ids(store) == ["b", "a"]

    def test_otherwise_a_move_leaves_the_place_in_the_queue(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        clock.advance(minutes=1)
        move(store, Verb.RELEASE, "a", hold(store, "a"))
        assert peek_ids(store) == ["a", "b"]

    def test_a_person_cannot_move_on_with_work_that_is_held_without_force(self, store: Store) -> None:
        add(store, "a")
        hold_as_human(store, "a")
        with nothing_changes(store), pytest.raises(Held):
            move(store, Verb.CANCEL, "a", by=Actor("hannah"))
        assert get(store, "a").lease is not None
        assert get(store, "a").lease.holder is Holder.HUMAN  # type: ignore[union-attr]

    def test_finished_task_does_not_change(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        finish(store, "a", result="r")
        before = get(store, "a")
        clock.advance(days=9)
        assert claim_ids(store, scope=None) == []
        assert get(store, "a") == before
        assert before.lease is None


def move_all(
    store: Store, tokens: dict[str, str], verb: Verb = Verb.DONE, then: ClaimRequest | None = None, **more: Any
) -> Batch:
    asked = [Move(verb, task, SCOPE, Actor("ann"), token=token, **more) for task, token in tokens.items()]
    return store.move_all(asked, CanceledBlocker.ESCALATES, then)


def hold_all(store: Store, *tasks: str) -> dict[str, str]:
    return {task: hold(store, task) for task in tasks}


def moved(batch: Batch) -> list[Moved]:
    assert all(isinstance(outcome, Moved) for outcome in batch.outcomes), batch
    return [outcome for outcome in batch.outcomes if isinstance(outcome, Moved)]


def codes(batch: Batch) -> list[str | None]:
    return [outcome.code if isinstance(outcome, DibsError) else None for outcome in batch.outcomes]


class BatchesTests(Suite):
    """Many finishes in one transaction, each with its own outcome."""

    def test_all_are_finished_and_answered_in_the_order_asked(self, store: Store) -> None:
        add(store, "a", "b", "c")
        held = hold_all(store, "c", "a", "b")
        batch = move_all(store, held, result={"fine": True})
        assert [outcome.task.id for outcome in moved(batch)] == ["c", "a", "b"]
        assert [get(store, task) for task in held] == [outcome.task for outcome in moved(batch)]
        assert set(statuses(store).values()) == {Status.DONE}
        if keeps_history(store):
            assert [event.verb for event in events(store, "b")] == ["add", "claim", "done"]

    @needs("links")
    def test_a_batch_leaves_what_single_finishes_leave(self, store: Store, another: Store) -> None:
        for each in (store, another):
            add(each, "a", "b", "c", "d", "e", links=[blocks("c", "a"), blocks("c", "b"), blocks("d", "a")])
        tokens = {"a": "t-a", "b": "t-b", "e": "t-e"}
        for each in (store, another):
            for task, token in tokens.items():
                each.claim(request("ann", task)._replace(tokens=(token,)))
        together = moved(move_all(store, tokens, result=[1]))
        apart = [moved(move_all(another, {task: token}, result=[1]))[0] for task, token in tokens.items()]
        assert together == apart
        assert [outcome.unblocked for outcome in together] == [("d",), ("c",), ()]
        assert dump(store) == dump(another)

    @pytest.mark.parametrize(
        "verb", [Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RENEW]
    )
    def test_a_lost_lease_is_an_answer_and_stops_no_other(self, store: Store, verb: Verb) -> None:
        add(store, "a", "b", "c")
        held = hold_all(store, "a", "b", "c") | {"b": "not the token"}
        batch = move_all(store, held, verb, reason="because")
        assert codes(batch) == [None, "LOST_LOCK", None]
        assert get(store, "b").status is Status.ACTIVE
        if keeps_history(store):
            assert [event.outcome for event in events(store, "b")][-1] == "lost"

    def test_an_unknown_task_is_an_answer_too(self, store: Store) -> None:
        add(store, "a")
        batch = move_all(store, {"nobody": "t"} | hold_all(store, "a"))
        assert codes(batch) == ["NOT_FOUND", None]

    def test_an_expired_lease_in_a_batch_changes_nothing(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        early = hold_all(store, "a")
        clock.advance(minutes=30)
        assert codes(move_all(store, early | hold_all(store, "b"))) == ["LOST_LOCK", None]
        assert get(store, "a").status is Status.ACTIVE

    @needs("links")
    def test_the_next_tasks_are_claimed_in_the_same_go(self, store: Store) -> None:
        add(store, "a", "b", "c", "d", links=[blocks("d", "a")])
        held = hold_all(store, "a", "b")
        batch = move_all(store, held, then=request("ann", count=5))
        assert [claimed.task.id for claimed in batch.next] == ["c", "d"]
        assert [given.id for given in batch.next[1].inputs] == ["a"]
        assert peek_ids(store) == []

    @needs("strict claims")
    def test_a_repeated_batch_claims_nothing_twice(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        held, then = hold_all(store, "a", "b"), request("ann", count=1)
        first = move_all(store, held, then=then)
        again = move_all(store, held, then=then)
        assert [outcome.repeated for outcome in moved(again)] == [True, True]
        assert again.next == first.next
        assert claim_ids(store, "bob", count=5) == ["d"]

    def test_a_child_and_its_parent_may_end_together(self, store: Store) -> None:
        add(store, "p")
        add(store, "c", parent="p")
        held = hold_all(store, "c", "p")
        assert codes(move_all(store, held)) == [None, None]

    def test_a_parent_before_its_child_is_refused_and_the_child_ends(self, store: Store) -> None:
        add(store, "p")
        add(store, "c", parent="p")
        held = hold_all(store, "p", "c")
        assert codes(move_all(store, held)) == ["INCOMPLETE_SUBTASKS", None]

    def test_nothing_to_move_claims_all_the_same(self, store: Store) -> None:
        add(store, "a")
        batch = move_all(store, {}, then=request("ann"))
        assert batch.outcomes == ()
        assert [claimed.task.id for claimed in batch.next] == ["a"]

    def test_a_hundred_end_in_one_go(self, store: Store) -> None:
        add(store, *(f"t{number:03}" for number in range(100)))
        held = {claimed.task.id: claimed.task.lease.token for claimed in claim(store, count=100) if claimed.task.lease}
        assert len(held) == 100
        assert codes(move_all(store, held)) == [None] * 100
