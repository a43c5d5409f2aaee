"""The document's examples, word for word where it has words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import Draft, Status
from dibs.stores.port import EventQuery
from dibs.sync.notion.report import Outlook, Place, text_of

if TYPE_CHECKING:
    from sync.notion.scene import Scene


def test_changed_priority_arrives_with_the_command(everywhere: Scene) -> None:
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


def test_several_changes_and_a_task_that_notion_does_not_know(scene: Scene) -> None:
    page = scene.row("Competitor research", status="Not Started", priority="Medium", agent="Jochi")
    scene.sync()
    scene.add(Draft("USDC earning plan", id="usdc", priority=-0.5, assigned_to="analyst"))
    scene.edit(page, priority="Critical")
    scene.row("Create Moltbook landing page", priority="High", agent="Temüjin")
    outlook = Outlook(
        12, (Place("Competitor research", "Critical", "Jochi"), Place("USDC earning plan", "Medium", None))
    )
    assert text_of(scene.syncer(outlook=lambda _desk: outlook).run()) == (
        "✅ **Sync from Notion complete**\n"
        "\n"
        "✅ **1 new task created:**\n"
        "  • Create Moltbook landing page\n"
        "\n"
        "✅ **1 task updated:**\n"
        "  • Priority: 0.5 → 1.0 (Competitor research)\n"
        "\n"
        "⚠️ **1 change skipped** (safety rules):\n"
        '  • Task "USDC earning plan" exists in Kurultai but not in Notion. Not deleted; please add to Notion '
        "or cancel here.\n"
        "\n"
        "📊 **Estimated completion:** 12 minutes\n"
        "\n"
        "New execution order:\n"
        "1. Competitor research (Critical) → Jochi\n"
        "2. USDC earning plan (Medium)"
    )


def test_a_second_sync_changes_nothing_on_either_side(everywhere: Scene) -> None:
    scene = everywhere
    scene.row("One", status="In Progress", priority="Odd", agent="Nobody Known")
    scene.row("Two", status="Blocked", agent="Temüjin", id="two")
    first = scene.sync()
    assert (len(first.applied), first.status) == (3, "success")
    scene.clock.advance(minutes=1)
    before = list(scene.store.dump())
    scene.notion.requests.clear()
    assert not scene.sync(polled=True).eventful
    assert scene.notion.requests.count("PATCH") == 0
    told = [record for record in scene.store.dump() if record.scope == scene.sender]
    assert told == [record for record in before if record.scope == scene.sender]
    events = {event.verb: event.detail for event in scene.store.events(EventQuery(scene.sender))}
    assert events["sync"]["changes_applied"] == 3
    assert events["sync"]["status"] == "success"
    assert events["sync_change"]["sync_event_id"] == events["sync"]["id"]
