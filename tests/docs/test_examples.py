"""Every command of every script, and every option of it, is run by a page or by a session beside this file."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from dibs.cli import catalogue as cli
from dibs.console.commands import load
from docs.pages import ROOT, blocks, exchanges, pages, sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.console.arguments import Parser
    from dibs.console.commands import Table
    from docs.pages import Block

# The text before a command, if it is more than the name of its script.
_SAID = {"ralph": "ralph task"}

# An option that no page can run, such as an address of another machine → the test that does.
_TESTED = {
    "dibs demo --port": "tests/acceptance/test_boarding.py",
    "dibs demo --dir": "tests/acceptance/test_boarding.py",
    "dibs work --with": "tests/fleet/test_worktrees.py",
    "dibs open --no-browser": "tests/acceptance/test_undo_and_search.py",
    "dibs torture --restart-command": "tests/acceptance/test_torture.py",
}


def tables() -> dict[str, tuple[str, Table]]:
    """The text before a command → the package of its module, and its table."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = {name: target.partition(":")[0] for name, target in project["scripts"].items()}
    found = {name: import_module(module) for name, module in modules.items() if name != "dibs"}
    own = {_SAID.get(name, name): (module.PACKAGE, module.COMMANDS) for name, module in found.items()}
    groups = {f"dibs {name}": (cli.group(name).package, cli.group(name).table) for name in cli.GROUPS}
    return {"dibs": (cli.PACKAGE, cli.COMMANDS)} | own | groups


def commands() -> list[tuple[str, str]]:
    return [(said, name) for said, (_, table) in tables().items() for name in table]


@cache
def run_on_pages() -> tuple[str, ...]:
    """Every command that pages and sessions run; pipes, lists and substitutions are split."""
    found = [block for page in (*pages(), *sessions()) for block in blocks(page.read_text(encoding="utf-8"))]
    lines = [line for block in found for line in typed(block)]
    return tuple(part.strip() for line in lines for part in re.split(r"[|;\n]|&&|\$\(", line))


def typed(block: Block) -> list[str]:
    if block.kind == "console":
        return [exchange.command for exchange in exchanges(block)]
    return block.text.splitlines() if block.kind == "setup" else []


def uses(said: str, name: str) -> list[str]:
    """Shared options may precede the name."""
    called = re.compile(rf"(?<![\w/.-]){said} (?:--(?:store|scope) \S+ |--json )*{re.escape(name)}(?![\w-])")
    return [part for part in run_on_pages() if called.search(part)]


def parser_of(said: str, name: str) -> Parser:
    package, table = tables()[said]
    return load(package, table, name).parser(f"{said} {name}", table[name][1])


def shown(said: str, name: str, spellings: Sequence[str]) -> bool:
    """On a page or in a session, or where neither can do it, in the test that is named for it."""
    words = {word.partition("=")[0] for line in uses(said, name) for word in line.split()}
    where = _TESTED.get(f"{said} {name} {spellings[-1]}")
    in_test = where is not None and spellings[-1] in (ROOT / where).read_text(encoding="utf-8")
    return in_test or bool(words & {*spellings})


@pytest.mark.parametrize(("said", "name"), commands(), ids=repr)
def test_every_command_and_option_runs_on_a_page(said: str, name: str) -> None:
    assert uses(said, name), f"no page runs '{said} {name}'"
    options = [action.option_strings for action in parser_of(said, name)._actions if action.option_strings]
    assert [each for each in options if "--help" not in each and not shown(said, name, each)] == []
