"""What a claim, a failure and every other move leave behind, and who is refused a claim."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import DibsError, Held, IllegalMove, NotForYou, Waiting
from dibs.core.lifecycle import Move, Verb, claimed, exhausted, moved, refusal
from dibs.core.task import Actor, Holder, Lease, Status, Task

from .samples import LEASE, NOW, OTHER_TOKEN, SOON, TOKEN, human_lease, make_task, request, task_in

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest

LATE = NOW + LEASE + timedelta(minutes=3)
CLAIMABLE = (Status.READY, Status.ACTIVE)


def go(task: Task, verb: Verb, **fields: Any) -> Task:
    token = task.lease.token if task.lease else None
    return moved(task, Move(verb, task.id, task.scope, token=token, **fields), SOON)


# Claiming


@given(
    status=st.sampled_from([status for status in Status if status not in {Status.DONE, Status.CANCELED}]),
    attempt=st.integers(0, 10**6),
    human=st.booleans(),
)
def test_a_claim_is_exactly_one_attempt_more(status: Status, attempt: int, human: bool) -> None:
    asked = request("bo", holder=Holder.HUMAN if human else Holder.AGENT)
    after = claimed(task_in(status, attempt=attempt), asked, OTHER_TOKEN, SOON)
    assert after.attempt == attempt + 1
    assert after.lease is not None
    assert after.lease.attempt == attempt + 1


def test_claim_grants_the_requested_lease() -> None:
    asked = request("bo", run="r1", lease=timedelta(minutes=7))
    after = claimed(make_task(), asked, OTHER_TOKEN, SOON)
    assert after.lease == Lease(OTHER_TOKEN, 1, "bo", "r1", Holder.AGENT, SOON, SOON + timedelta(minutes=7))
    assert (after.started_at, after.updated_at) == (SOON, SOON)


def test_a_lease_lasts_twenty_minutes_unless_asked_otherwise() -> None:
    lease = claimed(make_task(), request(), TOKEN, NOW).lease
    assert lease is not None
    assert lease.expires_at == NOW + timedelta(minutes=20)


def test_a_person_holds_without_an_end() -> None:
    lease = claimed(make_task(), request("bo", holder=Holder.HUMAN), OTHER_TOKEN, SOON).lease
    assert lease is not None
    assert (lease.holder, lease.expires_at) == (Holder.HUMAN, None)


def test_a_claim_starts_afresh() -> None:
    left: dict[str, Any] = {
        "reason": "r",
        "unblock_action": "u",
        "next_check_at": NOW,
        "not_before": NOW,
        "spent_token": TOKEN,
    }
    after = claimed(make_task(**left, finished_by="x", finished_at=NOW), request(), OTHER_TOKEN, SOON)
    assert {getattr(after, name) for name in (*left, "finished_by", "finished_at")} == {None}


def test_claiming_a_paused_task_ends_the_pause() -> None:
    after = claimed(task_in(Status.PAUSED), request("bo", holder=Holder.HUMAN, force=True), OTHER_TOKEN, SOON)
    assert after.paused_from is None


def test_claim_of_expired_task_costs_a_retry() -> None:
    assert claimed(task_in(Status.ACTIVE, retries=1), request(), OTHER_TOKEN, LATE).retries == 2
    assert claimed(make_task(retries=1), request(), OTHER_TOKEN, LATE).retries == 1


# Failing


def test_a_failure_with_retries_left_queues_the_task_again() -> None:
    after = go(task_in(Status.ACTIVE, max_retries=1), Verb.FAIL, reason="boom", not_before=LATE)
    assert (after.status, after.retries, after.reason, after.not_before) == (Status.READY, 1, "boom", LATE)
    assert after.attempt == 1


def test_a_failure_with_no_retry_left_is_escalated() -> None:
    after = go(task_in(Status.ACTIVE, max_retries=1, retries=1), Verb.FAIL, reason="boom")
    assert (after.status, after.reason) == (Status.ESCALATED, "boom")
    assert after.spent_token == TOKEN


@given(max_retries=st.integers(0, 12))
def test_task_is_tried_once_plus_its_retries(max_retries: int) -> None:
    task, tries = make_task(max_retries=max_retries), 0
    while task.status is Status.READY:
        task = go(claimed(task, request(), TOKEN, NOW), Verb.FAIL)
        tries += 1
    assert task.status is Status.ESCALATED
    assert tries == max_retries + 1


@given(retries=st.integers(0, 10**6))
def test_without_a_limit_a_task_is_tried_forever(retries: int) -> None:
    assert go(task_in(Status.ACTIVE, retries=retries), Verb.FAIL).status is Status.READY


def test_illegal_failure_is_refused_under_its_own_verb() -> None:
    task = make_task(max_retries=0)
    with pytest.raises(IllegalMove, match="'fail' does not apply"):
        moved(task, Move(Verb.FAIL, task.id, task.scope), SOON)


def test_an_expired_lease_without_a_retry_left_is_escalated() -> None:
    after = exhausted(task_in(Status.ACTIVE, max_retries=2, retries=2), LATE)
    assert after is not None
    assert (after.status, after.lease, after.spent_token) == (Status.ESCALATED, None, TOKEN)
    assert after.reason == "lease expired and no retry is left"


@pytest.mark.parametrize(
    ("task", "now"),
    [
        (task_in(Status.ACTIVE, max_retries=0), SOON),
        (task_in(Status.ACTIVE, max_retries=2, retries=1), LATE),
        (task_in(Status.ACTIVE, retries=99), LATE),
        (task_in(Status.READY, max_retries=0), LATE),
    ],
    ids=["live", "a retry left", "no limit", "not active"],
)
def test_anything_else_is_not_exhausted(task: Task, now: Any) -> None:
    assert exhausted(task, now) is None


# The other moves


def test_done_keeps_result_and_finisher() -> None:
    task = task_in(Status.ACTIVE, reason="was blocked")
    after = go(task, Verb.DONE, by=Actor("someone else"), result={"sha": "abc"}, artifacts=("a.txt",))
    assert (after.result, after.artifacts) == ({"sha": "abc"}, ("a.txt",))
    assert (after.finished_at, after.finished_by, after.reason) == (SOON, "ada", None)


def test_done_without_a_result_keeps_the_earlier_one() -> None:
    task = task_in(Status.ACTIVE, result="first", artifacts=("a",))
    after = go(task, Verb.DONE)
    assert (after.result, after.artifacts) == ("first", ("a",))


@pytest.mark.parametrize("result", [0, False, "", [], {}])
def test_an_empty_result_is_a_result(result: Any) -> None:
    assert go(task_in(Status.ACTIVE, result="first"), Verb.DONE, result=result).result == result


def test_block_keeps_reason_and_action() -> None:
    after = go(make_task(), Verb.BLOCK, reason="no key", unblock_action="ask Bo", next_check_at=LATE)
    assert (after.reason, after.unblock_action, after.next_check_at) == ("no key", "ask Bo", LATE)
    free = go(after, Verb.UNBLOCK)
    assert (free.reason, free.unblock_action, free.next_check_at) == (None, None, None)


def test_unblocking_an_escalated_task_gives_it_its_retries_back() -> None:
    assert go(task_in(Status.ESCALATED), Verb.UNBLOCK).retries == 0


def test_review_keeps_the_author_until_it_is_sent_back() -> None:
    review = go(task_in(Status.ACTIVE), Verb.REVIEW, result=1)
    assert (review.finished_by, review.finished_at, review.result) == ("ada", None, 1)
    approved = go(review, Verb.APPROVE)
    assert (approved.finished_by, approved.finished_at) == ("ada", SOON)
    sent_back = go(review, Verb.REWORK, reason="typo")
    assert (sent_back.finished_by, sent_back.reason) == (None, "typo")


def test_release_costs_no_retry() -> None:
    after = go(task_in(Status.ACTIVE, retries=1), Verb.RELEASE, reason="shift ends", not_before=LATE)
    assert (after.retries, after.reason, after.not_before) == (1, "shift ends", LATE)


def test_reopening_forgets_the_end() -> None:
    gone = task_in(Status.CANCELED, retries=2, merged_into="b", finished_by="x")
    gone = gone._replace(unblock_action="ask", next_check_at=LATE)  # it was blocked before that
    after = go(gone, Verb.REOPEN)
    assert (after.unblock_action, after.next_check_at) == (None, None)
    assert (after.reason, after.finished_at, after.finished_by, after.merged_into, after.retries) == (
        None, None, None, None, 0,
    )  # fmt: skip


def test_renewing_moves_the_end_from_now_and_nothing_else() -> None:
    task = task_in(Status.ACTIVE)
    after = go(task, Verb.RENEW, lease=timedelta(hours=1))
    assert task.lease is not None
    assert after == task._replace(lease=task.lease._replace(expires_at=SOON + timedelta(hours=1)), updated_at=SOON)


def test_renewing_without_a_span_leaves_the_end_alone() -> None:
    task = task_in(Status.ACTIVE)
    assert go(task, Verb.RENEW).lease == task.lease


@pytest.mark.parametrize(("requeue", "queued_at"), [(True, SOON), (False, NOW)])
def test_policy_can_move_a_task_to_the_queue_end(requeue: bool, queued_at: Any) -> None:
    assert go(make_task(), Verb.BLOCK, requeue=requeue).queued_at == queued_at


# Claims


def why_not(task: Task, asked: ClaimRequest | None = None, now: Any = SOON) -> DibsError | None:
    return refusal(task, asked or request(), now)


def test_a_ready_task_may_be_claimed() -> None:
    assert why_not(make_task()) is None


def test_an_expired_task_may_be_claimed() -> None:
    assert why_not(task_in(Status.ACTIVE), now=LATE) is None
    assert why_not(task_in(Status.ACTIVE), now=NOW + LEASE) is None


@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELED])
@pytest.mark.parametrize("force", [False, True])
def test_a_finished_task_may_not_even_by_force(status: Status, force: bool) -> None:
    error = why_not(task_in(status), request("bo", holder=Holder.HUMAN, force=force))
    assert isinstance(error, IllegalMove)
    assert f"is {status}" in error.message


def test_a_held_task_names_its_holder_and_when_to_try_again() -> None:
    error = why_not(task_in(Status.ACTIVE))
    assert isinstance(error, Held)
    assert (error.holder, error.retry_after_ms) == ("ada", 15 * 60_000)
    assert "for another 15m" in error.message


@pytest.mark.parametrize("status", [Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED])
@pytest.mark.parametrize("holder", Holder)
def test_unclaimable_task_gives_its_reason(status: Status, holder: Holder) -> None:
    task = task_in(status, reason="ask Bo")
    error = why_not(task, request(holder=holder))
    assert isinstance(error, IllegalMove)
    assert f"is {status} (ask Bo)" in error.message


@pytest.mark.parametrize("status", CLAIMABLE)
@pytest.mark.parametrize("holder", Holder)
def test_a_task_with_unfinished_prerequisites_waits(status: Status, holder: Holder) -> None:
    error = why_not(task_in(status, blockers=2), request(holder=holder), LATE)
    assert isinstance(error, Waiting)
    assert "2 unfinished" in error.message


def test_a_task_that_is_not_due_says_when_it_is() -> None:
    error = why_not(make_task(not_before=SOON + timedelta(seconds=90)))
    assert isinstance(error, Waiting)
    assert error.retry_after_ms == 90_000
    assert "1m 30s" in error.message
    assert why_not(make_task(not_before=SOON)) is None


def test_a_task_assigned_to_another_is_not_for_you() -> None:
    error = why_not(make_task(assigned_to="bo"))
    assert isinstance(error, NotForYou)
    assert "assigned to bo" in error.message
    assert why_not(make_task(assigned_to="ada")) is None


def test_a_task_that_requires_more_is_not_for_you() -> None:
    task = make_task(requires=("gpu", "rust", "sql"))
    error = why_not(task, request(can=frozenset({"rust", "other"})))
    assert isinstance(error, NotForYou)
    assert "requires gpu, sql;" in error.message
    assert why_not(task, request(can=frozenset({"gpu", "rust", "sql"}))) is None


def test_person_may_claim_assigned_and_special_tasks() -> None:
    asked = request("bo", holder=Holder.HUMAN)
    assert why_not(make_task(assigned_to="ada", requires=("gpu",)), asked) is None


@pytest.mark.parametrize("status", [status for status in Status if status not in {Status.DONE, Status.CANCELED}])
def test_forced_person_claim_takes_any_unfinished_task(status: Status) -> None:
    task = task_in(status, blockers=3, assigned_to="ada", not_before=LATE)
    assert why_not(task, request("bo", holder=Holder.HUMAN, force=True)) is None


def test_an_agent_cannot_force() -> None:
    assert isinstance(why_not(task_in(Status.ACTIVE), request("bo", force=True)), Held)
    assert isinstance(why_not(task_in(Status.PAUSED), request("bo", force=True)), IllegalMove)


@given(
    status=st.sampled_from(Status),
    blockers=st.integers(0, 2),
    later=st.timedeltas(min_value=timedelta(0), max_value=2 * LEASE),
    held_by_person=st.booleans(),
    force=st.booleans(),
)
def test_claims_are_refused_only_for_listed_reasons(
    status: Status, blockers: int, later: timedelta, held_by_person: bool, force: bool
) -> None:
    task = task_in(status, blockers=blockers)
    if task.lease is not None and held_by_person:
        task = task._replace(lease=human_lease())
    asked = request("bo", holder=Holder.HUMAN, force=force)
    live = task.lease is not None and (held_by_person or later < LEASE)
    may = status not in {Status.DONE, Status.CANCELED} and (
        force or (status in CLAIMABLE and not live and not blockers)
    )
    assert (refusal(task, asked, NOW + later) is None) == may


# A whole life

STEPS = st.lists(st.tuples(st.sampled_from(Verb), st.integers(0, 30), st.booleans()), max_size=25)


@given(steps=STEPS, max_retries=st.one_of(st.none(), st.integers(0, 2)))
def test_lease_and_attempt_stay_consistent_after_any_move(
    steps: list[tuple[Verb, int, bool]], max_retries: int | None
) -> None:
    task, now = make_task(max_retries=max_retries), NOW
    for step, (verb, minutes, force) in enumerate(steps):
        now += timedelta(minutes=minutes)
        after = _lived(task, verb, force, now, f"token {step}")
        assert (after.status is Status.ACTIVE) == (after.lease is not None)
        assert after.attempt == task.attempt + (verb is Verb.CLAIM and after is not task)
        assert after.lease is None or after.lease.attempt == after.attempt
        assert after.lease is None or after.lease.token != after.spent_token
        assert after.finished == (after.finished_at is not None)
        assert task.status is not Status.DONE or after is task or verb is Verb.REOPEN
        task = after


def _lived(task: Task, verb: Verb, force: bool, now: Any, token: str) -> Task:
    """Apply one move; a refused one changes nothing."""
    if verb is Verb.CLAIM:
        asked = request(holder=Holder.HUMAN if force else Holder.AGENT, force=force)
        return task if refusal(task, asked, now) else claimed(task, asked, token, now)
    try:
        own = task.lease.token if task.lease and not force else None
        return moved(task, Move(verb, task.id, task.scope, token=own, force=force, lease=LEASE), now)
    except DibsError:
        return task
