"""The reference leaves nothing out, and says nothing that is not so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dibs.console.commands import load
from dibs.protocols.mesh.command import add_shared
from dibs.protocols.mesh.main import COMMANDS, PACKAGE
from docs.pages import blocks, exchanges
from docs.test_reference import first_cells, options_in, page, sections

if TYPE_CHECKING:
    from dibs.console.arguments import Parser

SHARED = {"--store", "--scope", "--json"}
HELP = {"-h", "--help"}
OTHER = {"Environment", "Shared by all commands", "Statuses", "Where this differs from the protocol's own document"}


def section(name: str) -> str:
    return sections(page("mesh.md"))[name]


def parser_of(name: str) -> Parser:
    return load(PACKAGE, COMMANDS, name).parser(f"dibs mesh {name}", COMMANDS[name][1], add_shared)


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    assert set(sections(page("mesh.md"))) == {*COMMANDS, *OTHER}
    assert options_in(section("Shared by all commands")) == SHARED


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_exactly_its_arguments_and_shows_it_at_work(name: str) -> None:
    taken = {option for action in parser_of(name)._actions for option in action.option_strings} - HELP - SHARED
    assert options_in(section(name)) == taken
    for action in parser_of(name)._actions:
        if not action.option_strings:
            assert str(action.metavar) in first_cells(section(name))
    shown = [one.command for block in blocks(section(name)) if block.kind == "console" for one in exchanges(block)]
    assert any(re.search(rf"\bdibs mesh {name}\b", command) for command in shown)
