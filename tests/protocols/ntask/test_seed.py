"""The pull policy: each sentence of ntask's document, on every kind of store. Tests follow docs/reference/ntask.md
where it differs; test_notion.py tests single properties.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from dibs.core.times import time_from

if TYPE_CHECKING:
    from support.ntask import Held, Ntask

LEASE = 20 * 60
LATE = LEASE + 200  # after any margin
OTHER = "00000000-0000-4000-8000-000000000000"
LOCK_KEYS = {"claimed_by", "agent_run", "agent", "lock_token", "lock_expires"}


def end(ntask: Ntask, held: Held, how: str) -> None:
    """Finish an attempt with the given command."""
    ntask.ok(how, *held.words, *MORE[how])


MORE = {
    "heartbeat": (),
    "complete": ("--artifacts", "see PR 7"),
    "block": ("--reason", "no key", "--unblock-action", "ask Zoe"),
    "review": (),
    "cancel": ("--reason", "not needed"),
    "release": (),
}
ENDS = [how for how in MORE if how != "heartbeat"]


# Task selection


def test_same_state_gives_every_agent_the_same_selection(ntask: Ntask) -> None:
    for number in range(6):
        ntask.create(f"T{number}", priority=number % 3)
    assert len({ntask.next() for _ in range(5)}) == 1


def test_only_ready_tasks_are_eligible(ntask: Ntask) -> None:
    ntask.create("later", status="BACKLOG")
    for how in ENDS:
        if how != "release":
            end(ntask, ntask.claim(ntask.create(how)), how)
    ntask.claim(ntask.create("taken"))
    assert ntask.next() is None
    ready = ntask.create("ready", priority=-1)
    assert ntask.next() == ready


def test_human_claimed_tasks_are_never_pulled(ntask: Ntask) -> None:
    task = ntask.create()
    ntask.place.person_takes(task)
    for _ in range(3):
        assert ntask.next() is None
        assert ntask("claim", task, "--run-id", "r", "--agent-name", "a").code == "CONFLICT"
        ntask.place.let(LATE * 100)


def test_a_task_whose_lock_has_expired_is_eligible(ntask: Ntask) -> None:
    """This also covers dead agents, whose tasks the document never selects again."""
    task = ntask.create()
    first = ntask.claim(task)
    assert ntask.next() is None
    ntask.place.let(LATE)
    assert ntask.next() == task
    second = ntask.claim(task, run="run-2", agent="bob")
    assert second.token != first.token


def test_claim_ignores_sub_tasks(ntask: Ntask) -> None:
    parent = ntask.create("parent", priority=9)
    ntask.create("child", parent=parent)
    assert ntask.next() == parent
    ntask.claim(parent)


def test_sub_task_completion_is_enforced_at_done_time(ntask: Ntask) -> None:
    parent = ntask.create("parent")
    child = ntask.create("child", parent=parent)
    assert ntask.ok("get", child)["parent_task_id"] == parent
    held = ntask.claim(parent)
    refused = ntask("complete", *held.words, "--artifacts", "x")
    assert (refused.code, refused.status) == ("INCOMPLETE_SUBTASKS", 3)
    assert ntask.status(parent) == "IN_PROGRESS"
    ntask.ok("cancel", child, "--reason", "no need")
    assert ntask.ok("complete", *held.words, "--artifacts", "x")["status"] == "DONE"


def test_the_lock_is_checked_before_the_sub_tasks_are(ntask: Ntask) -> None:
    parent = ntask.create("parent")
    ntask.create("child", parent=parent)
    held = ntask.claim(parent)
    assert ntask("complete", *held._replace(token="0" * 36).words, "--artifacts", "x").code == "LOST_LOCK"


# Sort order


def test_eligible_tasks_are_sorted_by_class_rank_first(ntask: Ntask) -> None:
    classes = ("INTANGIBLE", "STANDARD", "FIXED_DATE", "EXPEDITE")
    made = [ntask.create(each, class_of_service=each, priority=9 - rank) for rank, each in enumerate(classes)]
    for task in reversed(made):
        assert ntask.next() == task
        ntask.claim(task)


def test_tasks_missing_class_are_treated_as_standard(ntask: Ntask) -> None:
    task = ntask.create()
    assert ntask.ok("get", task)["class"] == "STANDARD"
    before = ntask.create(class_of_service="FIXED_DATE", priority=0)
    ntask.create(class_of_service="INTANGIBLE", priority=99)
    assert ntask.next() == before
    ntask.claim(before)
    assert ntask.next() == task


def test_then_by_priority_where_the_higher_number_is_more_urgent(ntask: Ntask) -> None:
    made = {number: ntask.create(priority=number) for number in (3, 10, 5, 0, -2, 7.5)}
    for number in sorted(made, reverse=True):
        assert ntask.next() == made[number]
        assert ntask.ok("get", made[number])["priority"] == number
        ntask.claim(made[number])


def test_then_by_last_edited_time_the_oldest_edited_first(ntask: Ntask) -> None:
    first, second = ntask.create("first"), ntask.create("second")
    assert ntask.next() == first
    ntask.ok("update", first, "--priority", "5.5")
    ntask.place.let(ntask.place.tick)
    ntask.ok("update", first, "--priority", "5")
    assert ntask.next() == second


def test_the_first_task_after_sorting_is_returned_by_next(ntask: Ntask) -> None:
    for priority in (4, 6, 5):
        ntask.create(priority=priority)
    listed = ntask("list", "--status", "READY").data["tasks"]
    assert [task["priority"] for task in listed] == [6, 5, 4]
    assert ntask.next() == listed[0]["task_id"]


def test_next_with_nothing_to_do_answers_null(ntask: Ntask) -> None:
    assert ntask("next").data == {"ok": True, "task": None}
    assert ntask("next").status == 0


# Claim


def test_claim_generates_a_uuid_v4_lock_token(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    assert UUID(held.token).version == 4
    assert str(UUID(held.token)) == held.token


def test_claim_sets_all_that_belongs_to_a_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create(), run="run-7", agent="ann")
    told = held.task
    assert told["status"] == "IN_PROGRESS"
    assert told["claimed_by"] == "AGENT"
    assert (told["agent_run"], told["agent"]) == ("run-7", "ann")
    lease = time_from(told["lock_expires"]) - time_from(told["started_at"])
    assert timedelta(minutes=20) <= lease <= timedelta(minutes=22)  # Notion counts minutes, rounded up
    assert ntask.ok("get", held.id) == {key: value for key, value in told.items() if key != "lock_token"}


def test_the_lease_duration_can_be_given(ntask: Ntask) -> None:
    told = ntask.claim(ntask.create(), "--lease-min", "45").task
    lease = time_from(told["lock_expires"]) - time_from(told["started_at"])
    assert timedelta(minutes=45) <= lease <= timedelta(minutes=47)


def test_if_another_agent_claimed_the_task_first_claim_returns_conflict(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ran = ntask("claim", held.id, "--run-id", "run-2", "--agent-name", "bob")
    assert (ran.code, ran.status) == ("CONFLICT", 2)
    assert "ann" in ran.message
    assert "ntask next" in ran.message
    assert 500 <= ran.data["error"]["retry_after_ms"] <= 5000
    assert held.token not in ran.out + ran.err
    assert ntask.ok("heartbeat", *held.words)["agent"] == "ann"


@pytest.mark.parametrize("how", ["block", "review"])
def test_claim_returns_conflict_unless_the_task_is_eligible(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    end(ntask, held, how)
    assert ntask("claim", held.id, "--run-id", "r", "--agent-name", "a").code == "CONFLICT"
    backlog = ntask.create(status="BACKLOG")
    assert ntask("claim", backlog, "--run-id", "r", "--agent-name", "a").code == "CONFLICT"


@pytest.mark.parametrize("how", ["complete", "cancel"])
def test_claim_of_a_finished_task_is_misconfigured(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    end(ntask, held, how)
    ran = ntask("claim", held.id, "--run-id", "r", "--agent-name", "a")
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)


# Heartbeat


def test_heartbeat_sets_and_returns_lock_expires(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.place.let(600)
    told = ntask.ok("heartbeat", *held.words)
    gained = time_from(told["lock_expires"]) - time_from(held.task["lock_expires"])
    assert timedelta(minutes=9) <= gained <= timedelta(minutes=11)
    longer = ntask.ok("heartbeat", *held.words, "--lease-min", "60")
    assert time_from(longer["lock_expires"]) - time_from(told["lock_expires"]) >= timedelta(minutes=39)


def test_heartbeats_keep_a_task_for_as_long_as_it_takes(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    for _ in range(5):
        ntask.place.let(600)
        ntask.ok("heartbeat", *held.words)
        assert ntask.next() is None
    end(ntask, held, "complete")


# Commands that need the lock


@pytest.mark.parametrize("how", MORE)
def test_wrong_token_is_lost_lock_without_writes(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    before = ntask.ok("get", held.id)
    ran = ntask(how, *held._replace(token=OTHER).words, *MORE[how])
    assert (ran.code, ran.status) == ("LOST_LOCK", 4)
    assert held.token not in ran.out + ran.err
    assert ntask.ok("get", held.id) == before


@pytest.mark.parametrize("how", MORE)
def test_wrong_run_id_is_lost_lock_without_writes(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    before = ntask.ok("get", held.id)
    ran = ntask(how, *held._replace(run="another").words, *MORE[how])
    assert (ran.code, ran.status) == ("LOST_LOCK", 4)
    assert held.token not in ran.out + ran.err
    assert ntask.ok("get", held.id) == before


@pytest.mark.parametrize("how", MORE)
def test_matching_token_of_an_expired_lease_is_lost(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    ntask.place.let(LATE)
    before = ntask.ok("get", held.id)
    assert ntask(how, *held.words, *MORE[how]).code == "LOST_LOCK"
    assert ntask.ok("get", held.id) == before


@pytest.mark.parametrize("how", MORE)
def test_a_newer_owner_is_never_disturbed_by_the_older_one(ntask: Ntask, how: str) -> None:
    late = ntask.claim(ntask.create())
    ntask.place.let(LATE)
    owner = ntask.claim(late.id, run="run-2", agent="bob")
    ran = ntask(how, *late.words, *MORE[how])
    assert ran.code == "LOST_LOCK"
    assert "bob" in ran.message
    assert ntask.ok("heartbeat", *owner.words)["agent"] == "bob"


@pytest.mark.parametrize("how", MORE)
def test_persons_takeover_always_wins(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    ntask.place.person_takes(held.id)
    before = ntask.ok("get", held.id)
    assert before["claimed_by"] == "HUMAN"
    assert ntask(how, *held.words, *MORE[how]).code == "LOST_LOCK"
    assert ntask.ok("get", held.id) == before


@pytest.mark.parametrize("how", ENDS)
def test_every_way_out_of_in_progress_clears_the_lock_fields(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    end(ntask, held, how)
    assert not LOCK_KEYS & ntask.ok("get", held.id).keys()
    assert ntask("heartbeat", *held.words).code == "LOST_LOCK"


# Complete, block, review, cancel


def test_complete_sets_done_the_artifacts_and_done_at(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    told = ntask.ok("complete", *held.words, "--artifacts", "https://example.org/pr/7\ndone in 4f2a9c1")
    assert told["status"] == "DONE"
    assert told["artifacts"] == "https://example.org/pr/7\ndone in 4f2a9c1"
    assert "done_at" in told


def test_block_sets_reason_action_and_next_check(ntask: Ntask) -> None:
    first, second = ntask.claim(ntask.create()), ntask.claim(ntask.create(), run="run-2")
    told = ntask.ok("block", *first.words, "--reason", "no key", "--unblock-action", "ask Zoe")
    assert (told["status"], told["blocker_reason"], told["unblock_action"]) == ("BLOCKED", "no key", "ask Zoe")
    assert "next_check_at" not in told
    words = ("--reason", "r", "--unblock-action", "u", "--next-check", "2030-01-31T12:00:00+01:00")
    assert ntask.ok("block", *second.words, *words)["next_check_at"] == "2030-01-31T11:00:00Z"


def test_review_sets_review_and_optionally_the_artifacts(ntask: Ntask) -> None:
    first, second = ntask.claim(ntask.create()), ntask.claim(ntask.create(), run="run-2")
    told = ntask.ok("review", *first.words)
    assert told["status"] == "REVIEW"
    assert "artifacts" not in told
    assert ntask.ok("review", *second.words, "--artifacts", "see PR")["artifacts"] == "see PR"


def test_cancel_sets_canceled_and_the_reason(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    told = ntask.ok("cancel", *held.words, "--reason", "not needed")
    assert (told["status"], told["blocker_reason"]) == ("CANCELED", "not needed")


# Invariants


def test_next_after_conflict_finds_another_task(ntask: Ntask) -> None:
    first, second = ntask.create(), ntask.create()
    assert ntask.next() == first
    ntask.claim(first)
    assert ntask("claim", first, "--run-id", "r", "--agent-name", "bob").code == "CONFLICT"
    assert ntask.next() == second


def test_lost_lock_advises_to_run_next(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    assert "ntask next" in ntask("heartbeat", *held._replace(token="x" * 36).words).message
