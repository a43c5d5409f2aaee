"""Everyday command lines of people lead to the right command: every line of `intents.yaml` is run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dibs.cli import main as program
from dibs.cli import reading
from dibs.cli.catalogue import COMMANDS, GROUPS, group
from dibs.cli.synonyms import NEAR, SAME, SENTENCES
from dibs.cli.typed import spelled
from dibs.console.commands import Command, load
from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.cli import Cli

INTENTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("intents.yaml").read_text(encoding="utf-8"))
LEAST = 153  # 95 of 100 lines


class _Recorded:
    """The last command that ran, with its parsed arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.last: tuple[str, dict[str, Any]] | None = None
        monkeypatch.setattr(program, "load", self._load)

    def _load(self, package: str, table: Any, name: str) -> Command:
        command = load(package, table, name)

        def act(args: Any) -> int:
            self.last = name, dict(vars(args))
            return command.act(args)

        return command._replace(act=act)


def parsed(words: Sequence[str]) -> tuple[str, Any]:
    """A command line as its meaning; two spellings of one command are equal."""
    name, *rest = words
    if name in GROUPS or name == "help" or "--help" in rest:
        return name, rest
    return name, vars(program._parsed([], name, rest)[1])


def leads_there(cli: Cli, ran: _Recorded, typed: str, means: str) -> bool:
    """Whether dibs ran the command or suggested it."""
    ran.last = None
    answer = cli(*shlex.split(typed))
    wanted = shlex.split(means)
    if f"{spelled(wanted)}\n" in answer.err:
        return True
    if wanted[0] in GROUPS or wanted[0] == "help" or "--help" in wanted:
        return answer.status == 0
    if answer.status == InvalidInput.exit_status:
        suggested = answer.err.partition("Type: dibs ")[2]
        return bool(suggested) and parsed(_unquoted(suggested)) == parsed(wanted)
    return ran.last == parsed(wanted)


def _unquoted(spelled: str) -> list[str]:
    return shlex.split(spelled.strip())


def test_everyday_intents_lead_to_their_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = _Recorded(monkeypatch)
    for task in ("parser", "tests", "docs"):
        cli.add(task)
    cli.file("plan.yaml", "- {id: more, title: More}\n")
    cli.file("tasks.jsonl", "")
    misses = [
        (typed, means)
        for intent in INTENTS
        for typed, means in zip(intent["typed"], intent["means"], strict=True)
        if not leads_there(cli, ran, typed, means)
    ]
    missed = {intent["want"] for intent in INTENTS if {*zip(intent["typed"], intent["means"], strict=True)} & {*misses}}
    assert len(INTENTS) >= 161
    assert len(INTENTS) - len(missed) >= LEAST, misses


def test_synonym_means_an_existing_command() -> None:
    words = {*SAME, *(each for words in NEAR for each in words.split())}
    for word in sorted(words - COMMANDS.keys() - GROUPS.keys()):
        meant = reading.read([word, "parser"]) or reading.read([word])
        assert meant is not None, word
        assert meant.words[0] in {*COMMANDS, *GROUPS, "help"}, word


def test_sentence_means_an_existing_command() -> None:
    for _, means in SENTENCES:
        first = means.split()[0].rstrip("?")
        assert first in {*COMMANDS, *GROUPS, *SAME, *(word for words in NEAR for word in words.split()), "STATE"}


def test_guesses_never_end_or_replace_anything(cli: Cli) -> None:
    cli.add("parser")
    for typed in ("delete parser", "rm parser", "cancle parser", "parser delete", "mark parser as canceled", "archive"):
        answer = cli(*typed.split())
        assert answer.status == 2, typed
        assert "Type: dibs " in answer.err, typed
        assert cli.status_of("parser") == "ready"


@pytest.mark.parametrize("word", ["finsh", "watsh", "nwe", "frobnicate", "x", "tak", "stowp", "lint"])
def test_typing_error_never_names_an_unrelated_command(word: str, cli: Cli) -> None:
    unrelated = {"finsh": "init", "watsh": "dispatch", "nwe": "renew", "tak": "token", "stowp": "top", "lint": "init"}
    told = cli.refuses(2, "INVALID_INPUT", word)
    assert f"dibs {unrelated.get(word, 'init')}" not in told.message


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("agent new ann --role writer", ("agent", "add", "ann", "--role", "writer")),
        ("agent ann", ("agent", "show", "ann")),
        ("mail check", ("mail", "read")),
        ("token new", ("token", "create")),
        (
            "token create bob --role viewer --days 7",
            ("token", "create", "--for", "viewer", "--expires", "7d", "--agent", "bob"),
        ),
        ("agent add bob --label", None),
    ],
)
def test_words_under_a_group_have_synonyms_too(typed: str, meant: tuple[str, ...] | None) -> None:
    name, *rest = typed.split()
    found = reading.read_group(group(name), rest)
    assert (found and found.words) == meant


def test_unknown_options_are_dropped_or_explained(cli: Cli) -> None:
    cli.add("parser")
    assert cli.ids("list", "--sort", "priority") == ["parser"]
    assert "no due dates" in cli.refuses(2, "INVALID_INPUT", "add", "x", "--due", "tomorrow").message


def test_a_suggestion_carries_the_arguments_but_no_token(cli: Cli) -> None:
    cli.add("parser")
    told = cli.refuses(2, "INVALID_INPUT", "delete", "parser", "--reason", "not needed", "--token", "s3cret")
    assert "Type: dibs cancel parser --reason 'not needed' --token TOKEN" in told.message
    assert "s3cret" not in told.message
