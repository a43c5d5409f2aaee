"""Invalid input to ralph: exit status 1, a message, and no write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dibs.protocols.ralph.main import COMMANDS, main

if TYPE_CHECKING:
    from support.ralph import Ralph

USAGE = [
    ("claim", "a", "b"),
    ("claim", ""),
    ("claim", "--lease", "0"),
    ("claim", "--lease", "-5"),
    ("claim", "--lease", "1.5"),
    ("claim", "--lease", "ten"),
    ("claim", "--lease", "99999999"),
    ("claim", "--lease"),
    ("claim", "--les", "5"),
    ("renew",),
    ("renew", "a", "--lease", "0"),
    ("peek", "-n", "0"),
    ("peek", "-n", "-1"),
    ("peek", "-n", "many"),
    ("peek", "extra"),
    ("done",),
    ("done", ""),
    ("done", "a", "--result", "{not json"),
    ("done", "a", "--result", ""),
    ("done", "a", "--result", "NaN"),
    ("done", "a", "--result", "[" * 100 + "]" * 100),
    ("done", "a", "--force", "--token", "t"),
    ("fail", "a", "--reason"),
    ("list", "--all", "--status", "open"),
    ("list", "--markdown", "--json"),
    ("list", "--status", "ready"),
    ("list", "--status", ""),
    ("list", "--status", "open,,done"),
    ("show",),
    ("create", "a"),
    ("create", "", "Title"),
    ("create", "has space", "Title"),
    ("create", "new", ""),
    ("create", "new", "   "),
    ("create", "new", "two\nlines"),
    ("create", "new", "x" * 501),
    ("create", "n" * 129, "Title"),
    ("create", "new", "Title", "-p", "-1"),
    ("create", "new", "Title", "-p", "1.5"),
    ("create", "new", "Title", "-p", "high"),
    ("create", "new", "Title", "-p", "9999999999"),
    ("create", "new", "Title", "-s", "not json"),
    ("create", "new", "Title", "-s", '{"a": 1}'),
    ("create", "new", "Title", "-s", "[1]"),
    ("create", "new", "Title", "--deps", "new"),
    ("create", "new", "Title", "--max-retries", "-1"),
    ("update", "a"),
    ("update", "a", "--priority", "-1"),
    ("update", "a", "--title", ""),
    ("update", "a", "--steps", "x"),
    ("block", "a"),
    ("block", "a", "--by"),
    ("unblock", "a"),
    ("unblock", "a", "--by", ""),
    ("delete",),
    ("delete", "-x"),
    ("deps",),
    ("plan-status", "extra"),
    ("plan-sync", "file.jsonl"),
    ("plan-sync", "--spec", ""),
    ("what",),
    ("-h-",),
]


@pytest.mark.parametrize("words", USAGE, ids=lambda words: " ".join(words)[:40])
def test_wrong_words_exit_with_1_and_change_nothing(ralph: Ralph, words: tuple[str, ...]) -> None:
    ralph.create("a")
    before = ralph.place.written()
    ran = ralph(*words, agent="ann")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("ralph: ")
    assert "Traceback" not in ran.err
    assert ralph.place.written() == before


PLANS = {
    "not json": "{",
    "no object": "[1]",
    "a number": "7",
    "no id": '{"t": "T"}',
    "an empty id": '{"id": "", "t": "T"}',
    "an id with a space": '{"id": "a b", "t": "T"}',
    "no title": '{"id": "x"}',
    "an empty title": '{"id": "x", "t": " "}',
    "a null title": '{"id": "x", "t": null}',
    "a title on two lines": '{"id": "x", "t": "a\\nb"}',
    "a negative priority": '{"id": "x", "t": "T", "p": -1}',
    "a priority and a half": '{"id": "x", "t": "T", "p": 1.5}',
    "a priority in words": '{"id": "x", "t": "T", "p": "high"}',
    "a priority of true": '{"id": "x", "t": "T", "p": true}',
    "an endless priority": '{"id": "x", "t": "T", "p": 1e400}',
    "a text for a list": '{"id": "x", "t": "T", "deps": "a"}',
    "a number among the steps": '{"id": "x", "t": "T", "steps": [1]}',
    "an unknown key": '{"id": "x", "t": "T", "due": "today"}',
    "one key twice": '{"id": "x", "t": "T", "t": "U"}',
    "both names of a key": '{"id": "x", "t": "T", "title": "U"}',
    "itself as a dependency": '{"id": "x", "t": "T", "deps": ["x"]}',
}


@pytest.mark.parametrize("line", PLANS.values(), ids=PLANS)
def test_a_wrong_line_in_a_plan_is_named_and_nothing_is_written(ralph: Ralph, line: str) -> None:
    ralph.create("a")
    before = ralph.place.written()
    ran = ralph.sync({"id": "new", "t": "Fine"}, "", line, {"id": "other", "t": "Fine"})
    assert (ran.status, ran.out) == (1, "")
    assert "line 3" in ran.err
    assert ralph.place.written() == before


def test_a_cycle_in_a_plan_is_named(ralph: Ralph) -> None:
    ran = ralph.sync({"id": "a", "t": "A", "deps": ["b"]}, {"id": "b", "t": "B", "deps": ["a"]})
    assert (ran.status, ran.out) == (1, "")
    assert "→" in ran.err
    assert ralph.tasks() == {}


def test_a_plan_that_is_not_utf8_is_refused(ralph: Ralph) -> None:
    ran = ralph("plan-sync", stdin=b'{"id": "a", "t": "\xff"}')
    assert (ran.status, ran.out) == (1, "")
    assert "UTF-8" in ran.err


def test_a_plan_may_begin_with_a_mark_and_end_its_lines_as_elsewhere(ralph: Ralph) -> None:
    ran = ralph("plan-sync", stdin="\ufeff" + json.dumps({"id": "a", "t": "A"}) + "\r\n\r\n")
    assert ran.out.startswith("inserted: 1,")


def test_a_message_quotes_nothing_that_could_move_the_cursor(ralph: Ralph) -> None:
    ralph.create("a")
    ralph("claim", "a", "--agent", "\u202eevil", agent="ann")
    assert "\u202e" not in ralph("claim", "a", agent="bob").err


@pytest.mark.parametrize("words", [["--help"], ["task", "--help"], ["task", "help"], ["help"]])
def test_help_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name} " not in shown] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", name, "--help"]) == 0
    assert f"usage: ralph task {name}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["task"], ["build"], ["plan", "-n", "5"], ["tsk"]])
def test_without_a_command_ralph_exits_with_1(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert "ralph task" in "".join(capsys.readouterr())


def test_a_misspelt_command_is_answered_with_the_nearest(ralph: Ralph) -> None:
    assert "'plan-sync'" in ralph("plansync").err


def test_the_version_is_that_of_dibs(capsys: pytest.CaptureFixture[str]) -> None:
    from dibs import __version__

    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
