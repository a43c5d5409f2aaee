"""Decisions where the document is silent or contradictory, and additions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core import errors
from dibs.core.errors import DibsError, Unconfirmed, Unsupported
from dibs.core.lifecycle import Verb
from dibs.core.task import Link, Status
from dibs.desk import Desk
from dibs.protocols.ntask.answers import CODES, EXITS, NTASK
from support.ntask import SqlitePlace

from .test_seed import ENDS, LATE, end

if TYPE_CHECKING:
    from support.ntask import Ntask


def error_classes() -> list[type[DibsError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DibsError)]


def test_every_error_there_is_has_a_code_of_ntasks() -> None:
    assert {kind.code for kind in error_classes()} <= set(CODES)
    assert set(CODES.values()) == set(EXITS)
    assert EXITS == {
        "CONFLICT": 2,
        "MISCONFIGURED": 3,
        "CLI_MISSING": 3,
        "INCOMPLETE_SUBTASKS": 3,
        "LOST_LOCK": 4,
        "API_ERROR": 5,
    }
    assert all(NTASK.exit_status(kind.__new__(kind)) == EXITS[CODES[kind.code]] for kind in error_classes())


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_store_errors_have_code_and_exit_status(
    local: Ntask, kind: type[DibsError], monkeypatch: pytest.MonkeyPatch
) -> None:
    local.create()
    error = kind.__new__(kind)
    DibsError.__init__(error, "It went wrong.")

    def fails(*_args: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(Desk, "ready", fails)
    ran = local("next")
    assert ran.code == CODES[kind.code]
    assert ran.status == EXITS[CODES[kind.code]]
    assert ran.message.startswith("It went wrong.")


# An abandoned task, a stale token


def test_abandoned_task_is_selected_after_its_lock_expired(ntask: Ntask) -> None:
    task = ntask.create()
    ntask.claim(task)
    ntask.place.let(LATE)
    told = ntask("next").task
    assert (told["task_id"], told["status"]) == (task, "IN_PROGRESS")


def test_a_claim_that_could_not_be_confirmed_carries_its_token(local: Ntask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller can check it with a heartbeat, or release it."""
    task = local.create()
    held = local.claim(task)

    def unconfirmed(*_args: object, **_more: object) -> None:
        raise Unconfirmed("Notion did not answer.", token=held.token)

    with monkeypatch.context() as here:
        here.setattr(Desk, "claim", unconfirmed)
        ran = local("claim", task, "--run-id", "run-1", "--agent-name", "ann")
    assert (ran.code, ran.status) == ("API_ERROR", 5)
    assert ran.task == {"task_id": task, "agent_run": "run-1", "agent": "ann", "lock_token": held.token}
    assert held.token not in ran.err
    assert held.token not in ran.message
    assert local.ok("release", task, "--run-id", "run-1", "--lock-token", ran.task["lock_token"])["status"] == "READY"


# The ways out of BLOCKED and REVIEW


def test_unblock_makes_a_blocked_task_ready(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    end(ntask, held, "block")
    told = ntask.ok("unblock", held.id)
    assert told["status"] == "READY"
    assert not {"blocker_reason", "unblock_action", "next_check_at"} & told.keys()
    assert ntask.next() == held.id


def test_approve_makes_a_reviewed_task_done(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("review", *held.words, "--artifacts", "see PR")
    told = ntask.ok("approve", held.id)
    assert (told["status"], told["artifacts"]) == ("DONE", "see PR")


def test_rework_makes_a_reviewed_task_ready(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("review", *held.words)
    assert ntask.ok("rework", held.id, "--reason", "no tests")["status"] == "READY"
    assert ntask.next() == held.id


@pytest.mark.parametrize("verb", ["unblock", "approve", "rework"])
def test_command_is_refused_in_a_wrong_status(ntask: Ntask, verb: str) -> None:
    task = ntask.create()
    ran = ntask(verb, task)
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
    assert "READY" in ran.message
    assert ("BLOCKED" if verb == "unblock" else "REVIEW") in ran.message
    assert ntask.status(task) == "READY"
    ntask.claim(task)
    assert ntask(verb, task).code == "CONFLICT"


def test_release_makes_a_task_ready_and_clears_its_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    told = ntask.ok("release", *held.words, "--reason", "out of time")
    assert told["status"] == "READY"
    assert "claimed_by" not in told
    assert ntask.next() == held.id


def test_finish_can_be_repeated_by_the_same_attempt(local: Ntask) -> None:
    """The first answer may be lost."""
    held = local.claim(local.create())
    first = local.ok("complete", *held.words, "--artifacts", "x")
    assert local.ok("complete", *held.words, "--artifacts", "x") == first


# Overdue checks


def test_overdue_checks_are_listed(ntask: Ntask) -> None:
    late, later, fine = (ntask.claim(ntask.create(), run=f"run-{number}") for number in range(3))
    for held, when in ((later, "2020-03-01"), (late, "2020-02-01"), (fine, "2999-01-01")):
        ntask.ok("block", *held.words, "--reason", "r", "--unblock-action", "u", "--next-check", when)
    ntask.create("ready")
    shown = ntask("list").data
    assert (shown["count"], shown["overdue"]) == (4, [late.id, later.id])
    only = ntask("list", "--overdue").data
    assert [task["task_id"] for task in only["tasks"]] == [late.id, later.id]
    assert ntask("list", "--overdue", "--limit", "1").data["count"] == 1
    message = ntask("doctor").data["checks"]["overdue"]["message"]
    assert late.id in message
    assert fine.id not in message
    for held in (late, later):
        ntask.ok("unblock", held.id)
    assert "overdue" not in ntask("list").data


# Cancel


@pytest.mark.parametrize("how", ["new", "backlog", "block", "review"])
def test_cancel_needs_no_lock_but_from_in_progress(ntask: Ntask, how: str) -> None:
    task = ntask.create(status="BACKLOG" if how == "backlog" else "READY")
    if how in ENDS:
        end(ntask, ntask.claim(task), how)
    assert ntask.ok("cancel", task, "--reason", "not needed")["status"] == "CANCELED"


def test_cancel_in_progress_needs_the_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ran = ntask("cancel", held.id, "--reason", "mine now")
    assert (ran.code, ran.status) == ("CONFLICT", 2)
    assert "--lock-token" in ran.message
    assert ntask.ok("heartbeat", *held.words)["status"] == "IN_PROGRESS"


def test_abandoned_task_must_be_claimed_before_cancel(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.place.let(LATE)
    ran = ntask("cancel", held.id, "--reason", "nobody needs it")
    assert ran.code == "CONFLICT"
    assert "claim it first" in ran.message
    assert ntask.status(held.id) == "IN_PROGRESS"


def test_cancel_of_a_finished_task_changes_nothing(ntask: Ntask) -> None:
    for how in ("complete", "cancel"):
        held = ntask.claim(ntask.create())
        end(ntask, held, how)
        before = ntask.ok("get", held.id)
        for words in ((held.id,), held.words):
            ran = ntask("cancel", *words, "--reason", "again")
            assert (ran.status, ran.code) == (0, None)
            assert ran.task == before
            assert "nothing was changed" in ran.err


def test_cancel_keeps_an_existing_reason_in_a_comment(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("block", *held.words, "--reason", "no key", "--unblock-action", "ask Zoe")
    assert ntask.ok("cancel", held.id, "--reason", "not needed")["blocker_reason"] == "not needed"
    (said,) = ntask.place.comments(held.id)
    assert "no key" in said
    assert "BLOCKED" in said


def test_earlier_reason_is_kept_without_comments(local: Ntask, monkeypatch: pytest.MonkeyPatch) -> None:
    held = local.claim(local.create())
    local.ok("block", *held.words, "--reason", "no key", "--unblock-action", "ask Zoe")

    def cannot(*_args: object) -> None:
        raise Unsupported("The integration may not comment.")

    monkeypatch.setattr(Desk, "comment", cannot)
    ran = local("cancel", held.id, "--reason", "not needed")
    assert ran.status == 0
    assert "not needed" in ran.task["blocker_reason"]
    assert "no key" in ran.task["blocker_reason"]
    assert "may not comment" in ran.err


# Create, update, comment


def test_create_uses_options_and_defaults(ntask: Ntask) -> None:
    told = ntask.ok("create", "--title", "Write it")
    assert (told["status"], told["priority"], told["class"], told["title"]) == ("READY", 5, "STANDARD", "Write it")
    more = ("--priority", "8", "--class-of-service", "fixed_date", "--status", "backlog", "--parent", told["task_id"])
    child = ntask.ok("create", "--title", "Part of it", *more)
    assert (child["status"], child["priority"], child["class"]) == ("BACKLOG", 8, "FIXED_DATE")
    assert child["parent_task_id"] == told["task_id"]


def test_update_changes_priority_class_and_status(ntask: Ntask) -> None:
    task = ntask.create()
    told = ntask.ok("update", task, "--priority", "9", "--class-of-service", "EXPEDITE", "--status", "BACKLOG")
    assert (told["priority"], told["class"], told["status"]) == (9, "EXPEDITE", "BACKLOG")
    for status in ("READY", "BLOCKED", "READY", "CANCELED", "READY"):
        assert ntask.ok("update", task, "--status", status)["status"] == status
    assert ntask.ok("update", task, "--status", "READY")["status"] == "READY"


def test_update_sends_a_reviewed_task_back(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    end(ntask, held, "review")
    assert ntask.ok("update", held.id, "--status", "READY")["status"] == "READY"


@pytest.mark.parametrize("status", ["DONE", "IN_PROGRESS", "REVIEW"])
def test_update_refuses_statuses_that_need_a_lock(ntask: Ntask, status: str) -> None:
    task = ntask.create()
    ran = ntask("update", task, "--status", status, "--priority", "9")
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
    assert "ntask " in ran.message
    assert ntask.ok("get", task)["priority"] == 5


def test_update_of_a_status_that_is_refused_changes_nothing_else(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    assert ntask("update", held.id, "--status", "BLOCKED", "--priority", "9").code == "CONFLICT"
    assert ntask("update", held.id, "--status", "READY", "--priority", "9").code == "MISCONFIGURED"
    assert ntask.ok("get", held.id)["priority"] == 5
    assert ntask.ok("update", held.id, "--priority", "9")["priority"] == 9
    ntask.ok("heartbeat", *held.words)


def test_a_comment_is_left_on_the_task(ntask: Ntask) -> None:
    task = ntask.create()
    assert ntask.ok("comment", task, "--text", "Look at the log.")["task_id"] == task
    assert ntask.ok("comment", task, "--text", "-", stdin="And\nat this.")["task_id"] == task
    assert ntask.place.comments(task) == ["Look at the log.", "And\nat this."]


# Answers


def test_task_keys_are_ordered_without_unset_ones(ntask: Ntask) -> None:
    parent = ntask.create()
    task = ntask.create("child", parent=parent)
    new = ["page_id", "task_id", "status", "priority", "class", "parent_task_id", "title"]
    assert list(ntask.ok("get", task)) == new
    held = ntask.claim(task)
    lock = ["claimed_by", "agent_run", "agent", "lock_token", "lock_expires", "started_at"]
    assert list(held.task) == [*new[:5], *lock, *new[5:]]
    words = ("--reason", "r", "--unblock-action", "u", "--next-check", "2030-01-01")
    told = list(ntask.ok("block", *held.words, *words))
    assert told == [*new[:5], "started_at", "blocker_reason", "unblock_action", "next_check_at", *new[5:]]


def test_lock_token_is_shown_only_to_the_claimer(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    for words in (("get", held.id), ("list",), ("heartbeat", *held.words), ("doctor",), ("next",)):
        ran = ntask(*words)
        assert ran.status == 0
        assert held.token not in ran.out + ran.err


def test_list_filters_in_order_of_work(ntask: Ntask) -> None:
    made = [ntask.create(f"T{number}", priority=number) for number in range(4)]
    ntask.claim(made[0])
    assert ntask("list", "--limit", "2").data["count"] == 2
    shown = ntask("list", "--status", "ready").data
    assert [task["task_id"] for task in shown["tasks"]] == made[:0:-1]
    assert list(shown) == ["ok", "tasks", "count"]
    assert ntask("list", "--status", "IN_PROGRESS").data["count"] == 1
    assert ntask("list", "--status", "DONE").data == {"ok": True, "tasks": [], "count": 0}


def test_an_unknown_id_is_misconfigured(ntask: Ntask) -> None:
    ntask.create()
    lock = ("--run-id", "r", "--lock-token", "t" * 36)
    for words in (
        ("get", "TASK-999"),
        ("claim", "TASK-999", "--run-id", "r", "--agent-name", "a"),
        ("heartbeat", "TASK-999", *lock),
        ("complete", "TASK-999", *lock, "--artifacts", "x"),
        ("cancel", "TASK-999", "--reason", "x"),
        ("unblock", "TASK-999"),
        ("update", "TASK-999", "--priority", "1"),
        ("comment", "TASK-999", "--text", "x"),
        ("create", "--title", "T", "--parent", "TASK-999"),
    ):
        ran = ntask(*words)
        assert (ran.code, ran.status) == ("MISCONFIGURED", 3), words
        assert "TASK-999" in ran.message


def test_the_beginning_of_an_id_is_no_id(ntask: Ntask) -> None:
    """4 never means TASK-42."""
    for _ in range(11):
        task = ntask.create()
    beginning = task[:-1] if not task.startswith("TASK-") else "TASK-"
    assert ntask("get", beginning).code == "MISCONFIGURED"
    assert ntask(*("claim", beginning, "--run-id", "r", "--agent-name", "a")).code == "MISCONFIGURED"
    if task.startswith("TASK-"):
        assert ntask.ok("get", "1")["task_id"] == "TASK-1"


# Shared stores


def test_statuses_of_other_protocols_are_respected(local: Ntask) -> None:
    assert isinstance(local.place, SqlitePlace)
    first, second = local.create(), local.create()
    with local.place.desk() as desk:
        desk.link([Link(first, second)])
    assert local.next() == second
    ran = local("claim", first, "--run-id", "r", "--agent-name", "a")
    assert ran.code == "CONFLICT"
    with local.place.desk() as desk:
        desk.move(Verb.PAUSE, second)
    assert local.status(second) == "PAUSED"
    assert local.ok("update", second, "--status", "READY")["status"] == "READY"


def test_scopes_are_separate(local: Ntask) -> None:
    local.create()
    assert local("next", DIBS_SCOPE="elsewhere").task is None


def test_every_status_has_a_unique_word() -> None:
    assert len({NTASK.say(status) for status in Status}) == len(Status)
    assert all(NTASK.read(NTASK.say(status)) is status for status in Status)
    assert NTASK.read("cancelled") is Status.CANCELED
