"""done, fail, block, review, cancel: the ends of an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli, Clock

FINISHES = {
    "done": ("done",),
    "fail": ("fail",),
    "block": ("block", "--reason", "no key"),
    "review": ("review",),
    "cancel": ("cancel",),
    "release": ("release",),
    "pause": ("pause",),
}
ends = pytest.mark.parametrize("name", FINISHES)


def test_done_finishes_and_lists_unblocked_tasks(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    assert cli.ok("done", "first", "--token", cli.claim("first")) == "done first\n  unblocked: second\n"


def test_done_in_json(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    done = cli.json("done", "first", "--token", cli.claim("first", "--agent", "bob"), "--result", "[1, 2]")
    assert done["task"]["status"] == "done"
    assert done["task"]["result"] == [1, 2]
    assert done["task"]["finished_by"] == "bob"
    assert "lease" not in done["task"]
    assert (done["unblocked"], done["escalated"], done["canceled"]) == (["second"], [], [])
    assert "next" not in done


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (("--result", '{"a": [1, null]}'), {"a": [1, None]}),
        (("--result", '"text"'), "text"),
        (("--result", "0"), 0),
        (("--note", "plain {text}"), "plain {text}"),
    ],
)
def test_a_result_is_json_or_a_note(words: tuple[str, ...], result: object, cli: Cli) -> None:
    cli.add("job")
    assert cli.json("done", "job", "--token", cli.claim("job"), *words)["task"]["result"] == result


def test_done_next_finishes_and_claims_in_one_step(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    going = cli.json("done", "first", "--token", cli.claim("first"), "--note", "42", "--next", "--lease", "5m")
    assert going["next"]["task"]["id"] == "second"
    assert going["next"]["task"]["lease"]["expires_at"] == "2026-01-01T12:05:00Z"
    assert going["next"]["inputs"][0]["result"] == "42"
    last = cli.json("done", "second", "--token", going["next"]["token"], "--next")
    assert last["next"] is None


def test_done_next_prints_both_tasks(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--requires", "gpu")
    said = cli.ok("done", "first", "--token", cli.claim("first"), "--next", "--can", "gpu", "--agent", "bob")
    assert said.startswith("done first\n")
    assert "second  second" in said
    assert "held by     bob" in said
    assert "dibs done second --token" in said


def test_done_next_without_a_ready_task_succeeds(cli: Cli) -> None:
    cli.add("job")
    said = cli.ok("done", "job", "--token", cli.claim("job"), "--next")
    assert said == "done job\nnothing more to claim now\n"


@pytest.mark.parametrize("name", ["fail", "block", "review"])
def test_other_ends_claim_the_next_task_too(name: str, cli: Cli) -> None:
    cli.add("first", "-p", "1")
    cli.add("second")
    words = FINISHES[name]
    retry = ("--retry-in", "1h") if name == "fail" else ()
    going = cli.json(words[0], "first", "--token", cli.claim("first"), *words[1:], *retry, "--next")
    assert going["next"]["task"]["id"] == "second"


@ends
def test_attempt_ends_only_with_its_token(name: str, cli: Cli) -> None:
    cli.add("job")
    cli.claim("job", "--agent", "bob", "--lease", "10m")
    words = FINISHES[name]
    told = cli.refuses(4, "HELD", words[0], "job", "--agent", "bob", *words[1:])
    assert told.holder == "bob"
    assert told.retry_after_ms == 600_000
    assert "force" not in told.message, "an agent would use it"


@ends
def test_wrong_token_is_a_lost_lease(name: str, cli: Cli) -> None:
    cli.add("job")
    cli.claim("job", "--agent", "bob")
    words = FINISHES[name]
    told = cli.refuses(5, "LOST_LOCK", words[0], "job", "--token", "wrong", *words[1:])
    assert told.holder == "bob"
    assert "wrong" not in told.message, "not even a wrong token is repeated"


@ends
def test_person_in_charge_may_finish_without_the_token(name: str, cli: Cli) -> None:
    cli.add("job")
    cli.claim("job", "--agent", "bob")
    words = FINISHES[name]
    cli.ok(words[0], "job", "--force", *words[1:])
    assert cli.json("log", "job")[-1]["detail"] == {"forced": True}


@ends
def test_repeated_finish_changes_nothing(name: str, cli: Cli) -> None:
    """The first answer may have been lost."""
    cli.add("job")
    words = (FINISHES[name][0], "job", "--token", cli.claim("job"), *FINISHES[name][1:])
    first = cli.json(*words)
    before = cli.snapshot()
    assert cli.json(*words)["task"] == first["task"]
    assert cli.snapshot() == before


@pytest.mark.parametrize("name", ["done", "fail", "review", "release"])
def test_task_without_a_holder_cannot_end(name: str, cli: Cli) -> None:
    cli.add("job")
    told = cli.refuses(4, "ILLEGAL_MOVE", name, "job")
    assert "job is ready" in told.message


def test_failed_task_is_ready_again_with_the_reason(cli: Cli) -> None:
    cli.add("job")
    assert cli.ok("fail", "job", "--token", cli.claim("job"), "--reason", "red tests") == "failed job\n"
    task = cli.task("job")
    assert (task["status"], task["reason"], task["retries"]) == ("ready", "red tests", 1)


def test_fail_and_retry_later(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    cli.ok("fail", "job", "--token", cli.claim("job"), "--retry-in", "10m")
    assert cli.ids("ready") == []
    clock.advance(minutes=10)
    assert cli.ids("ready") == ["job"]


def test_task_without_retries_is_escalated(cli: Cli) -> None:
    cli.add("job", "--max-retries", "1")
    cli.ok("fail", "job", "--token", cli.claim("job"))
    assert cli.ok("fail", "job", "--token", cli.claim("job"), "--reason", "still red") == "escalated job\n"
    assert cli.status_of("job") == "escalated"


def test_block_stores_reason_and_action(cli: Cli) -> None:
    cli.add("job")
    words = ("--reason", "no key", "--action", "ask ops", "--check-at", "2026-01-31T12:00+01:00")
    blocked = cli.json("block", "job", "--token", cli.claim("job"), *words)["task"]
    assert (blocked["status"], blocked["reason"], blocked["unblock_action"]) == ("blocked", "no key", "ask ops")
    assert blocked["next_check_at"] == "2026-01-31T11:00:00Z"


def test_block_of_a_free_task_needs_no_token(cli: Cli) -> None:
    cli.add("job")
    assert cli.ok("block", "job", "--reason", "no key") == "blocked job\n"


def test_review_passes_the_result_on(cli: Cli) -> None:
    cli.add("job")
    words = ("--reason", "look at the tests", "--note", "done, I think", "--artifact", "pr/7")
    said = cli.ok("review", "job", "--token", cli.claim("job"), *words)
    assert "job" in said
    task = cli.task("job")
    assert (task["status"], task["reason"], task["result"]) == ("review", "look at the tests", "done, I think")
    assert task["artifacts"] == ["pr/7"]


@pytest.mark.parametrize(
    ("rule", "second", "word"),
    [((), "escalated", "escalated"), (("--dependents", "cascade"), "canceled", "canceled")],
)
def test_cancel_applies_to_dependents(rule: tuple[str, ...], second: str, word: str, cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    assert cli.ok("cancel", "first", "--reason", "no use", *rule) == f"canceled first\n  {word}: second\n"
    assert cli.status_of("second") == second


def test_cancel_can_unblock_dependents(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    canceled = cli.json("cancel", "first", "--dependents", "resolve")
    assert canceled["unblocked"] == ["second"]
    assert cli.ids("ready") == ["second"]


def test_parent_is_not_done_before_its_subtasks(cli: Cli) -> None:
    cli.add("whole")
    cli.add("part", "--parent", "whole")
    token = cli.claim("whole")
    assert "part" in cli.refuses(6, "INCOMPLETE_SUBTASKS", "done", "whole", "--token", token).message
    cli.ok("done", "part", "--token", cli.claim("part"))
    assert cli.ok("done", "whole", "--token", token) == "done whole\n"


@pytest.mark.parametrize("status", ["backlog", "ready", "blocked", "paused", "review", "done", "canceled"])
def test_illegal_move_suggests_only_existing_commands(status: str, cli: Cli) -> None:
    from dibs.cli.catalogue import COMMANDS

    cli.add("job")
    lead_up: dict[str, tuple[str, ...]] = {
        "backlog": ("edit", "job", "--status", "backlog"),
        "ready": ("edit", "job", "--title", "new"),
        "blocked": ("block", "job", "--reason", "x"),
        "paused": ("pause", "job"),
        "canceled": ("cancel", "job"),
    }
    cli.ok(*(lead_up.get(status) or (status, "job", "--token", cli.claim("job"))))
    told = cli.refuses(4, "ILLEGAL_MOVE", "fail", "job")
    _, _, hint = told.message.partition("From there: ")
    named = {word.strip(" .") for word in hint.split(",") if word.strip(" .")}
    assert named - COMMANDS.keys() == set()
