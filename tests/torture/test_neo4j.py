"""Processes drain a plan on Neo4j while they are killed and stopped, and the server itself is killed among them.

The checker of the lab judges the histories of the workers. `make torture`
(DIBS_TORTURE=1) plays the full size.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from dibs.stores.opening import open_store
from support.neo4j import own_server, url_of
from torture.drain import Drain, Fault, run

if TYPE_CHECKING:
    import random
    from pathlib import Path

TORTURE = bool(os.environ.get("DIBS_TORTURE"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600 if TORTURE else 1200),
    pytest.mark.xdist_group("neo4j-server"),
]

FULL = Drain(
    tasks=5_000, processes=8, shared=3, work=0.05, kills=0.25, stops=0.05, lease=6.0, mischief=0.005, seed=6, limit=3000
)
SMALL = FULL._replace(tasks=50, processes=4, work=0.5, kills=0.3, stops=0.2, most=4, lease=2.0, limit=900)
FLEET = FULL if TORTURE else SMALL


def test_workers_and_server_killed_at_random_lose_no_task_and_finish_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = own_server()
    url = f"{url_of(server)}?desk=drained"
    restarts: list[int] = []

    def restart(_dice: random.Random) -> None:
        server.stop()
        server.start()
        restarts.append(server.pid)

    open_store(url, create=True).close()
    drain = FLEET._replace(url=url)
    fault = Fault(1 / 90, restart) if TORTURE else Fault(1 / 2, restart, times=1)
    report = run(drain, str(tmp_path), through=f"{url}&timeout=3", faults=[fault])
    with capsys.disabled():
        figures = report.figures
        print(  # noqa: T201 - figures, not a test
            f"\nplanned in {report.planning:.1f} s; {figures.finishes} finishes in {figures.seconds:.1f} s, "
            f"{figures.operations} operations, the slowest {figures.slowest:.1f} s; {report.killed} workers killed, "
            f"{report.stopped} stopped, the server {len(restarts)} times\n{figures.outcomes}"
        )
    assert [(each.rule, each.message) for each in report.violations] == []
    assert list(report.findings) == []
    assert report.statuses[Status.DONE] == sum(report.statuses.values()) == drain.tasks
    assert set(report.endings) == {0}, "a worker broke down or gave up"
    assert restarts
    assert report.killed
    assert report.stopped
