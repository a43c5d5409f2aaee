"""dibs agent and dibs dispatch from the command line, and their complete reference page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.cli.catalogue import PACKAGE, group
from dibs.cli.command import add_shared
from docs.command_page import CommandPage

if TYPE_CHECKING:
    from support.cli import Cli

COMMANDS = group("agent").table
PAGE = CommandPage(
    "agent.md",
    "dibs agent",
    PACKAGE,
    COMMANDS,
    frozenset({"Shared by all commands"}),
    add_shared,
    frozenset({"--store", "--scope", "--json"}),
)


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_command_section_lists_its_arguments_with_an_example(name: str) -> None:
    PAGE.tells_all_of(name)


def test_fleet_works_from_its_first_agent_to_its_last_task(cli: Cli) -> None:
    cli.ok("agent", "add", "ann", "--role", "writer")
    for number in range(3):
        cli.ok("add", f"Write {number}", "--id", f"w{number}", "--deliverable", "content")
    told = cli("dispatch", "--json").data
    assert (told["executed_count"], told["error_count"], told["executed"]) == (2, 0, ["w0", "w1"])
    assert [one["task_id"] for one in told["queued"]] == ["w2"]
    token = cli("claim", "--agent", "ann", "--assigned", "--json").data["token"]
    cli.ok("done", "w0", "--token", token)
    told = cli("dispatch", "--json").data
    assert (told["executed"], told["expected_seconds"]) == (["w2"], None)
    shown = cli("agent", "show", "ann", "--json").data
    assert (shown["held"], shown["waiting"], shown["present"]) == (0, 2, True)
    removed = cli("agent", "remove", "ann", "--json").data
    assert sorted(removed["taken_back"]) == ["w1", "w2"]
    assert cli("agent", "list", "--json").data == []
    cli.ok("claim", "w1", "--agent", "zoe")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("agent", "add"), "No agent is named"),
        (("agent", "add", "ann"), "--role"),
        (("agent", "add", "ann", "--role", " "), "role"),
        (("agent", "add", "ann", "--role", "x", "--limit", "100000"), "1000"),
        (("agent", "add", "ann", "--preset", "kurultai"), "--preset"),
        (("agent", "hire"), "There is no command"),
        (("dispatch", "--route", "code"), "TYPE=ROLE"),
        (("dispatch", "--watch", "--once"), "not allowed"),
    ],
)
def test_wrong_input_is_reported(cli: Cli, words: tuple[str, ...], told: str) -> None:
    ran = cli(*words)
    assert ran.status == 2
    assert told in ran.err


def test_unknown_agent_is_not_found(cli: Cli) -> None:
    for command in ("show", "remove"):
        ran = cli("agent", command, "nobody")
        assert (ran.status, "dibs agent add nobody" in ran.err) == (3, True)
