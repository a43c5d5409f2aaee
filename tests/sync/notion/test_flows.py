"""The document's examples, word for word where it has words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import Status

if TYPE_CHECKING:
    from sync.notion.scene import Scene


def test_a_priority_that_is_changed_in_notion_comes_with_the_command(everywhere: Scene) -> None:
    scene = everywhere
    page = scene.row("Competitor research", status="Not Started", priority="Medium", agent="Jochi")
    scene.sync()
    scene.edit(page, priority="Critical")
    assert scene.told() == (
        "✅ **Sync from Notion complete**\n\n✅ **1 task updated:**\n  • Priority: 0.5 → 1.0 (Competitor research)"
    )
    task = scene.task("Competitor research")
    assert (task.priority, task.status) == (-1.0, Status.READY)
    assert task.extra["external_priority_source"] == "notion"
    assert scene.shown(page)["ID"] == task.id
    assert scene.shown(page)["Last Synced"] is not None


def test_the_poller_brings_the_same_without_being_asked(scene: Scene) -> None:
    page = scene.row("Competitor research", status="Not Started", priority="Medium")
    scene.sync()
    scene.edit(page, priority="Critical")
    assert scene.told(polled=True) == (
        "✅ **Notion sync complete**\n\n✅ **1 change applied:**\n  • Priority: 0.5 → 1.0 (Competitor research)"
    )
