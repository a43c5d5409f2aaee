"""The reference is complete and correct."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dibs.console.commands import load
from dibs.core.task import Status
from dibs.protocols.ralph.main import COMMANDS, PACKAGE
from dibs.protocols.ralph.markdown import Section
from dibs.protocols.ralph.settings import RALPH
from docs.test_reference import coded, first_cells, options_in, page, rows

if TYPE_CHECKING:
    from dibs.console.arguments import Parser

HELP = {"-h", "--help"}
OTHER = {"Environment", "Markdown-KV", "Statuses", "What a name can prove"}


def sections() -> dict[str, str]:
    """The text under each heading of the page; `## Task …` is output of ralph, not a heading."""
    parts = re.split(r"^## (?!Task )(.+)$", page("ralph.md"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def section(name: str) -> str:
    return sections()[name]


def parser_of(name: str) -> Parser:
    return load(PACKAGE, COMMANDS, name).parser(f"ralph task {name}", COMMANDS[name][1])


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    assert set(sections()) == {*COMMANDS, *OTHER, "Where this differs from ralph's own document"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_exactly_its_options(name: str) -> None:
    taken = {option for action in parser_of(name)._actions for option in action.option_strings} - HELP
    assert options_in(section(name)) == taken


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_its_arguments(name: str) -> None:
    told = first_cells(section(name))
    for action in parser_of(name)._actions:
        if not action.option_strings:
            assert set(action.choices or [str(action.metavar)]) <= told


def test_every_status_is_explained() -> None:
    told = {word for cells in rows(section("Statuses")) for word in coded(cells[0])}
    assert told == {RALPH.say(status) for status in Status}


def test_every_key_is_listed_in_its_order() -> None:
    listed = re.search(r"left out:\n\n(.*?)\n\n", section("Markdown-KV"), re.DOTALL)
    assert listed is not None
    assert [name for name in coded(listed[1]) if name not in {"show", "claim"}] == list(Section._fields)
