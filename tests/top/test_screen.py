"""A frame fits its terminal, whatever the tasks are called."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from dibs.cli.commands.top import StorePoller
from dibs.cli.screen import frame, page
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.cli.commands.top import Snapshot

TITLES = (
    "Write the parser",
    "[bold red]markup[/] is not ours",
    "turned \u202e around",
    "カートのUIを作る " * 8,
    "a very long title that goes on " * 12,
    "👨‍👩‍👧 family accounts",
)
ACTIONS = (None, "\x1b]0;title\x07 ask \u202e somebody " * 9)


@pytest.fixture(scope="module")
def shot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder: Path = tmp_path_factory.mktemp("top")
    with Desk(open_store(f"sqlite:///{folder}/desk.db?durability=normal", create=True), by=Actor("boss")) as desk:
        for number in range(30):
            desk.add([Draft(TITLES[number % len(TITLES)], id=f"t{number}", requires=("code",) if number % 2 else ())])
        for number in range(8):
            desk.claim(f"agent-{number % 5}", refs=[f"t{number}"], lease=timedelta(minutes=1 + number), can=["code"])
        for number in range(10, 15):
            desk.move(Verb.BLOCK, f"t{number}", reason="\x1b[31mwaits\nfor\x07", unblock_action=ACTIONS[number % 2])
        return StorePoller(desk, anywhere=False, rows=50).look()


def drawn(shot: Snapshot, width: int, height: int | None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, highlight=False)
    with console.capture() as caught:
        if height is None:
            console.print(page(shot, width))
        else:
            console.print(frame(shot, width, height, "The store is away."), height=height)
    return caught.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (120, 40), (200, 60), (40, 12)])
def test_a_frame_is_exactly_as_large_as_the_terminal(shot: Snapshot, width: int, height: int) -> None:
    lines = drawn(shot, width, height)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "agents" in text
    assert "ready (" in text
    assert "waiting for people" in text
    assert "The store is away." in lines[0] or width < 60


def test_a_page_has_all_of_it_and_markup_is_text(shot: Snapshot) -> None:
    text = "\n".join(drawn(shot, 100, None))
    assert "[bold red]markup[/]" in text
    assert all(f"agent-{number}" in text for number in range(5))
    assert sum(f" t{number} " in text for number in range(30)) == 30
