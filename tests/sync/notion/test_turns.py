"""One sync per sender, five in all, ten an hour; and dead syncs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, LostLock, OverQuota
from dibs.sync.notion.schedule import LEASE, turn
from sync.notion.scene import ANN, BOB

if TYPE_CHECKING:
    from sync.notion.scene import Scene


def _turn(scene: Scene, sender: str = ANN):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a context manager
    return turn(scene.desk, sender, "notion", lambda: scene.time)


def test_only_syncs_of_one_sender_exclude_each_other(everywhere: Scene) -> None:
    scene = everywhere
    with _turn(scene):
        with pytest.raises(Held, match="is running"):
            scene.sync()
        scene.sync(BOB)
    scene.sync()


def test_five_syncs_run_at_once_and_a_sixth_is_refused(scene: Scene) -> None:
    with ExitStack() as stack:
        for number in range(5):
            stack.enter_context(_turn(scene, f"{number:064x}"))
        with pytest.raises(Held, match="5 syncs"):
            scene.sync()
    scene.sync()


def test_hourly_quota_ignores_idle_polls(scene: Scene) -> None:
    page = scene.row("Research", priority="Low")
    for _ in range(20):
        scene.sync(polled=True)
    for _ in range(10):
        scene.sync()
    with pytest.raises(OverQuota) as caught:
        scene.sync()
    assert caught.value.retry_after_ms is not None
    for number in range(9):  # the first poll found the row, so it counts
        scene.edit(page, priority=("High", "Low")[number % 2])
        assert len(scene.sync(polled=True).applied) == 1
    scene.edit(page, priority="Critical")
    with pytest.raises(OverQuota, match="polls"):
        scene.sync(polled=True)
    assert scene.task("Research").priority == -0.8
    scene.clock.advance(hours=1)
    assert len(scene.sync(polled=True).applied) == 1
    assert scene.sync().status == "success"


def test_a_sync_that_lost_its_turn_stops(scene: Scene) -> None:
    """After a long pause another sync has the turn, so this one must not write."""
    scene.row("Research", status="Ready")
    real = scene.gateway.query

    def slow(*args: object) -> object:
        scene.clock.advance(seconds=LEASE.total_seconds() + 1)
        scene.time += LEASE.total_seconds() + 1
        return real(*args)  # type: ignore[arg-type]

    scene.gateway.query = slow  # type: ignore[assignment]
    with pytest.raises(LostLock):
        scene.sync()
    assert scene.desk.graph().tasks == ()


def test_long_sync_renews_its_turn_until_its_limit(scene: Scene) -> None:
    """Each write takes 40 seconds; after five minutes the next sync continues."""
    for number in range(12):
        scene.row(f"Row {number}", status="Ready", priority="Low", agent="Jochi")
    real = scene.gateway.update

    def slow(*args: object) -> object:
        scene.sleep(40)
        return real(*args)  # type: ignore[arg-type]

    scene.gateway.update = slow  # type: ignore[assignment]
    report = scene.sync()
    assert (report.status, report.written, report.left) == ("partial", 8, 4)
    assert (scene.sync(polled=True).written, scene.sync(polled=True).eventful) == (4, False)
