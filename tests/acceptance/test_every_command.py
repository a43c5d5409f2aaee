"""Rules for all commands: two kinds of output, shared options, help, and errors without tracebacks."""

from __future__ import annotations

import ast
import re
import shlex
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dibs.cli.catalogue import COMMANDS, GROUPS, PACKAGE, TOPICS
from dibs.cli.command import add_shared
from dibs.cli.commands.completion import catalogues
from dibs.console.commands import load
from dibs.console.examples import EXAMPLES
from dibs.core.errors import AmbiguousId, CycleDetected, DibsError, InvalidInput
from dibs.stores.sqlite.database import Database
from dibs.stores.sqlite.store import SqliteStore
from support.cli import ESCAPE

from .scenes import SCENES, STORELESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cli import Cli

every_command = pytest.mark.parametrize("name", COMMANDS)
every_scene = pytest.mark.parametrize("name", SCENES)

_PROTOCOLS = frozenset({"mcp"})  # a protocol uses their stdout: see tests/mcp_tools


def test_every_command_has_a_scene() -> None:
    assert SCENES.keys() == COMMANDS.keys() - _PROTOCOLS


def test_every_command_has_a_test_that_names_it() -> None:
    own = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    typed = {word for path in own for word in _first_words(ast.parse(path.read_text()))}
    assert COMMANDS.keys() - typed == _PROTOCOLS


def _first_words(tree: ast.AST) -> Iterator[str]:
    """The first literal words of all calls, and those after an expected status and code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (
                arg.value for arg in node.args[:3] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            )


@every_scene
def test_command_prints_plain_text(name: str, cli: Cli) -> None:
    ran = cli(*SCENES[name](cli))
    assert ran.status == 0, ran
    assert ran.err == ""
    assert ESCAPE not in ran.out
    assert ran.out.endswith("\n"), "something is said, and the line is ended"


@every_scene
def test_json_prints_exactly_one_document(name: str, cli: Cli) -> None:
    ran = cli(*SCENES[name](cli), "--json")
    assert ran.status == 0, ran
    assert ran.err == ""
    assert ran.data is not None


@every_scene
def test_shared_options_may_precede_the_command(name: str, cli: Cli) -> None:
    words = SCENES[name](cli)
    ran = cli("--store", str(cli.store), "--json", "--scope", "default", *words)
    assert ran.status == 0, ran
    assert ran.data is not None


@every_scene
def test_shared_options_may_follow_the_command(name: str, cli: Cli) -> None:
    words = SCENES[name](cli)
    ran = cli(*words, "--json", f"--store=sqlite:///{cli.store}", "--scope=default")
    assert ran.status == 0, ran
    assert ran.data is not None


@every_command
def test_help_explains_every_option(name: str, cli: Cli) -> None:
    ran = cli(name, "--help")
    assert ran.status == 0
    assert ran.err == ""
    assert f"usage: dibs {name}" in ran.out
    summary = COMMANDS[name][1]
    assert summary[1:] in ran.out
    for action in load(PACKAGE, COMMANDS, name).parser(f"dibs {name}", summary, add_shared)._actions:
        for spelled in action.option_strings or [str(action.metavar)]:
            assert spelled in ran.out


@every_command
def test_help_needs_no_project(name: str, bare: Cli) -> None:
    assert bare(name, "-h").status == 0


@every_command
def test_help_fits_a_screen_of_120_columns(name: str, cli: Cli) -> None:
    assert max(map(len, cli(name, "--help").out.splitlines())) <= 120


@every_scene
def test_unknown_option_is_named_with_a_pointer_to_help(name: str, cli: Cli) -> None:
    told = cli.refuses(2, "INVALID_INPUT", *SCENES[name](cli), "--no-such-option")
    assert "--no-such-option" in told.message
    assert f"dibs {name} --help" in told.message


@every_scene
def test_command_without_a_store_explains_how_to_create_one(name: str, cli: Cli) -> None:
    words = SCENES[name](cli)
    if name in STORELESS or name == "init":
        return
    told = cli.refuses(7, "NO_STORE", *words, "--store", "nowhere.db")
    assert "dibs init" in told.message
    assert not (cli.folder / "nowhere.db").exists()


def _tree(kind: type[DibsError] = DibsError) -> Iterator[DibsError]:
    """One of each error class of dibs."""
    if issubclass(kind, CycleDetected):
        yield kind(["a", "b", "a"])
    elif kind is AmbiguousId:
        yield AmbiguousId("a", ["ab", "ac"])
    elif issubclass(kind, InvalidInput):
        yield kind("Not like this.")
    else:
        yield kind("Not now.", holder="bob", retry_after_ms=1500)
    for below in kind.__subclasses__():
        if below.__module__ == DibsError.__module__:  # a server's own errors never reach the command line
            yield from _tree(below)


@every_scene
def test_no_error_class_prints_a_traceback(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    words = SCENES[name](cli)
    if name in STORELESS:
        return
    for error in _tree():
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "__init__", _raising(error))
            spoken, written = cli(*words), cli(*words, "--json")
        assert spoken == (error.exit_status, "", f"dibs: {error.message}\n")
        assert (written.status, written.err) == (error.exit_status, "")
        assert written.error == (error.code, error.message, error.holder, error.retry_after_ms)


def _raising(error: Exception) -> Any:
    def raises(*_args: object, **_options: object) -> None:
        raise error

    return raises


_DRIVER_TROUBLE = {
    sqlite3.SQLITE_BUSY: "STORE_BUSY",
    sqlite3.SQLITE_READONLY: "STORE_READ_ONLY",
    sqlite3.SQLITE_FULL: "STORE_FULL",
    sqlite3.SQLITE_CORRUPT: "STORE_CORRUPT",
    sqlite3.SQLITE_CANTOPEN: "STORE_UNAVAILABLE",
    sqlite3.SQLITE_IOERR: "STORE_ERROR",
}


@every_scene
def test_driver_errors_are_reported_as_store_errors(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    words = SCENES[name](cli)
    if name in STORELESS or name in {"init", "doctor"}:
        return  # these begin no transaction that could fail
    before = cli.snapshot()
    for number, code in _DRIVER_TROUBLE.items():
        trouble = sqlite3.OperationalError("trouble on the disk")
        trouble.sqlite_errorcode = number
        with monkeypatch.context() as patch:
            patch.setattr(Database, "begin", _raising(trouble))
            ran = cli(*words, "--json")
        assert (ran.status, ran.error.code) == (7, code)
        assert not (cli.folder / "export.jsonl").exists(), "half an export must not pass for a whole one"
    assert cli.snapshot() == before


def test_help_names_every_command_and_fits_one_screen(bare: Cli) -> None:
    for words in (("--help",), ("-h",), ("help",)):
        ran = bare(*words)
        assert ran.status == 0
        named = {word.strip(",") for word in ran.out.split()}
        assert {*COMMANDS, *GROUPS, *TOPICS} - named == {"start"}
        lines = ran.out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) < 80


def test_topic_help_describes_its_commands(bare: Cli) -> None:
    everything = bare.ok("help", "all")
    for name, topic in TOPICS.items():
        told = bare.ok("help", name)
        for command, (_, summary) in {**topic.commands, **topic.groups}.items():
            assert f"  {command} " in told
            assert summary in told
            assert summary in everything
        assert max(map(len, told.splitlines())) <= 100


def test_every_command_belongs_to_one_topic() -> None:
    placed = [name for topic in TOPICS.values() for name in (*topic.commands, *topic.groups)]
    assert sorted(placed) == sorted({*COMMANDS, *GROUPS})


def test_every_help_ends_with_examples_that_parse(bare: Cli) -> None:
    parsers = {" ".join(entry.words): entry.parser for each in catalogues() for entry in each.entries}
    ours = {name for name in parsers if name.startswith("dibs ") and name.split()[1] not in TOPICS["protocols"].groups}
    assert ours - EXAMPLES.keys() == set()
    for name, examples in EXAMPLES.items():
        for example in examples:
            inner = re.fullmatch(r'(?:eval|cd) "\$\((.*)\)"', example)
            typed, said = shlex.split(re.split(" [<>] ", inner[1] if inner else example)[0]), name.split()
            assert typed[: len(said)] == said, example
            parsers[name].parse_args(typed[len(said) :])
        assert examples[0] in bare.ok(*name.split()[1:], "--help")


def test_help_without_a_command_is_an_error(bare: Cli) -> None:
    ran = bare()
    assert ran.status == 2
    assert "usage: dibs" in ran.out + ran.err


def test_json_without_a_command_is_one_document(bare: Cli) -> None:
    ran = bare("--json")
    assert ran.status == 2
    assert ran.error.code == "INVALID_INPUT"


def test_unknown_option_before_the_command_is_named(bare: Cli) -> None:
    ran = bare("--no-such-option")
    assert ran.status == 2
    assert "--no-such-option" in ran.err


def test_shared_option_without_its_value_is_named(bare: Cli) -> None:
    ran = bare("--store")
    assert ran.status == 2
    assert "--store" in ran.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("clam", "claim"), ("lisst", "list"), ("frobnicate", ""), ("dnoe", "done")]
)
def test_unknown_command_suggests_the_nearest(typed: str, meant: str, cli: Cli) -> None:
    told = cli.refuses(2, "INVALID_INPUT", typed)
    assert f"'{typed}'" in told.message
    assert (f"Type: dibs {meant}" if meant else "dibs help") in told.message


def test_abbreviated_option_is_refused(cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "claim", "--hum", "job")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("add",), "TITLE"),
        (("show",), "ID"),
        (("edit",), "ID"),
        (("link",), "ID"),
        (("plan",), "FILE"),
        (("import",), "FILE"),
        (("approve",), "ID"),
        (("block", "job"), "--reason"),
        (("list", "--limit"), "--limit"),
    ],
)
def test_missing_argument_is_named(words: tuple[str, ...], missing: str, cli: Cli) -> None:
    assert missing in cli.refuses(2, "INVALID_INPUT", *words).message


@pytest.mark.parametrize("name", ["done", "fail", "review", "cancel", "release", "renew"])
def test_missing_task_is_requested(name: str, cli: Cli) -> None:
    assert "DIBS_TASK_ID" in cli.refuses(2, "INVALID_INPUT", name).message
