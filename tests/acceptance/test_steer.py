"""unblock, approve, rework, pause, resume: a person's decisions about tasks that no agent holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


@pytest.fixture
def reviewed(cli: Cli) -> Cli:
    """`job` is in review and `after` depends on it."""
    cli.add("job")
    cli.add("after", "--blocked-by", "job")
    cli.ok("review", "job", "--token", cli.claim("job", "--agent", "bob"), "--note", "a result")
    return cli


def test_unblocked_task_is_ready_again(cli: Cli) -> None:
    cli.add("job")
    cli.ok("block", "job", "--reason", "no key", "--action", "buy one", "--check-at", "2027-01-01")
    assert cli.ok("unblock", "jo").startswith("unblocked job")
    task = cli.task("job")
    assert task["status"] == "ready"
    assert not {"reason", "unblock_action", "next_check_at"} & task.keys()


def test_unblock_restores_the_retries_of_an_escalated_task(cli: Cli) -> None:
    cli.add("job", "--max-retries", "0")
    cli.ok("fail", "job", "--token", cli.claim("job"))
    assert cli.status_of("job") == "escalated"
    task = cli.json("unblock", "job")["task"]
    assert (task["status"], task.get("retries", 0)) == ("ready", 0)


def test_approved_task_is_done_and_unblocks_dependents(reviewed: Cli) -> None:
    said = reviewed.ok("approve", "job", "--agent", "ann")
    assert said.startswith("approved job")
    assert "unblocked: after" in said
    task = reviewed.task("job")
    assert (task["status"], task["finished_by"], task["result"]) == ("done", "bob", "a result")
    assert reviewed.json("log", "job")[-1]["agent"] == "ann"


def test_approve_json_lists_unblocked_tasks(reviewed: Cli) -> None:
    approved = reviewed.json("approve", "job")
    assert approved["task"]["status"] == "done"
    assert approved["unblocked"] == ["after"]


def test_rework_returns_the_task_with_the_reason(reviewed: Cli) -> None:
    assert reviewed.ok("rework", "job", "--reason", "tests are missing").startswith("sent back job")
    task = reviewed.task("job")
    assert (task["status"], task["reason"]) == ("ready", "tests are missing")
    assert reviewed.json("claim", "job")["task"]["attempt"] == 2


@pytest.mark.parametrize("before", ["ready", "backlog", "blocked", "review"])
def test_resumed_task_has_its_status_before_the_pause(before: str, cli: Cli) -> None:
    cli.add("job")
    if before == "backlog":
        cli.ok("edit", "job", "--status", "backlog")
    if before == "blocked":
        cli.ok("block", "job", "--reason", "no key")
    if before == "review":
        cli.ok("review", "job", "--token", cli.claim("job"))
    cli.ok("pause", "job", "--reason", "holidays")
    assert cli.status_of("job") == "paused"
    assert cli.json("resume", "job")["task"]["status"] == before


def test_paused_task_is_not_claimable(cli: Cli) -> None:
    cli.add("job")
    cli.ok("pause", "job")
    assert cli.ids("ready") == []
    cli.ok("resume", "job")
    assert cli.ids("ready") == ["job"]


def test_holder_may_pause_its_task(cli: Cli) -> None:
    cli.add("job")
    cli.ok("pause", "job", "--token", cli.claim("job"))
    assert cli.json("resume", "job")["task"]["status"] == "ready"


@pytest.mark.parametrize("verb", ["unblock", "approve", "rework", "resume"])
def test_illegal_move_names_the_status(verb: str, cli: Cli) -> None:
    cli.add("job")
    assert "job is ready" in cli.refuses(4, "ILLEGAL_MOVE", verb, "job").message


@pytest.mark.parametrize("verb", ["unblock", "approve", "rework", "pause", "resume"])
def test_unknown_task_is_named(verb: str, cli: Cli) -> None:
    assert "ghost" in cli.refuses(3, "NOT_FOUND", verb, "ghost").message


@pytest.mark.parametrize(
    ("verb", "said"), [("pause", "paused job\n"), ("resume", "resumed job: ready\n")], ids=["pause", "resume"]
)
def test_answer_repeats_nothing(verb: str, said: str, cli: Cli) -> None:
    cli.add("job")
    if verb == "resume":
        cli.ok("pause", "job")
    assert cli.ok(verb, "job") == said
