"""The reference matches the commands."""

from __future__ import annotations

import pytest

from dibs.protocols.mesh.policy import COMMANDS, PACKAGE, add_shared
from docs.command_page import CommandPage

PAGE = CommandPage(
    "mesh.md",
    "dibs mesh",
    PACKAGE,
    COMMANDS,
    frozenset({
        "Environment", "Shared by all commands", "Statuses", "Where this differs from the protocol's own document",
    }),
    add_shared,
    frozenset({"--store", "--scope", "--json"}),
)  # fmt: skip


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_section_has_exactly_the_commands_arguments_and_an_example(name: str) -> None:
    PAGE.tells_all_of(name)
