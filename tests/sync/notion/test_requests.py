"""Requests: few reads, writes only of differences, no repeats."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Edit
from sync.notion.scene import cells

if TYPE_CHECKING:
    from sync.notion.scene import Scene


ROWS = 1000


def test_thousand_rows_need_few_requests(scene: Scene) -> None:
    pages = [
        scene.notion.page(
            scene.database.id,
            cells(
                name=f"Row {number}",
                sender=scene.sender,
                status="Ready",
                priority="Low",
                agent="Jochi",
                id=f"r{number}",
            ),
        )
        for number in range(ROWS)
    ]
    seen: list[int] = []
    report = scene.syncer(watch=lambda _label, _total: nullcontext(seen.append)).run()
    assert (len(report.applied), report.status, report.written) == (ROWS, "success", 0)
    assert len(scene.notion.requests) <= 14
    assert sum(seen) == 2 * ROWS
    assert len(seen) > 100
    scene.notion.requests.clear()
    scene.clock.advance(minutes=5)
    assert not scene.sync(polled=True).eventful  # lists lag, so recent edits are read once more
    scene.notion.requests.clear()
    assert not scene.sync(polled=True).eventful
    assert len(scene.notion.requests) <= 2
    scene.edit(pages[7], priority="High")
    scene.desk.edit("r8", Edit(priority=-0.8))
    scene.notion.requests.clear()
    report = scene.sync(polled=True)
    assert (len(report.applied), report.written) == (1, 1)
    assert len(scene.notion.requests) <= 4  # the list, the changed page twice, and the write
    scene.notion.human.trash(pages[9])
    assert not scene.sync(polled=True).applied
    scene.clock.advance(minutes=15)
    assert [each.kind for each in scene.sync(polled=True).applied] == ["deleted"]


def test_only_differences_are_written(scene: Scene) -> None:
    full = scene.row("Full", status="Ready", priority="Low", agent="Jochi")
    bare = scene.row("Bare")
    assert scene.sync().written == 2
    sent = [request for request in scene.notion.requests if request.method == "PATCH"]
    assert len(sent) == 3  # the bare row's id, which returns the row, then its other values
    assert scene.shown(full)["Priority"] == "Low"
    assert (scene.shown(bare)["Priority"], scene.shown(bare)["Status"]) == ("Medium", "Ready")


def test_bare_rows_are_completed_without_single_reads(scene: Scene) -> None:
    scene.options = scene.options._replace(route=lambda _name: ("code", "developer"))
    pages = [scene.row(f"Row {number}") for number in range(120)]
    assert scene.sync().written == len(pages)
    assert scene.notion.requests.count("GET") == 2  # the database, and its properties
    assert scene.notion.requests.count("POST") == 2  # pages of the list
    shown = scene.shown(pages[7])
    assert (shown["Priority"], shown["Agent"], shown["Status"]) == ("Medium", "Temüjin", "Ready")
    scene.notion.requests.clear()
    assert not scene.sync(polled=True).eventful
    assert len(scene.notion.requests) <= 2


def test_notion_is_asked_again_when_it_asks_to_wait(scene: Scene) -> None:
    page = scene.row("Research", priority="Low")
    scene.notion.faults.retry_after = 7
    scene.notion.faults.next("rate_limited", method="POST")
    scene.notion.faults.next("rate_limited", method="PATCH", times=2)
    scene.notion.faults.next("conflict", method="PATCH")
    assert scene.sync().status == "success"
    assert scene.slept.count(7) >= 2
    assert scene.shown(page)["ID"] == page


@pytest.mark.parametrize("fault", ["unavailable_after_commit", "drop_after_commit", "garbage"])
def test_unanswered_write_is_looked_up_not_repeated(scene: Scene, fault: str) -> None:
    scene.row("Research", status="Ready", priority="Low", agent="Jochi")
    scene.notion.faults.next(fault, method="PATCH")
    report = scene.sync()
    assert (report.status, report.written) == ("success", 1)
    assert scene.notion.requests.count("PATCH") == 1


def test_notion_is_left_alone_when_it_takes_nothing(scene: Scene) -> None:
    for number in range(9):
        scene.row(f"Row {number}")
    scene.notion.faults.next("unavailable", method="PATCH", times=99)
    report = scene.sync()
    assert (report.unwritten, report.left, report.status) == (3, 6, "partial")
    scene.notion.faults.clear()
    assert scene.sync().written == 9
