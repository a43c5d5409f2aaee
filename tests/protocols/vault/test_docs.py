"""The reference page is complete and correct."""

from __future__ import annotations

import pytest

from dibs.protocols.vault import settings
from dibs.protocols.vault.health import State, report
from dibs.protocols.vault.main import COMMANDS, PACKAGE
from dibs.protocols.vault.settings import NEXT_STATES, add_shared
from docs.command_page import CommandPage
from docs.test_reference import coded, first_cells, page, rows

from .test_health import NOW

PAGE = CommandPage(
    "vault.md",
    "dibs vault",
    PACKAGE,
    COMMANDS,
    frozenset({"Shared by all commands", "Environment", "Actions", "Drafts", "Where this differs from the document"}),
    add_shared,
    frozenset({"--vault", "--json"}),
)


def section(name: str) -> str:
    return PAGE.sections()[name]


def test_every_command_has_a_section() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_section_lists_all_arguments_with_an_example(name: str) -> None:
    PAGE.tells_all_of(name)


def test_every_state_a_file_may_go_to_is_named() -> None:
    assert set(NEXT_STATES) <= set(coded(section("release")))


def test_every_field_of_health_is_described() -> None:
    state = State("ann", "LOCAL", "agent-1", 1, NOW, NOW)
    assert first_cells(section("health")) - {"--agent NAME"} == set(report(state, 0, NOW))


def test_every_action_is_listed_with_its_type_of_draft() -> None:
    listed = rows(section("Actions"))[1:-1]
    assert {name for cells in listed for name in coded(cells[0])} == settings.ALLOWED[settings.Role.LOCAL]
    drafted = {name for cells in listed if cells[1] == "drafts it" for name in coded(cells[0])}
    assert drafted == settings.SENSITIVE
    assert {coded(cells[0])[0]: kind for cells in listed for kind in coded(cells[3])} == {
        action: kind for kind, action in settings.ACTION_OF_DRAFT.items()
    }


def test_every_key_of_a_draft_is_listed() -> None:
    keys = {settings.DRAFT_ID, settings.DRAFT_TYPE, settings.DRAFT_OF, settings.APPROVAL, settings.EXPIRES}
    assert keys <= first_cells(section("Drafts"))


def test_every_variable_of_the_vault_is_explained() -> None:
    listed = first_cells(section("Environment"))
    row = next(cells for cells in rows(page("configuration.md")) if "VAULT_PATH" in cells[0])
    assert set(coded(row[0])) == listed
