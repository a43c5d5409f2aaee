"""Leases, and the output of attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core import output
from dibs.core.errors import Held, IllegalMove, LostLock, NotFound, Waiting
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Holder, Status
from dibs.desk import quiet

from .builders import (
    LEASE,
    SCOPE,
    add,
    amend,
    blocks,
    claim,
    claim_ids,
    draft,
    dump,
    events,
    get,
    hold,
    hold_as_human,
    keeps_history,
    link,
    move,
    no_trace,
    nothing_changes,
    only,
    output_of,
    peek_ids,
    request,
    restore,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.output import OutputPage
    from dibs.stores.port import Store
    from dibs.testing import Clock


HOLDERS_VERBS = (
    Verb.RENEW,
    Verb.DONE,
    Verb.FAIL,
    Verb.BLOCK,
    Verb.REVIEW,
    Verb.CANCEL,
    Verb.RELEASE,
    Verb.PAUSE,
)


class LeasesTests(Suite):
    """A lease is the right to work. It expires, and late writes change nothing."""

    @needs("exact leases")
    def test_a_lease_ends_at_its_hour_and_not_before(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold(store, "a")
        clock.advance(minutes=19, seconds=59.999999)
        assert claim(store, "bob") == []
        with pytest.raises(Held):
            claim(store, "bob", "a")
        clock.advance(microseconds=1)
        assert claim_ids(store, "bob") == ["a"]

    @pytest.mark.parametrize("named", [(), ("a",)], ids=["next", "named"])
    def test_expired_task_is_claimable_as_a_retry_with_a_new_attempt(
        self, store: Store, clock: Clock, named: tuple[str, ...]
    ) -> None:
        add(store, "a")
        first = hold(store, "a", "ann")
        clock.advance(hours=1)
        second = only(claim(store, "bob", *named)).task
        assert (second.attempt, second.retries, second.started_at) == (2, 1, store.now())
        assert second.lease is not None
        assert second.lease.agent == "bob"
        assert second.lease.token != first
        if keeps_history(store):
            assert events(store, "a")[-1].detail == {"taken_from": "ann", "forced": False}

    def test_expired_task_keeps_its_place_in_the_queue(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        clock.advance(minutes=1)
        add(store, "b")
        hold(store, "a")
        clock.advance(hours=1)
        assert claim_ids(store, count=2) == ["a", "b"]

    @needs("links")
    def test_write_after_the_lease_expired_is_rejected(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        token = hold(store, "a")
        clock.advance(minutes=20)
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(LostLock):
                    move(store, verb, "a", token, lease=LEASE, result="late", then=request("ann"))
                recorded = events(store, "a")[-1]
                assert (recorded.verb, recorded.outcome, recorded.reason) == (verb, Outcome.LOST, "LOST_LOCK")

    @needs("links")
    def test_write_after_another_agent_claimed_is_rejected(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        token = hold(store, "a", "ann")
        clock.advance(minutes=20)
        hold(store, "a", "bob")
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(LostLock) as lost:
                    move(store, verb, "a", token, lease=LEASE, result="late", then=request("ann"))
                assert lost.value.holder == "bob"

    def test_a_foreign_token_proves_nothing(self, store: Store) -> None:
        add(store, "a", "b")
        hold(store, "a", "ann")
        other = hold(store, "b", "ann")
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(LostLock):
                    move(store, verb, "a", other, lease=LEASE)

    def test_without_a_token_a_held_task_is_left_alone(self, store: Store) -> None:
        add(store, "a")
        hold(store, "a", "ann")
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(Held) as refused:
                    move(store, verb, "a", by=Actor("ann"), lease=LEASE)
                assert refused.value.holder == "ann"

    def test_without_a_token_an_expired_task_has_to_be_claimed_first(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold(store, "a", "ann")
        clock.advance(minutes=20)
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(IllegalMove):
                    move(store, verb, "a", by=Actor("ann"), lease=LEASE)

    def test_only_the_token_proves_a_claim(self, store: Store) -> None:
        add(store, *map(str, HOLDERS_VERBS))
        for verb in HOLDERS_VERBS:
            moved = move(store, verb, str(verb), hold(store, str(verb), "ann"), by=Actor("somebody else"), lease=LEASE)
            assert moved.task == get(store, str(verb))

    def test_a_person_may_overrule_the_holder(self, store: Store) -> None:
        add(store, *map(str, HOLDERS_VERBS))
        for verb in HOLDERS_VERBS:
            token = hold(store, str(verb), "ann")
            move(store, verb, str(verb), by=Actor("hannah"), force=True, lease=LEASE)
            assert get(store, str(verb)).spent_token == (None if verb is Verb.RENEW else token)
            if keeps_history(store) and verb is not Verb.RENEW:
                overruled = events(store, str(verb))[-1]
                assert (overruled.agent, overruled.detail) == ("hannah", {"forced": True})

    def test_where_a_name_is_proof_the_holders_name_is_enough(self, store: Store) -> None:
        add(store, *map(str, HOLDERS_VERBS))
        for verb in HOLDERS_VERBS:
            hold(store, str(verb), "ann")
            with nothing_changes(store), pytest.raises(Held):
                move(store, verb, str(verb), by=Actor("bob"), named=True, lease=LEASE)
            assert move(store, verb, str(verb), by=Actor("ann"), named=True, lease=LEASE).task == get(store, str(verb))

    def test_a_name_is_no_proof_of_an_expired_lease(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        hold(store, "a", "ann")
        clock.advance(minutes=20)
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(IllegalMove):
                    move(store, verb, "a", by=Actor("ann"), named=True, lease=LEASE)

    @needs("scopes")
    @pytest.mark.parametrize("proof", ["token", "name"])
    @pytest.mark.parametrize("woken", [False, True])
    def test_policy_may_accept_late_writes_until_the_next_claim(
        self, store: Store, clock: Clock, woken: bool, proof: str
    ) -> None:
        add(store, *map(str, HOLDERS_VERBS))
        tokens = {verb: hold(store, str(verb), "ann") for verb in HOLDERS_VERBS}
        clock.advance(minutes=20)
        if woken:
            claim(store, scope="elsewhere")
        for verb in HOLDERS_VERBS:
            token = tokens[verb] if proof == "token" else None
            late = move(
                store, verb, str(verb), token, by=Actor("ann"), named=proof == "name", late_ok=True, lease=LEASE
            )
            assert late.task == get(store, str(verb))
            assert late.task.held(store.now()) is (verb is Verb.RENEW)

    @needs("exact leases")
    def test_late_write_is_never_accepted_after_the_next_claim(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        token = hold(store, "a", "ann")
        clock.advance(minutes=20)
        hold(store, "a", "bob")
        with nothing_changes(store):
            for verb in HOLDERS_VERBS:
                with pytest.raises(LostLock):
                    move(store, verb, "a", token, by=Actor("ann"), named=True, late_ok=True, lease=LEASE)

    @needs("exact leases")
    def test_renewing_extends_the_lease_from_now(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        token = hold(store, "a")
        before = get(store, "a")
        clock.advance(minutes=15)
        renewed = move(store, Verb.RENEW, "a", token, lease=timedelta(minutes=30)).task
        now = store.now()
        assert before.lease is not None
        lease = before.lease._replace(expires_at=now + timedelta(minutes=30))
        assert renewed == before._replace(lease=lease, updated_at=now) == get(store, "a")
        clock.advance(minutes=29)
        assert claim(store, "bob") == []
        clock.advance(minutes=1)
        assert claim_ids(store, "bob") == ["a"]

    @needs("exact leases")
    def test_renewing_can_shorten_a_lease_too(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        move(store, Verb.RENEW, "a", hold(store, "a"), lease=timedelta(minutes=1))
        clock.advance(minutes=1)
        assert claim_ids(store, "bob") == ["a"]

    def test_a_human_hold_never_expires_and_renewing_gives_it_no_end(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        token = hold_as_human(store, "a")
        clock.advance(days=1000)
        renewed = move(store, Verb.RENEW, "a", token, lease=LEASE).task
        assert renewed.lease is not None
        assert (renewed.lease.holder, renewed.lease.expires_at) == (Holder.HUMAN, None)
        clock.advance(days=1000)
        assert claim(store) == []
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE

    def test_agents_of_the_same_name_never_share_a_task(self, store: Store) -> None:
        add(store, "a", "b")
        first, second = claim(store, "twin"), claim(store, "twin")
        assert only(first).task.id != only(second).task.id
        with nothing_changes(store), pytest.raises(Held):
            claim(store, "twin", "a")
        assert claim(store, "twin") == []

    def test_returning_agent_of_the_same_name_gets_a_new_attempt(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        first = hold(store, "a", "twin")
        clock.advance(hours=1)
        second = hold(store, "a", "twin")
        with nothing_changes(store), pytest.raises(LostLock):
            move(store, Verb.DONE, "a", first, by=Actor("twin"))
        assert move(store, Verb.DONE, "a", second, by=Actor("twin")).task.attempt == 2

    def test_attempt_rises_with_every_claim(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        attempts = []
        for verb in (Verb.RELEASE, Verb.FAIL, Verb.BLOCK, Verb.PAUSE, Verb.REVIEW, Verb.CANCEL, None, None):
            token = hold(store, "a")
            attempts.append(get(store, "a").attempt)
            clock.advance(minutes=1 if verb else 30)
            if verb is not None:
                move(store, verb, "a", token)
            back = {
                Verb.BLOCK: Verb.UNBLOCK, Verb.PAUSE: Verb.RESUME, Verb.REVIEW: Verb.REWORK, Verb.CANCEL: Verb.REOPEN,
            }  # fmt: skip
            if verb in back:
                move(store, back[verb], "a")
        hold_as_human(store, "a", force=True)
        attempts.append(get(store, "a").attempt)
        assert attempts == list(range(1, 10))
        if keeps_history(store):
            assert [event.attempt for event in events(store, "a") if event.verb == "claim"] == attempts

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_expired_task_without_retries_is_escalated(self, store: Store, clock: Clock, limit: int) -> None:
        add(store, draft("a", max_retries=limit))
        for retries in range(limit + 1):
            claimed = only(claim(store, "ann")).task
            assert claimed.retries == retries
            clock.advance(hours=1)
        last = get(store, "a")
        assert claim(store, "bob") == []
        given_up = get(store, "a")
        assert given_up.reason
        assert given_up == last._replace(
            status=Status.ESCALATED,
            retries=limit + 1,
            reason=given_up.reason,
            lease=None,
            ended="exhaust",
            spent_token=last.lease and last.lease.token,
            updated_at=store.now(),
        )
        if not keeps_history(store):
            return
        told = events(store, "a")[-1]
        assert (told.verb, told.agent, told.attempt) == ("exhaust", "ann", limit + 1)
        assert (told.source, told.target, told.reason) == (Status.ACTIVE, Status.ESCALATED, given_up.reason)

    def test_naming_a_task_without_retries_left_escalates_it_and_refuses(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        with pytest.raises(IllegalMove):
            claim(store, "bob", "a")
        assert get(store, "a").status is Status.ESCALATED
        if not keeps_history(store):
            return
        exhausted, refused = events(store, "a")[-2:]
        assert (exhausted.verb, exhausted.outcome) == ("exhaust", Outcome.OK)
        assert (refused.verb, refused.outcome, refused.agent) == ("claim", Outcome.REFUSED, "bob")
        assert (refused.source, refused.target) == (Status.ESCALATED, Status.ESCALATED)

    @needs("scopes")
    def test_an_exhausted_task_is_escalated_by_a_claim_in_any_scope(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        claim(store, scope="elsewhere")
        assert get(store, "a").status is Status.ESCALATED

    @needs("links")
    def test_exhausted_task_with_a_new_prerequisite_is_escalated(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0), "b")
        hold(store, "a")
        link(store, blocks("a", "b"))
        clock.advance(hours=1)
        assert claim_ids(store, "bob") == ["b"]
        assert get(store, "a").status is Status.ESCALATED

    def test_live_lease_without_retries_left_is_kept(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0), "b")
        token = hold(store, "a", lease=timedelta(hours=2))
        clock.advance(hours=1)
        claim(store, "bob")
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE

    def test_human_hold_without_retries_left_is_kept(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0), draft("b", not_before=store.now() + LEASE))
        hold_as_human(store, "a")
        clock.advance(days=1)
        claim(store, "bob")
        assert get(store, "a").status is Status.ACTIVE

    def test_failing_uses_up_retries_and_the_last_failure_escalates(self, store: Store) -> None:
        add(store, draft("a", max_retries=1))
        failed = move(store, Verb.FAIL, "a", hold(store, "a"), reason="first")
        assert (failed.task.status, failed.task.retries, failed.task.reason) == (Status.READY, 1, "first")
        failed = move(store, Verb.FAIL, "a", hold(store, "a"), reason="second")
        assert (failed.task.status, failed.task.retries, failed.task.reason) == (Status.ESCALATED, 2, "second")
        assert get(store, "a") == failed.task
        if keeps_history(store):
            assert events(store, "a")[-1].verb == "exhaust"

    def test_task_without_a_retry_limit_is_retried(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        for retries in range(5):
            assert only(claim(store)).task.retries == retries
            clock.advance(hours=1)

    @needs("exact leases")
    def test_an_edit_does_not_let_an_expired_task_pass_its_last_retry(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        amend(store, "a", Edit(title="Other"))
        assert peek_ids(store) == []
        assert claim(store, "bob") == []
        assert get(store, "a").status is Status.ESCALATED

    @needs("scopes")
    @pytest.mark.parametrize("woken", [False, True])
    def test_retries_may_be_limited_after_the_lease_has_expired(self, store: Store, clock: Clock, woken: bool) -> None:
        add(store, "a")
        hold(store, "a")
        clock.advance(hours=1)
        if woken:
            claim(store, scope="elsewhere")
        amend(store, "a", Edit(max_retries=0))
        assert peek_ids(store) == []
        assert claim(store, "bob") == []
        assert get(store, "a").status is Status.ESCALATED

    @needs("scopes")
    @pytest.mark.parametrize("woken", [False, True])
    def test_retries_may_be_granted_after_the_lease_has_expired(self, store: Store, clock: Clock, woken: bool) -> None:
        add(store, draft("a", max_retries=1), draft("b", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        hold(store, "b")
        if woken:
            claim(store, scope="elsewhere")
        clock.advance(hours=1)
        amend(store, "b", Edit(max_retries=1))
        assert peek_ids(store) == claim_ids(store, "bob", count=2) == ["a", "b"]

    @needs("transactions")
    def test_a_restored_task_does_not_pass_its_last_retry(self, store: Store, another: Store, clock: Clock) -> None:
        add(store, draft("a", max_retries=0))
        hold(store, "a")
        clock.advance(hours=1)
        restore(another, dump(store))
        assert peek_ids(another) == []
        assert claim(another, "bob") == []
        assert get(another, "a").status is Status.ESCALATED

    @needs("links")
    def test_prerequisite_added_during_work_blocks_only_the_next_attempt(self, store: Store, clock: Clock) -> None:
        add(store, "a", draft("b", priority=9))
        token = hold(store, "a")
        link(store, blocks("a", "b"))
        move(store, Verb.RENEW, "a", token, lease=LEASE)
        clock.advance(hours=1)
        assert peek_ids(store) == ["b"]
        with nothing_changes(store), pytest.raises(Waiting):
            claim(store, "bob", "a")
        assert claim_ids(store, "bob", count=2) == ["b"]

    @needs("links")
    def test_holder_may_finish_a_task_with_a_new_prerequisite(self, store: Store) -> None:
        add(store, "a", "b")
        token = hold(store, "a")
        link(store, blocks("a", "b"))
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE


def append(store: Store, token: str | None, start: int, text: str, task: str = "a", scope: str = SCOPE) -> int:
    assert token is not None
    return output_of(store).append(scope, task, token, start, text)


def read(store: Store, attempt: int | None = None, after: int = 0, task: str = "a") -> OutputPage:
    return output_of(store).read(SCOPE, task, attempt, after)


def text(page: OutputPage) -> str:
    return "".join(piece.text for piece in page.pieces)


@needs("output")
class OutputTests(Suite):
    """The output of an attempt is appended with its token, limited in size, and readable by all agents."""

    @pytest.fixture
    def token(self, store: Store) -> str:
        add(store, "a", "b")
        token = hold(store, "a")
        assert token is not None
        return token

    def test_output_is_read_by_others_and_later(
        self, store: Store, beside: Store, token: str, reopen: Callable[[], Store]
    ) -> None:
        assert append(store, token, 0, "one\n") == 4
        assert append(store, token, 4, "näive ☕\n") == 4 + len("näive ☕\n".encode())
        assert text(read(beside)) == "one\nnäive ☕\n"
        assert text(read(reopen())) == "one\nnäive ☕\n"

    def test_task_without_output_has_an_empty_page(self, store: Store, token: str) -> None:
        assert token
        assert read(store) == (1, (), 0, False, ())
        assert read(store, task="b") == (0, (), 0, True, ())

    def test_output_is_read_on_from_the_end_of_a_page(self, store: Store, token: str) -> None:
        append(store, token, 0, "one\n")
        first = read(store)
        assert read(store, after=first.end) == (1, (), first.end, False, (1,))
        append(store, token, first.end, "two\n")
        assert read(store, after=first.end).pieces == ((4, "two\n"),)

    def test_repeated_append_is_kept_once(self, store: Store, token: str) -> None:
        append(store, token, 0, "one\ntwo\n")
        assert append(store, token, 0, "one\ntwo\n") == 8
        assert append(store, token, 4, "two\nthree\n") == 14
        assert append(store, token, 14, "") == 14
        assert text(read(store)) == "one\ntwo\nthree\n"

    def test_output_gap_has_the_dropped_length(self, store: Store, token: str) -> None:
        append(store, token, 0, "one\n")
        assert append(store, token, 1000, "later\n") == 1006
        assert read(store).pieces == ((0, "one\n"), (1000, "later\n"))

    def test_long_output_keeps_its_head_and_its_tail(self, store: Store, token: str) -> None:
        end, line = 0, "0123456789abcdé\n"  # 17 bytes, so that pieces do not end where characters do
        while end < 3 * (output.HEAD + output.TAIL):
            end = append(store, token, end, line * 2000)
        page = read(store)
        whole = line * (end // 17)
        sizes = sum(piece.end - piece.start for piece in page.pieces)
        assert page.end == end
        assert output.HEAD + output.TAIL <= sizes <= output.HEAD + output.TAIL + 2 * output.PIECE
        assert page.pieces[0].start == 0
        for piece in page.pieces:
            assert piece.end - piece.start <= output.PIECE
            assert whole.encode()[piece.start : piece.end].decode() == piece.text

    def test_output_is_kept_for_the_latest_attempts(self, store: Store, token: str) -> None:
        given: str | None = token
        for number in range(1, output.ATTEMPTS + 3):
            append(store, given, 0, f"attempt {number}")
            move(store, Verb.RELEASE, "a", given)
            given = hold(store, "a")
        append(store, given, 0, "last")
        kept = tuple(range(4, output.ATTEMPTS + 4))
        assert read(store).attempts == kept
        assert [text(read(store, attempt=number)) for number in (3, 4, kept[-1])] == ["", "attempt 4", "last"]
        assert text(read(store)) == "last"

    def test_output_page_tells_whether_the_attempt_has_ended(self, store: Store, token: str, clock: Clock) -> None:
        append(store, token, 0, "x")
        assert not read(store).over
        clock.advance(seconds=LEASE.total_seconds() + 1)
        assert read(store).over
        again = hold(store, "a")
        assert [read(store).over, read(store, attempt=1).over] == [False, True]
        move(store, Verb.DONE, "a", again)
        assert read(store).over

    def test_output_sent_after_the_end_of_an_attempt_is_kept(self, store: Store, token: str) -> None:
        move(store, Verb.DONE, "a", token)
        append(store, token, 0, "bye\n")
        assert text(read(store)) == "bye\n"

    def test_append_needs_the_token_of_the_latest_attempt(self, store: Store, token: str, clock: Clock) -> None:
        clock.advance(seconds=LEASE.total_seconds() + 1)
        later = hold(store, "a", "bob")
        append(store, later, 0, "bob's")
        for wrong in (token, "secret-of-nobody", ""):
            with no_trace(store), pytest.raises(LostLock):
                append(store, wrong, 0, "ann's")
        assert [text(read(store)), text(read(store, attempt=1))] == ["bob's", ""]

    def test_unknown_task_has_no_output(self, store: Store, token: str) -> None:
        with pytest.raises(NotFound):
            read(store, task="nowhere")
        with pytest.raises(NotFound):
            append(store, token, 0, "x", task="nowhere")
        with pytest.raises(NotFound):
            append(store, token, 0, "x", scope="elsewhere")

    @needs("history")
    def test_output_is_no_event_and_changes_no_task(self, store: Store, token: str) -> None:
        with no_trace(store):
            append(store, token, 0, "x")

    @needs("history")
    def test_old_output_is_pruned_with_old_events(self, store: Store, token: str, clock: Clock) -> None:
        append(store, token, 0, "old")
        clock.advance(hours=1)
        append(store, token, 3, "new")
        store.prune(events_before=store.now() - timedelta(minutes=1), tasks_before=None, progress=quiet)
        assert read(store).pieces == ((3, "new"),)

    @needs("history")
    def test_output_is_deleted_with_its_task(self, store: Store, token: str, clock: Clock) -> None:
        append(store, token, 0, "x")
        move(store, Verb.DONE, "a", token)
        clock.advance(hours=1)
        store.prune(events_before=None, tasks_before=store.now(), progress=quiet)
        with pytest.raises(NotFound):
            read(store)
        add(store, "a")
        claim(store, "ann", "a")
        assert read(store) == (1, (), 0, False, ())
