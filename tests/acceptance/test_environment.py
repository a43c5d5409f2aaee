"""DIBS_STORE, DIBS_SCOPE, DIBS_AGENT, DIBS_RUN, DIBS_TASK_ID and DIBS_TOKEN stand in for what is not typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


def test_the_store_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_STORE", "elsewhere.db")
    cli.refuses(7, "NO_STORE", "list")
    assert cli.json("init") == {"store": str(cli.folder / "elsewhere.db")}
    cli.add("there")
    assert cli.ids("list") == ["there"]
    assert cli.ids("list", "--store", str(cli.store)) == []
    monkeypatch.setenv("DIBS_STORE", "")
    assert cli.ids("list") == [], "an empty variable is none"


def test_the_scope_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_SCOPE", "team")
    cli.add("job")
    assert cli.task("job")["scope"] == "team"
    assert cli.ids("list", "--scope", "default") == []
    monkeypatch.delenv("DIBS_SCOPE")
    assert cli.ids("list") == []


def test_the_agent_and_run_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_without_an_agent_it_is_the_login_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("one")
    cli.add("two")
    assert cli.json("claim")["task"]["lease"]["agent"] == "ann"
    monkeypatch.delenv("USER")
    assert cli.json("claim")["task"]["lease"]["agent"]


@pytest.fixture
def at_work(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """In the environment of someone who holds `mine`; bob holds `other`."""
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
def test_who_holds_a_task_need_not_name_it(words: tuple[str, ...], at_work: Cli) -> None:
    assert at_work.json(*words)["task"]["id"] == "mine"


@pytest.mark.parametrize("ref", ["mine", "mi"])
def test_the_token_speaks_for_its_task_by_name_too(ref: str, at_work: Cli) -> None:
    assert at_work.json("done", ref)["task"]["status"] == "done"


@pytest.mark.parametrize(
    "words",
    [("done",), ("fail",), ("block", "--reason", "x"), ("review",), ("cancel",), ("release",), ("renew",), ("pause",)],
    ids=lambda words: str(words[0]),
)
def test_the_token_never_speaks_for_another_task(words: tuple[str, ...], at_work: Cli) -> None:
    told = at_work.refuses(4, "HELD", words[0], "other", *words[1:])
    assert told.holder == "bob", "not a lost lease: the token was not offered"


def test_the_token_never_speaks_for_a_task_whose_id_its_own_begins_with(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.add("job")
    cli.add("job-2")
    cli.claim("job", "--agent", "bob")
    monkeypatch.setenv("DIBS_TASK_ID", "job-2")
    monkeypatch.setenv("DIBS_TOKEN", cli.claim("job-2"))
    assert cli.refuses(4, "HELD", "done", "job").holder == "bob"


def test_the_token_speaks_where_the_environment_has_only_the_beginning_of_the_id(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.add("parser")
    monkeypatch.setenv("DIBS_TASK_ID", "par")
    monkeypatch.setenv("DIBS_TOKEN", cli.claim("parser"))
    assert cli.json("done", "parser")["task"]["status"] == "done"


def test_the_token_does_not_hinder_what_a_person_decides(at_work: Cli) -> None:
    at_work.add("idle")
    assert at_work.ok("cancel", "idle") == "canceled idle\n"
    assert at_work.ok("block", "mine", "--reason", "x") == "blocked mine\n"


def test_force_leaves_the_token_aside(at_work: Cli) -> None:
    at_work.ok("release", "mine", "--force")
    assert at_work.json("log", "mine")[-1]["detail"] == {"forced": True}


def test_a_typed_token_wins(at_work: Cli) -> None:
    at_work.refuses(5, "LOST_LOCK", "done", "--token", "another")


@pytest.mark.parametrize("name", ["done", "cancel", "release", "fail"])
def test_an_empty_id_is_a_mistake_and_not_the_task_of_the_environment(name: str, at_work: Cli) -> None:
    """`dibs done "$TYPO"` must not finish whatever I hold."""
    at_work.refuses(2, "INVALID_INPUT", name, "")


def test_the_token_of_another_scope_is_not_offered(at_work: Cli) -> None:
    ran = at_work("done", "--scope", "elsewhere", "--json")
    assert (ran.status, ran.error.code) == (3, "NOT_FOUND")
    assert at_work.status_of("mine") == "active"
