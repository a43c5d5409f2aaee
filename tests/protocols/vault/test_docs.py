"""The reference leaves nothing out, and says nothing that is not so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dibs.console.commands import load
from dibs.protocols.vault import roles
from dibs.protocols.vault.command import add_shared
from dibs.protocols.vault.health import State, report
from dibs.protocols.vault.main import COMMANDS, PACKAGE
from dibs.protocols.vault.policy import NEXT_STATES
from docs.pages import blocks, exchanges
from docs.test_reference import coded, first_cells, options_in, page, rows, sections

from .test_health import NOW

if TYPE_CHECKING:
    from dibs.console.arguments import Parser

SHARED = {"--vault", "--json", "-h", "--help"}
OTHER = {"Shared by all commands", "Environment", "Actions", "Drafts"}


def section(name: str) -> str:
    return sections(page("vault.md"))[name]


def parser_of(name: str) -> Parser:
    return load(PACKAGE, COMMANDS, name).parser(f"dibs vault {name}", COMMANDS[name][1], add_shared)


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    assert set(sections(page("vault.md"))) == {*COMMANDS, *OTHER}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_exactly_its_options(name: str) -> None:
    taken = {option for action in parser_of(name)._actions for option in action.option_strings} - SHARED
    assert options_in(section(name)) == taken


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_section_has_its_arguments_and_shows_it_at_work(name: str) -> None:
    told = first_cells(section(name))
    for action in parser_of(name)._actions:
        if not action.option_strings:
            assert str(action.metavar) in told
    shown = [one.command for block in blocks(section(name)) if block.kind == "console" for one in exchanges(block)]
    assert any(re.search(rf"\bdibs vault {name}\b", command) for command in shown)


def test_the_shared_options_are_described_once() -> None:
    assert options_in(section("Shared by all commands")) == SHARED


def test_every_state_a_file_may_go_to_is_named() -> None:
    assert set(NEXT_STATES) <= set(coded(section("release")))


def test_every_field_of_health_is_described() -> None:
    state = State("ann", "LOCAL", "agent-1", 1, NOW, NOW)
    assert first_cells(section("health")) - {"--agent NAME"} == set(report(state, 0, NOW))


def test_every_action_is_listed_with_its_type_of_draft() -> None:
    listed = rows(section("Actions"))[1:-1]
    assert {name for cells in listed for name in coded(cells[0])} == roles.ALLOWED[roles.Role.LOCAL]
    drafted = {name for cells in listed if cells[1] == "drafts it" for name in coded(cells[0])}
    assert drafted == roles.SENSITIVE
    assert {coded(cells[0])[0]: kind for cells in listed for kind in coded(cells[3])} == {
        action: kind for kind, action in roles.ACTION_OF_DRAFT.items()
    }


def test_every_key_of_a_draft_is_listed() -> None:
    keys = {roles.DRAFT_ID, roles.DRAFT_TYPE, roles.DRAFT_OF, roles.APPROVAL, roles.EXPIRES}
    assert keys <= first_cells(section("Drafts"))


def test_every_variable_of_the_vault_is_explained() -> None:
    listed = first_cells(section("Environment"))
    row = next(cells for cells in rows(page("configuration.md")) if "VAULT_PATH" in cells[0])
    assert set(coded(row[0])) == listed
