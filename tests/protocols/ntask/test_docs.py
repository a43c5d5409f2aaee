"""The reference matches the commands, and the guidance uses valid ones."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Holder, Lease, ServiceClass, Status, Task
from dibs.desk import open_desk
from dibs.protocols.ntask.answers import EXITS, task_json
from dibs.protocols.ntask.commands.project import GUIDANCE
from dibs.protocols.ntask.main import COMMANDS, PACKAGE
from docs.command_page import CommandPage
from docs.test_reference import coded, page, rows

if TYPE_CHECKING:
    from pathlib import Path


PAGE = CommandPage(
    "ntask.md",
    "ntask",
    PACKAGE,
    COMMANDS,
    frozenset({"Environment", "A task", "Order", "Where this differs from ntask's own document"}),
)


def section(name: str) -> str:
    return PAGE.sections()[name]


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_section_has_exactly_the_commands_arguments_and_an_example(name: str) -> None:
    PAGE.tells_all_of(name)


def test_every_code_is_listed_with_its_exit_status() -> None:
    head = page("ntask.md").partition("\n## ")[0]
    listed = {code: int(cells[0]) for cells in rows(head)[1:] for code in coded(cells[1])}
    assert listed == EXITS


def test_every_key_is_listed_in_its_order(tmp_path: Path) -> None:
    listed = re.search(r"left out:\n\n(.*?)\n\n", section("A task"), re.DOTALL)
    assert listed is not None
    with open_desk(f"sqlite:///{tmp_path}/tasks.db", create=True) as desk:
        now = desk.now()
        lease = Lease("t", 1, "a", "r", Holder.AGENT, now, now)
        full = Task("s", "i", "t", now, now, now, "d", Status.BLOCKED, "why", lease=lease, started_at=now)
        full = full._replace(artifacts=("x",), unblock_action="u", next_check_at=now, parent="p", finished_at=now)
        keys = [*task_json(desk, full, secrets=True)]
        done = [*task_json(desk, full._replace(status=Status.DONE), secrets=True)]
    told = coded(listed[1])
    assert set(told) == {*keys, *done}
    assert [key for key in told if key in keys] == keys
    assert [key for key in told if key in done] == done


def test_every_status_and_class_is_named() -> None:
    told = section("A task") + section("Order")
    for word in (*(status.upper() for status in Status if status is not Status.ACTIVE), "IN_PROGRESS"):
        assert word in told
    for word in ServiceClass:
        assert word.upper() in told


def test_commands_in_the_guidance_are_valid() -> None:
    """Options that the text mentions once are added here."""
    typed = re.findall(r"`ntask ([^`]+)`", GUIDANCE)
    assert {words.split()[0] for words in typed} >= {"next", "claim", "heartbeat", "complete", "review", "block"}
    for words in typed:
        name, *given = shlex.split(words)
        lock = ["--run-id", "RUN", "--lock-token", "TOKEN"]
        needs = name in {"complete", "review", "block", "release", "cancel"}
        PAGE.parser_of(name).parse_args([*given, *(lock if needs else [])])


def test_guidance_names_every_code() -> None:
    assert all(code in GUIDANCE for code in EXITS)
