"""Sixteen real processes finish a plan; the checker of the lab judges their history.

`make torture` (DIBS_TORTURE=1) plays the full size.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from torture.drain import Drain, run

if TYPE_CHECKING:
    from pathlib import Path

    from torture.drain import Report

TORTURE = bool(os.environ.get("DIBS_TORTURE"))

CALM = Drain(tasks=20_000, durable=True, limit=1500) if TORTURE else Drain(tasks=3_000)
DEADLY = Drain(
    tasks=5_000 if TORTURE else 600,
    kills=6.0,
    stops=0.5,
    most=400 if TORTURE else 30,
    lease=1.0,
    work=0.25,
    mischief=0.02,
    durable=TORTURE,
    seed=2,
    limit=1500 if TORTURE else 900,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if TORTURE else 1200), pytest.mark.xdist_group("torture")]


def assert_sound(report: Report, drain: Drain) -> None:
    assert [(each.rule, each.message) for each in report.violations] == []
    assert list(report.findings) == []
    assert report.statuses[Status.DONE] == sum(report.statuses.values()) == drain.tasks
    assert set(report.endings) == {0}, "a worker broke down or gave up"


def test_every_task_is_done_once_in_order_by_its_one_holder(tmp_path: Path) -> None:
    report = run(CALM, str(tmp_path))
    assert_sound(report, CALM)
    assert report.figures.finishes == CALM.tasks
    shares = {name: share for name, share in report.shares.items() if "picker" not in name}
    assert len(shares) == CALM.processes * 3 / 4, "only who picks by name may always come too late"
    assert min(shares.values()) > 0.1 * CALM.tasks / CALM.processes, shares
    assert not report.starved, report.figures


def test_workers_killed_and_stopped_at_random_lose_no_task_and_no_late_token_counts(tmp_path: Path) -> None:
    report = run(DEADLY, str(tmp_path))
    assert_sound(report, DEADLY)
    assert report.killed
    assert report.stopped
    assert report.figures.lost_locks
