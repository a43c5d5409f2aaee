"""Proof of a holder: tokens, names, late holders, people, and lost answers."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import DibsError, Held, IllegalMove, LostLock
from dibs.core.lifecycle import Move, Verb, claimed, exhausted, moved, refusal
from dibs.core.task import Actor, Claimed, Status, Task

from .samples import LEASE, NOW, OTHER_TOKEN, SOON, TOKEN, human_lease, make_lease, make_task, request, task_in

if TYPE_CHECKING:
    from datetime import datetime

FINISHING = (Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RELEASE, Verb.PAUSE)
OF_A_HOLDER = (Verb.RENEW, *FINISHING)
EXPIRY = NOW + LEASE
LATE = EXPIRY + timedelta(minutes=3)


def ask(verb: Verb, token: str | None = TOKEN, *, agent: str | None = None) -> Move:
    return Move(verb, "a", "desk", Actor(agent), token=token, lease=LEASE)


def refused(task: Task, move: Move, now: datetime = SOON) -> DibsError:
    with pytest.raises(DibsError) as error:
        moved(task, move, now)
    return error.value


# Tokens


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("verb", Verb)
def test_a_token_that_is_not_the_leases_has_lost(status: Status, verb: Verb) -> None:
    task = task_in(status)
    as_it_was = task._asdict()
    assert isinstance(refused(task, ask(verb, OTHER_TOKEN)), LostLock)
    assert task._asdict() == as_it_was


@pytest.mark.parametrize("verb", Verb)
def test_force_does_not_save_a_lost_token(verb: Verb) -> None:
    assert isinstance(refused(task_in(Status.ACTIVE), ask(verb, OTHER_TOKEN)._replace(force=True)), LostLock)


@pytest.mark.parametrize("verb", OF_A_HOLDER)
@pytest.mark.parametrize("now", [EXPIRY, LATE])
def test_an_expired_lease_has_lost(verb: Verb, now: datetime) -> None:
    assert isinstance(refused(task_in(Status.ACTIVE), ask(verb), now), LostLock)


@pytest.mark.parametrize("verb", OF_A_HOLDER)
def test_a_lease_holds_until_the_moment_it_expires(verb: Verb) -> None:
    assert moved(task_in(Status.ACTIVE), ask(verb), EXPIRY - timedelta(microseconds=1)).updated_at < EXPIRY


def test_a_late_holder_reads_how_late() -> None:
    error = refused(task_in(Status.ACTIVE), ask(Verb.DONE), LATE)
    assert "expired 3m ago" in error.message


def test_lost_holder_learns_the_new_holder() -> None:
    taken = claimed(task_in(Status.ACTIVE), request("bo"), OTHER_TOKEN, LATE)
    error = refused(taken, ask(Verb.DONE), LATE)
    assert isinstance(error, LostLock)
    assert error.holder == "bo"
    assert "held by bo (attempt 2)" in error.message


def test_lost_holder_learns_the_status_of_a_free_task() -> None:
    error = refused(task_in(Status.CANCELED), ask(Verb.DONE))
    assert isinstance(error, LostLock)
    assert "it is canceled" in error.message
    assert error.holder is None


def test_lost_holder_gets_no_expired_holder() -> None:
    error = refused(task_in(Status.ACTIVE), ask(Verb.DONE, OTHER_TOKEN), LATE)
    assert isinstance(error, LostLock)
    assert error.holder is None
    assert "You no longer hold a" in error.message


@pytest.mark.parametrize("verb", OF_A_HOLDER)
def test_without_proof_the_holder_is_named(verb: Verb) -> None:
    error = refused(task_in(Status.ACTIVE), ask(verb, None), NOW)
    assert isinstance(error, Held)
    assert error.holder == "ada"
    assert error.retry_after_ms == LEASE // timedelta(milliseconds=1)
    assert f"'{verb}' needs the token" in error.message


def test_without_proof_an_expired_task_is_to_be_claimed_first() -> None:
    error = refused(task_in(Status.ACTIVE), ask(Verb.DONE, None), LATE)
    assert isinstance(error, IllegalMove)
    assert "claim it first" in error.message


# Policies: late holders, names; and people


@pytest.mark.parametrize("verb", OF_A_HOLDER)
def test_where_late_is_fine_the_token_outlives_the_lease(verb: Verb) -> None:
    after = moved(task_in(Status.ACTIVE), ask(verb)._replace(late_ok=True), LATE)
    assert after.updated_at == LATE


def test_where_late_is_fine_a_new_holder_still_wins() -> None:
    taken = claimed(task_in(Status.ACTIVE), request("bo"), OTHER_TOKEN, LATE)
    assert isinstance(refused(taken, ask(Verb.DONE)._replace(late_ok=True), LATE), LostLock)


@pytest.mark.parametrize("verb", OF_A_HOLDER)
def test_where_names_count_the_holders_name_is_proof(verb: Verb) -> None:
    after = moved(task_in(Status.ACTIVE), ask(verb, None, agent="ada")._replace(named=True), SOON)
    assert after.updated_at == SOON


@pytest.mark.parametrize(
    ("agent", "named"),
    [("bo", True), (None, True), ("ada", False)],
    ids=["another's name", "no name", "a name where it does not count"],
)
def test_other_names_are_no_proof(agent: str | None, named: bool) -> None:
    move = ask(Verb.DONE, None, agent=agent)._replace(named=named)
    assert isinstance(refused(task_in(Status.ACTIVE), move), Held)


def test_move_has_no_authority_by_default() -> None:
    move = Move(Verb.DONE, "a", "desk", Actor("ada"))
    assert isinstance(refused(task_in(Status.ACTIVE), move), Held)
    assert isinstance(refused(task_in(Status.ACTIVE), move._replace(token=TOKEN), LATE), LostLock)


def test_a_name_does_not_help_with_a_wrong_token() -> None:
    move = ask(Verb.DONE, OTHER_TOKEN, agent="ada")._replace(named=True)
    assert isinstance(refused(task_in(Status.ACTIVE), move), LostLock)


def test_name_proves_live_or_tolerated_late_leases() -> None:
    move = ask(Verb.DONE, None, agent="ada")._replace(named=True)
    assert isinstance(refused(task_in(Status.ACTIVE), move, LATE), IllegalMove)
    assert moved(task_in(Status.ACTIVE), move._replace(late_ok=True), LATE).status is Status.DONE


@pytest.mark.parametrize("verb", OF_A_HOLDER)
@pytest.mark.parametrize("now", [SOON, LATE])
def test_a_person_overrules_a_holder(verb: Verb, now: datetime) -> None:
    after = moved(task_in(Status.ACTIVE), ask(verb, None)._replace(force=True), now)
    assert after.updated_at == now


# Answers that got lost


@pytest.mark.parametrize("verb", FINISHING)
def test_a_repeated_finish_is_recognised_and_changes_nothing(verb: Verb) -> None:
    once = moved(task_in(Status.ACTIVE), ask(verb), SOON)
    assert moved(once, ask(verb), LATE) is once


def test_a_repeated_failure_is_recognised_when_it_was_the_last() -> None:
    once = moved(task_in(Status.ACTIVE, max_retries=0), ask(Verb.FAIL), SOON)
    assert once.status is Status.ESCALATED
    assert moved(once, ask(Verb.FAIL), LATE) is once


@pytest.mark.parametrize(("first", "second"), [pair for pair in product(FINISHING, OF_A_HOLDER) if pair[0] != pair[1]])
def test_another_verb_with_a_spent_token_has_lost(first: Verb, second: Verb) -> None:
    once = moved(task_in(Status.ACTIVE), ask(first), SOON)
    assert isinstance(refused(once, ask(second)), LostLock)


@pytest.mark.parametrize(
    ("first", "then", "second"),
    [
        (Verb.PAUSE, Verb.RESUME, Verb.RELEASE),
        (Verb.CANCEL, Verb.REOPEN, Verb.FAIL),
        (Verb.REVIEW, Verb.APPROVE, Verb.DONE),
    ],
)
def test_late_verb_is_lost_after_others_moved_the_task(first: Verb, then: Verb, second: Verb) -> None:
    once = moved(task_in(Status.ACTIVE), ask(first), SOON)
    moved_on = moved(once, ask(then, None), SOON)
    assert isinstance(refused(moved_on, ask(second)), LostLock)


def test_a_spent_token_is_forgotten_with_the_next_claim() -> None:
    once = moved(task_in(Status.ACTIVE), ask(Verb.RELEASE), SOON)
    again = claimed(once, request("bo"), OTHER_TOKEN, SOON)
    assert again.spent_token is None
    assert isinstance(refused(again, ask(Verb.RELEASE)), LostLock)


def test_nothing_is_repeated_by_a_token_that_was_never_spent() -> None:
    once = moved(task_in(Status.ACTIVE), ask(Verb.DONE), SOON)
    assert isinstance(refused(once, ask(Verb.DONE, OTHER_TOKEN)), LostLock)


# Tokens stay secret

ENDS_OF_TIME = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400))


@given(
    status=st.sampled_from(Status),
    verb=st.sampled_from(Verb),
    token=st.uuids(version=4).map(str),
    given_token=st.one_of(st.none(), st.uuids(version=4).map(str)),
    own=st.booleans(),
    later=ENDS_OF_TIME,
)
def test_no_message_and_no_repr_of_a_task_holds_a_token(
    status: Status, verb: Verb, token: str, given_token: str | None, own: bool, later: timedelta
) -> None:
    task = task_in(status)
    task = task._replace(lease=make_lease(token)) if task.lease else task._replace(spent_token=token)
    shown: list[object] = [task, task.lease, Claimed(task), (task, task.lease)]
    try:
        shown.append(moved(task, ask(verb, token if own else given_token), NOW + later))
    except DibsError as error:
        shown += [error, error.args, error.message, error.holder]
    shown.append(refusal(task, request("bo"), NOW + later))
    for text in (f"{thing!r} {thing}" for thing in shown):
        assert token not in text
        assert given_token is None or given_token not in text


def test_the_repr_of_a_move_keeps_its_token_secret() -> None:
    assert TOKEN not in repr(ask(Verb.DONE))
    assert "done" in repr(ask(Verb.DONE))


def test_the_repr_of_a_claim_keeps_its_tokens_secret() -> None:
    assert TOKEN not in repr(request())
    assert "ada" in repr(request())


# Human holds


@given(later=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365_000)))
def test_a_human_hold_never_expires(later: timedelta) -> None:
    task = task_in(Status.ACTIVE, lease=human_lease(), max_retries=0)
    now = NOW + later
    assert task.held(now)
    assert exhausted(task, now) is None
    assert isinstance(refusal(task, request(), now), Held)
    assert moved(task, ask(Verb.RENEW), now).lease == human_lease()
    assert moved(task, ask(Verb.DONE), now).finished_by == "bo"


def test_a_human_hold_gives_no_time_to_try_again() -> None:
    held = refusal(task_in(Status.ACTIVE, lease=human_lease()), request(), SOON)
    assert isinstance(held, Held)
    assert (held.holder, held.retry_after_ms) == ("bo", None)
    assert "held by bo (human)" in held.message


def test_a_lease_without_an_end_is_none_for_an_agent() -> None:
    assert not make_task(lease=make_lease(expires_at=None)).held(NOW)
