"""work: options that are refused before a claim, and the output; tests/fleet covers the work itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dibs.desk import open_desk

if TYPE_CHECKING:
    from support.cli import Cli


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "Give one after --"),
        (("--", "no-such-command"), "There is no program 'no-such-command'"),
        (("--slots", "0", "--", "true"), "above zero"),
        (("--slots", "65", "--", "true"), "up to 64 slots"),
        (("--lease", "0s", "--", "true"), "lease"),
        (("--time-limit", "soon", "--", "true"), "not a span of time"),
        (("--time-limit", "0s", "--", "true"), "must be longer than 0"),
        (("--agent", "a\nb", "--", "true"), "agent"),
        (("--can", "", "--", "true"), "capability"),
    ],
)
def test_contradictory_options_are_refused(cli: Cli, words: tuple[str, ...], why: str) -> None:
    cli.add("job")
    ran = cli("work", *words)
    assert ran.status == 2
    assert why in ran.err
    assert cli.json("show", "job")["status"] == "ready"


def test_worker_without_a_task_has_its_own_status(cli: Cli) -> None:
    assert cli("work", "--once", "--", "true").status == 4
    ran = cli("work", "--once", "--json", "--", "true")
    assert (ran.status, ran.error.code) == (4, "NOTHING_READY")
    assert cli("work", "--until-empty", "--json", "--", "true").out == ""


def test_output_has_a_line_for_each_begin_and_end(cli: Cli) -> None:
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


def test_json_has_a_document_for_each_finished_task(cli: Cli) -> None:
    cli.add("one")
    cli.add("two")
    told = [json.loads(line)["data"] for line in cli.ok("work", "--until-empty", "--json", "true").splitlines()]
    assert [(each["what"], each["task"]["id"], each["task"]["status"]) for each in told] == [
        ("done", "one", "done"),
        ("done", "two", "done"),
    ]
    assert all(each["seconds"] >= 0 for each in told)


def test_logs_report_dropped_output_and_print_no_escapes(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    with open_desk(str(cli.store)) as desk:
        desk.append_output("job", token, 0, "\x1b[31mred\x1b[0m\x07 text\r\n")
        desk.append_output("job", token, 1000, "later\n")
    assert cli.ok("logs", "job") == "red text\n\n[980 bytes were dropped here]\nlater\n"
    assert [piece["start"] for piece in cli.json("logs", "job")["pieces"]] == [0, 1000]
    cli.add("silent")
    assert "no output of silent is stored" in cli("logs", "silent").err
    cli.ok("done", "job", "--token", token)
    assert cli.ok("logs", "job", "--follow", "--attempt", "1").endswith("later\n")
    assert cli("logs", "nowhere").status == 3
