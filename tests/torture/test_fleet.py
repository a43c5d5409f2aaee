"""Dispatchers and workers on each store: no agent exceeds its limit, no task is assigned twice, all are done.

`make torture` (DIBS_TORTURE=1) plays the full size: 2,000 tasks, 3 dispatchers, 12 workers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from torture.fleet import Fleet, run

if TYPE_CHECKING:
    from pathlib import Path

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
SOON = 5 if TORTURE else 60  # seconds; beside a whole test run, a server that was just started takes its time

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500 if TORTURE else 600)]


@pytest.fixture(params=["sqlite", "postgres", "neo4j"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fleet.db"
    if request.param == "postgres":
        from support.postgres_server import shared_url as postgres_url

        return f"{postgres_url()}&schema=fleet_drain_{os.getpid()}"
    from support.neo4j import fresh_desk
    from support.neo4j import shared_url as neo4j_url

    return f"{neo4j_url()}{'&' if '?' in neo4j_url() else '?'}desk={fresh_desk()}"


def test_a_fleet_whose_leading_dispatcher_is_killed_does_everything_once_and_within_its_limits(url: str) -> None:
    fleet = (
        Fleet(url, tasks=2_000, agents=6, workers=12, kills=8, deadline=1200)
        if TORTURE
        else Fleet(url, tasks=60, agents=3, workers=4, dispatchers=2, kills=1, work=0.1, deadline=400)
    )
    report = run(fleet)
    assert list(report.problems) == []
    assert report.statuses == {Status.DONE: fleet.tasks}
    assert report.kills
    assert report.peak == fleet.limit, "no agent reached its limit, so this shows nothing"
    assert report.takeovers
    assert all(seconds < SOON for seconds in report.takeovers), report.takeovers
    print(report.statuses, f"{report.seconds:.0f} s, takeovers {[f'{each:.1f}' for each in report.takeovers]}")  # noqa: T201 - figures
