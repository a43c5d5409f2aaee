"""Rows as people write them: a bad row does not keep others from syncing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.sync.notion.report import text_of

if TYPE_CHECKING:
    from sync.notion.scene import Scene

ODD = ["", "   ", "two\nlines", "tab\there", "\x1b[31mred", "nul\x00", "a\u2028b", "-dash", "\ud7ff"]
ODD += ["x" * 2000, "🦊" * 700]


def test_odd_names_and_ids_are_accepted_if_possible(scene: Scene) -> None:
    pages = [scene.row(name, id=name[:50], status="Ready") for name in ODD]
    pages.append(scene.row("Plain", id="plain"))
    report = scene.sync()
    made = {task.extra["notion_page_id"] for task in scene.desk.graph().tasks}
    assert made == {page.replace("-", "") for page in pages}, report
    assert report.status == "success"
    assert scene.task("Plain").id == "plain"
    assert "\x00" not in text_of(report)
    scene.edit(pages[-1], name="nul\x00 again", priority="High")
    scene.sync()
    assert (scene.task("nul  again").priority, scene.task("nul  again").id) == (-0.8, "plain")
    assert not scene.sync(polled=True).eventful
