"""The light load test: fleets under faults on every kind of store, for a few seconds each.

`make torture` (DIBS_TORTURE=1) plays it on all of them, for longer, with all that each can suffer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import postgres_server
from dibs.torture.lab import Experiment, run

if TYPE_CHECKING:
    from dibs.torture.lab import Report

TORTURE = bool(os.environ.get("DIBS_TORTURE"))

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab")]


def assert_sound(report: Report) -> None:
    assert [(each.rule, each.message) for each in report.violations] == []
    assert report.drained, "something was left that nobody could finish"
    assert report.figures.finishes > 20
    assert report.figures.lost_locks > 0, "nobody was late"


@pytest.mark.parametrize("store", ["sqlite", "vault"])
def test_a_fleet_on_this_machine_is_killed_stopped_and_set_wrong_and_nothing_is_violated(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = str(request.getfixturevalue(store))
    seconds = 60.0 if TORTURE else 10.0 if store == "sqlite" else 4.0
    report = run(Experiment(url, seconds, workers=6, tasks=100, faults=("kill", "stop", "clock", "slow"), mischief=2.0))
    assert_sound(report)
    assert report.struck["kill"] > 1
    assert report.struck["stop"] > 0


def test_a_full_disk_loses_nothing_that_was_accepted(sqlite: str) -> None:
    report = run(Experiment(sqlite, 4.0, workers=4, tasks=60, faults=("disk",), calm=0.3))
    assert [(each.rule, each.message) for each in report.violations] == []
    assert report.struck["disk"] > 0
    assert report.figures.unknown > 0, "there was room all the time"


def test_a_fleet_at_a_server_is_cut_off_and_nothing_is_violated() -> None:
    url = postgres_server.shared_url()
    seconds = 60.0 if TORTURE else 5.0
    report = run(
        Experiment(url, seconds, workers=4, tasks=60, faults=("kill", "stop", "partition", "slow"), mischief=2.0)
    )
    assert_sound(report)
    assert report.struck["partition"] > 0
