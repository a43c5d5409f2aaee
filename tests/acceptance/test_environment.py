"""DIBS_STORE, DIBS_SCOPE, DIBS_AGENT, DIBS_RUN, DIBS_TASK_ID and DIBS_TOKEN replace options and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


def test_store_comes_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_STORE", "elsewhere.db")
    cli.refuses(7, "NO_STORE", "list")
    assert cli.json("init") == {"store": str(cli.folder / "elsewhere.db")}
    cli.add("there")
    assert cli.ids("list") == ["there"]
    assert cli.ids("list", "--store", str(cli.store)) == []
    monkeypatch.setenv("DIBS_STORE", "")
    assert cli.ids("list") == [], "an empty variable is none"


def test_scope_comes_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_SCOPE", "team")
    cli.add("job")
    assert cli.task("job")["scope"] == "team"
    assert cli.ids("list", "--scope", "default") == []
    monkeypatch.delenv("DIBS_SCOPE")
    assert cli.ids("list") == []


def test_agent_and_run_come_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_AGENT", "bob")
    monkeypatch.setenv("DIBS_RUN", "run-7")
    cli.add("mine", "--assign", "bob")
    assert cli.ids("ready") == ["mine"]
    lease = cli.json("claim")["task"]["lease"]
    assert (lease["agent"], lease["run"]) == ("bob", "run-7")
    assert [(event["agent"], event["run"]) for event in cli.json("log")] == [("bob", "run-7")] * 2
    cli.add("other")
    lease = cli.json("claim", "other", "--agent", "carl", "--run", "run-8")["task"]["lease"]
    assert (lease["agent"], lease["run"]) == ("carl", "run-8")


def test_default_agent_is_the_login_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("one")
    cli.add("two")
    assert cli.json("claim")["task"]["lease"]["agent"] == "ann"
    monkeypatch.delenv("USER")
    assert cli.json("claim")["task"]["lease"]["agent"]


@pytest.fixture
def at_work(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The environment of an agent that holds `mine`; bob holds `other`."""
    cli.add("mine")
    cli.add("other")
    cli.claim("other", "--agent", "bob")
    monkeypatch.setenv("DIBS_TASK_ID", "mine")
    monkeypatch.setenv("DIBS_TOKEN", cli.claim("mine"))
    return cli


@pytest.mark.parametrize(
    "words",
    [("done",), ("fail",), ("block", "--reason", "x"), ("review",), ("cancel",), ("release",), ("renew",)],
    ids=lambda words: str(words[0]),
)
def test_holder_may_omit_the_task_id(words: tuple[str, ...], at_work: Cli) -> None:
    assert at_work.json(*words)["task"]["id"] == "mine"


@pytest.mark.parametrize("ref", ["mine", "mi"])
def test_token_applies_to_its_task_named_by_id(ref: str, at_work: Cli) -> None:
    assert at_work.json("done", ref)["task"]["status"] == "done"


@pytest.mark.parametrize(
    "words",
    [("done",), ("fail",), ("block", "--reason", "x"), ("review",), ("cancel",), ("release",), ("renew",), ("pause",)],
    ids=lambda words: str(words[0]),
)
def test_token_never_applies_to_another_task(words: tuple[str, ...], at_work: Cli) -> None:
    told = at_work.refuses(4, "HELD", words[0], "other", *words[1:])
    assert told.holder == "bob", "not a lost lease: the token was not offered"


def test_token_is_not_used_for_a_task_with_a_longer_id(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("job")
    cli.add("job-2")
    cli.claim("job", "--agent", "bob")
    monkeypatch.setenv("DIBS_TASK_ID", "job-2")
    monkeypatch.setenv("DIBS_TOKEN", cli.claim("job-2"))
    assert cli.refuses(4, "HELD", "done", "job").holder == "bob"


def test_token_is_used_when_the_environment_has_an_id_prefix(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("parser")
    monkeypatch.setenv("DIBS_TASK_ID", "par")
    monkeypatch.setenv("DIBS_TOKEN", cli.claim("parser"))
    assert cli.json("done", "parser")["task"]["status"] == "done"


def test_token_does_not_block_a_persons_decision(at_work: Cli) -> None:
    at_work.add("idle")
    assert at_work.ok("cancel", "idle") == "canceled idle\n"
    assert at_work.ok("block", "mine", "--reason", "x") == "blocked mine\n"


def test_force_ignores_the_token(at_work: Cli) -> None:
    at_work.ok("release", "mine", "--force")
    assert at_work.json("log", "mine")[-1]["detail"] == {"forced": True}


def test_typed_token_wins(at_work: Cli) -> None:
    at_work.refuses(5, "LOST_LOCK", "done", "--token", "another")


@pytest.mark.parametrize("name", ["done", "cancel", "release", "fail"])
def test_empty_id_is_refused(name: str, at_work: Cli) -> None:
    """`dibs done "$TYPO"` must not finish the held task."""
    at_work.refuses(2, "INVALID_INPUT", name, "")


def test_token_is_not_used_in_another_scope(at_work: Cli) -> None:
    ran = at_work("done", "--scope", "elsewhere", "--json")
    assert (ran.status, ran.error.code) == (3, "NOT_FOUND")
    assert at_work.status_of("mine") == "active"
