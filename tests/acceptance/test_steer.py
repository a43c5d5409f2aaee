"""unblock, approve, rework, pause, resume: what a person decides about a task nobody is working on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


@pytest.fixture
def reviewed(cli: Cli) -> Cli:
    """`job` is up for review and `after` waits for it."""
    cli.add("job")
    cli.add("after", "--blocked-by", "job")
    cli.ok("review", "job", "--token", cli.claim("job", "--agent", "bob"), "--note", "a result")
    return cli


def test_unblock_puts_it_up_for_work_again(cli: Cli) -> None:
    cli.add("job")
    cli.ok("block", "job", "--reason", "no key", "--action", "buy one", "--check-at", "2027-01-01")
    assert cli.ok("unblock", "jo").startswith("unblocked job")
    task = cli.task("job")
    assert task["status"] == "ready"
    assert not {"reason", "unblock_action", "next_check_at"} & task.keys()


def test_unblock_gives_an_escalated_task_its_retries_back(cli: Cli) -> None:
    cli.add("job", "--max-retries", "0")
    cli.ok("fail", "job", "--token", cli.claim("job"))
    assert cli.status_of("job") == "escalated"
    task = cli.json("unblock", "job")["task"]
    assert (task["status"], task.get("retries", 0)) == ("ready", 0)


def test_approve_makes_it_done_and_lets_others_go_on(reviewed: Cli) -> None:
    said = reviewed.ok("approve", "job", "--agent", "ann")
    assert said.startswith("approved job")
    assert "unblocked: after" in said
    task = reviewed.task("job")
    assert (task["status"], task["finished_by"], task["result"]) == ("done", "bob", "a result")
    assert reviewed.json("log", "job")[-1]["agent"] == "ann"


def test_approve_in_json_says_what_became_ready(reviewed: Cli) -> None:
    approved = reviewed.json("approve", "job")
    assert approved["task"]["status"] == "done"
    assert approved["unblocked"] == ["after"]


def test_rework_sends_it_back_with_the_reason(reviewed: Cli) -> None:
    assert reviewed.ok("rework", "job", "--reason", "tests are missing").startswith("sent back job")
    task = reviewed.task("job")
    assert (task["status"], task["reason"]) == ("ready", "tests are missing")
    assert reviewed.json("claim", "job")["task"]["attempt"] == 2


@pytest.mark.parametrize("before", ["ready", "backlog", "blocked", "review"])
def test_resume_puts_it_back_where_it_was_paused(before: str, cli: Cli) -> None:
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


def test_a_paused_task_is_not_handed_out(cli: Cli) -> None:
    cli.add("job")
    cli.ok("pause", "job")
    assert cli.ids("ready") == []
    cli.ok("resume", "job")
    assert cli.ids("ready") == ["job"]


def test_a_holder_may_pause_its_own_work(cli: Cli) -> None:
    cli.add("job")
    cli.ok("pause", "job", "--token", cli.claim("job"))
    assert cli.json("resume", "job")["task"]["status"] == "ready"


@pytest.mark.parametrize("verb", ["unblock", "approve", "rework", "resume"])
def test_a_task_in_another_state_is_refused_with_what_it_is(verb: str, cli: Cli) -> None:
    cli.add("job")
    assert "job is ready" in cli.refuses(4, "ILLEGAL_MOVE", verb, "job").message


@pytest.mark.parametrize("verb", ["unblock", "approve", "rework", "pause", "resume"])
def test_an_unknown_task_is_named(verb: str, cli: Cli) -> None:
    assert "ghost" in cli.refuses(3, "NOT_FOUND", verb, "ghost").message


@pytest.mark.parametrize(
    ("verb", "said"), [("pause", "paused job\n"), ("resume", "resumed job: ready\n")], ids=["pause", "resume"]
)
def test_the_answer_does_not_say_the_same_thing_twice(verb: str, said: str, cli: Cli) -> None:
    cli.add("job")
    if verb == "resume":
        cli.ok("pause", "job")
    assert cli.ok(verb, "job") == said
