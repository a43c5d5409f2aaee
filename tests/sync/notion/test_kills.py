"""A sync killed at each of its steps: the next one continues and reverts nothing."""

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
    """Sync, die after so many steps, and return whether it died."""
    life = Life(steps)
    desk, gateway = Desk(Mortal(scene.store, life)), Mortal(scene.gateway, life)
    sync = Sync(desk, gateway, scene.sender, scene.options, sleep=scene.sleep, ticks=lambda: scene.time)
    with suppress(Killed):
        sync.run()
    if life.left > 0:
        scene.desk.edit(scene.task("Research").id, Edit(keep={"survived": True}))
    scene.clock.advance(minutes=3)  # the dead sync's lease expires
    return life.left <= 0


def _every_kill(scene: Scene) -> Iterator[tuple[int, str]]:
    """Yield a new sender with one row per step at which a sync can die; the last one survives."""
    for steps in range(2, 400, 2):  # a call counts twice: before and after it
        scene.sender = f"{steps:064x}"
        page = scene.row("Research", status="Ready", priority="Medium", agent="Jochi")
        scene.sync()
        yield steps, page
        if scene.task("Research").extra.get("survived"):
            return
    pytest.fail("a sync has no end")


def test_change_applied_before_a_crash_is_not_applied_again(scene: Scene) -> None:
    """A change here after the crash is newer, whether or not the sync had recorded its own."""
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


def test_write_before_a_crash_is_no_edit_of_notions(scene: Scene) -> None:
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


def test_row_makes_one_task_despite_crashes(scene: Scene) -> None:
    for steps, _page in _every_kill(scene):
        new = scene.row("Another", status="Blocked", agent="Temüjin")
        _killed(scene, steps)
        scene.sync()
        another = scene.task("Another")
        assert (str(another.status), another.assigned_to) == ("blocked", "developer"), steps
        assert scene.shown(new)["ID"] == another.id
