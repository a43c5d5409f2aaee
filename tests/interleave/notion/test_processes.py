"""Eight real processes on one Notion, in real seconds, which log their work to a witness.

The times are scaled down: claims depend on the order of times, not on their length. `make torture` (DIBS_TORTURE=1)
runs more tasks.
"""

from __future__ import annotations

import os
from random import Random
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from dibs.lab.emulator import Emulator
from dibs.stores.notion.gateway import BURST
from dibs.stores.opening import open_store
from interleave.notion.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
AGENTS = 8
TASKS = 200 if TORTURE else 24
WINDOWS = (1, 1, 2, 4, 8, 16, 32)  # seconds; a quiet machine needs the first two, a busy one takes longer for a claim
LONG_ENOUGH = 45 * 60  # seconds after which every lease has expired

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torture")]


@pytest.fixture
def notion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with Emulator(seed=7) as notion:
        monkeypatch.setenv("NOTION_TOKEN", notion.token)
        monkeypatch.setenv("NOTION_API_BASE_URL", notion.url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield notion


def rough(notion: Emulator) -> None:
    """Make Notion slow, its lists outdated, and some writes fail before or after they are made."""
    notion.faults.latency_before = (0.0, 0.15)
    notion.faults.latency_after = (0.0, 0.15)
    notion.faults.query_lag = 1.0
    notion.advance(2.0)  # makes the tasks older than the lag, as an agent that finds none exits
    notion.faults.rates["conflict"] = 0.02
    notion.faults.rates["unavailable_after_commit"] = 0.02
    notion.faults.rates["drop_after_commit"] = 0.02


def bounds(window: float) -> str:
    return f"window={window}&settle={1.2 * window}"


@pytest.mark.timeout(3600 if TORTURE else 1800)
def test_processes_never_work_on_the_same_task(tmp_path: Path, notion: Emulator) -> None:
    fleet = Fleet(tmp_path, notion, TASKS)
    rough(notion)
    for window in WINDOWS:
        fleet.drain(AGENTS, url=bounds(window), stalls=Random(7))
        assert fleet.doubles() == []
        if len(fleet.spans()) >= TASKS / 2:
            break
        notion.advance(LONG_ENOUGH)  # on a busy machine most claims take longer than their window
    assert len(fleet.spans()) >= TASKS / 2, "too little was claimed to tell anything"
    notion.faults.clear()
    for window in WINDOWS:
        if fleet.statuses() == {Status.DONE: TASKS}:
            break
        notion.advance(LONG_ENOUGH)  # tasks with an unconfirmed claim become free
        fleet.drain(AGENTS, url=bounds(window))
    assert fleet.doubles() == []
    assert fleet.statuses() == {Status.DONE: TASKS}


@pytest.mark.timeout(1800)
def test_witness_detects_the_double_claim_of_naive_agents(tmp_path: Path, notion: Emulator) -> None:
    """One write is delayed until the other process has read back and started to work."""
    fleet = Fleet(tmp_path, notion, 1)
    hold = notion.faults.hold("PATCH", path=fleet.pages[0])
    enough = tmp_path / "enough"
    options = ("--naive", f"--until={enough}")
    draining = Thread(target=fleet.drain, args=(2, *options), kwargs={"url": "window=200&settle=201"})
    draining.start()
    hold.wait_for_arrival(200)
    fleet.wait_until_working(1)
    hold.release()
    fleet.wait_until_working(2)
    enough.touch()
    draining.join()
    assert fleet.doubles()


@pytest.mark.timeout(3600 if TORTURE else 1800)
def test_processes_with_an_arbiter_never_work_on_the_same_task(tmp_path: Path, notion: Emulator) -> None:
    fleet = Fleet(tmp_path, notion, TASKS)
    rough(notion)
    arbiter = f"sqlite:///{tmp_path}/arbiter.db"
    open_store(arbiter, create=True).close()
    fleet.drain(AGENTS, url=f"arbiter={arbiter}")
    assert fleet.doubles() == []
    assert len(fleet.spans()) >= TASKS / 2, "too little was claimed to tell anything"
    notion.faults.clear()
    with open_store(f"notion://{fleet.database}?arbiter={arbiter}") as store:
        store.check(fix=True)  # writes to Notion that got no answer, and were undone
    fleet.drain(AGENTS, url=f"arbiter={arbiter}")
    assert fleet.doubles() == []
    assert fleet.statuses() == {Status.DONE: TASKS}


@pytest.mark.timeout(3600 if TORTURE else 1800)
def test_agents_with_a_shared_limiter_get_no_429(tmp_path: Path, notion: Emulator) -> None:
    notion.faults.requests_per_minute = 180
    fleet = Fleet(tmp_path, notion, 30 if TORTURE else 3)
    fleet.drain(AGENTS, url=f"limiter={tmp_path}/pace")
    served = list(notion.requests)
    assert [one for one in served if one.status == 429] == []
    moments = sorted(one.at for one in served)
    took = (moments[-1] - moments[0]).total_seconds()
    late = 5  # seconds of delay allowed for the first requests on a busy machine
    assert len(moments) - BURST <= 3 * (took + late)
    assert fleet.doubles() == []
    assert fleet.spans()
