"""The reference is complete and correct."""

from __future__ import annotations

import re

import pytest

from dibs.protocols.kurultai.main import COMMANDS, PACKAGE, add_shared
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.policy import FLEET, agent_for
from dibs.protocols.kurultai.records import TaskRecord
from docs.command_page import CommandPage
from docs.test_reference import first_cells, rows

PAGE = CommandPage(
    "kurultai.md",
    "dibs kurultai",
    PACKAGE,
    COMMANDS,
    frozenset(
        {
            "Environment",
            "Shared by all commands",
            "Statuses",
            "The record of a task",
            "Agents",
            "The library",
            "Where this differs from the protocol's own document",
        }
    ),
    add_shared,
    frozenset({"--store", "--sender", "--sender-hash", "--json"}),
)


def section(name: str) -> str:
    return PAGE.sections()[name]


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_command_section_lists_its_arguments_with_an_example(name: str) -> None:
    PAGE.tells_all_of(name)


def test_every_field_of_a_record_is_described() -> None:
    assert first_cells(section("The record of a task")) == set(TaskRecord.__annotations__)


def test_every_agent_is_listed_with_its_deliverables() -> None:
    told = {cells[0]: cells[2] for cells in rows(section("Agents"))[1:]}
    assert list(told) == [profile.id for profile in FLEET]
    for kind in ("research", "content", "code", "testing", "analysis", "strategy", "ops"):
        assert re.search(rf"\b{kind}\b", told[agent_for(kind)])


def test_every_call_of_the_library_is_listed() -> None:
    calls = {name for name in vars(OperationalMemory) if not name.startswith("_")} - {"close", "describe"}
    assert set(re.findall(r"[a-z_]+(?=[`(])", "".join(first_cells_as_text()))) >= calls


def first_cells_as_text() -> list[str]:
    return [cells[0] for cells in rows(section("The library"))]
