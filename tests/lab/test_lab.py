"""The light load test: fleets under faults on every kind of store, for a few seconds each.

`make torture` (DIBS_TORTURE=1) plays it on all of them, for longer, with all that each can suffer.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from dibs.lab.torture.experiments import Experiment, run
from support import postgres_server

TORTURE = bool(os.environ.get("DIBS_TORTURE"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if TORTURE else 1200), pytest.mark.xdist_group("lab")]

TRIES = (1, 2, 4, 8)  # times as long, until enough has happened on a slow machine


def played(experiment: Experiment, least: dict[str, int]) -> None:
    """In one run after the other, all of them sound, until everything has happened as often as is asked for."""
    happened: Counter[str] = Counter()
    for seed, times in enumerate(TRIES, 1):
        report = run(experiment._replace(seconds=times * experiment.seconds, seed=seed))
        assert [(each.rule, each.message) for each in report.violations] == []
        assert report.drained or experiment.faults == ("disk",), "some task could not be finished"
        happened.update({name: getattr(report.figures, name) for name in ("finishes", "lost_locks", "unknown")})
        happened.update(report.struck)
        if all(happened[name] >= number for name, number in least.items()):
            return
    pytest.fail(f"{least} was to happen, and {happened} did")


AT_WORK = {"finishes": 21, "lost_locks": 1}


@pytest.mark.parametrize("store", ["sqlite", "vault"])
def test_a_fleet_on_this_machine_is_killed_stopped_and_set_wrong_and_nothing_is_violated(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = str(request.getfixturevalue(store))
    seconds = 60.0 if TORTURE else 10.0 if store == "sqlite" else 4.0
    faults = ("kill", "stop", "clock", "slow")
    played(
        Experiment(url, seconds, workers=6, tasks=100, faults=faults, mischief=2.0), AT_WORK | {"kill": 2, "stop": 1}
    )


def test_a_full_disk_loses_nothing_that_was_accepted(sqlite: str) -> None:
    played(Experiment(sqlite, 4.0, workers=4, tasks=60, faults=("disk",), calm=0.3), {"disk": 1, "unknown": 1})


def test_a_fleet_at_a_server_is_cut_off_and_nothing_is_violated() -> None:
    url = postgres_server.shared_url()
    seconds = 60.0 if TORTURE else 5.0
    faults = ("kill", "stop", "partition", "slow")
    played(Experiment(url, seconds, workers=4, tasks=60, faults=faults, mischief=2.0), AT_WORK | {"partition": 1})
