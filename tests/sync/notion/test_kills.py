"""A sync that is killed at any of its steps, of which each is tried: the next one goes on, and takes nothing back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Edit
from dibs.desk import Desk
from dibs.sync.notion.syncing import Sync
from sync.notion.world import Killed, Life, Mortal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sync.notion.scene import Scene


def _killed(scene: Scene, steps: int) -> bool:
    """Sync, and die after so many steps; whether it did."""
    life = Life(steps)
    desk, gateway = Desk(Mortal(scene.store, life)), Mortal(scene.gateway, life)
    sync = Sync(desk, gateway, scene.sender, scene.options, sleep=scene.sleep, ticks=lambda: scene.time)
    with suppress(Killed):
        sync.run()
    if life.left > 0:
        scene.desk.edit(scene.task("Research").id, Edit(keep={"survived": True}))
    scene.clock.advance(minutes=3)  # the lease of the dead runs out
    return life.left <= 0


def _every_kill(scene: Scene) -> Iterator[tuple[int, str]]:
    """A new sender with one row for every step at which a sync can die; after the last, one who did not."""
    for steps in range(2, 400, 2):  # a call counts twice, for what comes before it and what after
        scene.sender = f"{steps:064x}"
        page = scene.row("Research", status="Ready", priority="Medium", agent="Jochi")
        scene.sync()
        yield steps, page
        if scene.task("Research").extra.get("survived"):
            return
    pytest.fail("a sync has no end")


def test_what_was_taken_over_before_the_death_is_not_taken_over_again(scene: Scene) -> None:
    """Said here after it came from Notion, it is the newer word, whatever the dead had not yet written down."""
    taken = 0
    for steps, page in _every_kill(scene):
        scene.edit(page, priority="Critical")
        died = _killed(scene, steps)
        if scene.task("Research").priority == -1.0:
            taken += died
            scene.desk.edit(scene.task("Research").id, Edit(priority=-0.3))
            scene.sync()
            assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-0.3, "Low"), steps
        scene.sync()
        assert scene.task("Research").extra["notion_page_id"] == page.replace("-", "")
    assert taken > 5


def test_what_notion_was_told_before_the_death_is_no_edit_of_its_own(scene: Scene) -> None:
    told = 0
    for steps, page in _every_kill(scene):
        scene.desk.edit(scene.task("Research").id, Edit(priority=-0.3, override=True))
        died = _killed(scene, steps)
        told += died and scene.shown(page)["Priority"] == "Low"
        report = scene.sync()
        assert not report.applied, steps
        assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-0.3, "Low"), steps
        assert scene.task("Research").override
    assert told > 5


def test_a_row_makes_one_task_wherever_the_sync_died_that_made_it(scene: Scene) -> None:
    for steps, _page in _every_kill(scene):
        new = scene.row("Another", status="Blocked", agent="Temüjin")
        _killed(scene, steps)
        scene.sync()
        another = scene.task("Another")
        assert (str(another.status), another.assigned_to) == ("blocked", "developer"), steps
        assert scene.shown(new)["ID"] == another.id
