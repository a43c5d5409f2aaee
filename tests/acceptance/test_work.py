"""work: what is refused before anything is claimed, and what is told; what it does is shown in tests/fleet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "Give a command after --"),
        (("--", "no-such-command"), "There is no command 'no-such-command'"),
        (("--slots", "0", "--", "true"), "above zero"),
        (("--slots", "65", "--", "true"), "up to 64 slots"),
        (("--lease", "0s", "--", "true"), "lease"),
        (("--time-limit", "soon", "--", "true"), "not a span of time"),
        (("--time-limit", "0s", "--", "true"), "no time for anything"),
        (("--agent", "a\nb", "--", "true"), "agent"),
        (("--can", "", "--", "true"), "capability"),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, words: tuple[str, ...], why: str) -> None:
    cli.add("job")
    ran = cli("work", *words)
    assert ran.status == 2
    assert why in ran.err
    assert cli.json("show", "job")["status"] == "ready"


def test_there_being_nothing_to_do_is_told_with_its_status(cli: Cli) -> None:
    assert cli("work", "--once", "--", "true").status == 4
    ran = cli("work", "--once", "--json", "--", "true")
    assert (ran.status, ran.error.code) == (4, "NOTHING_READY")
    assert cli("work", "--until-empty", "--json", "--", "true").out == ""


def test_a_line_for_each_beginning_and_each_end(cli: Cli) -> None:
    cli.add("a")
    cli.add("b")
    out = cli.ok("work", "--agent", "bob", "--until-empty", "--", "sh", "-c", 'test "$DIBS_TASK_ID" = a || exit 3')
    lines = [line.partition(" after")[0] for line in out.splitlines()]
    assert lines[0] == "bob is at work"
    assert lines[1].startswith("took a (attempt 1): ")
    assert lines[2] == "done a"
    assert lines[3].startswith("took b (attempt 1): ")
    assert lines[4] == "failed b"
    assert lines[5] == "bob leaves: 1 done, 1 failed"
    assert "exit status 3" in out


def test_for_programs_a_document_for_each_task_that_has_ended(cli: Cli) -> None:
    cli.add("one")
    cli.add("two")
    told = [json.loads(line)["data"] for line in cli.ok("work", "--until-empty", "--json", "true").splitlines()]
    assert [(each["what"], each["task"]["id"], each["task"]["status"]) for each in told] == [
        ("done", "one", "done"),
        ("done", "two", "done"),
    ]
    assert all(each["seconds"] >= 0 for each in told)
