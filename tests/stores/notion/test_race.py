"""Four processes, one database and arbiter, with conflicts, lost answers and lagging lists."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

from dibs.core.task import Status
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from .desk import Place

TASKS, WORKERS = (200, 8) if os.environ.get("DIBS_TORTURE") else (24, 4)


def test_strict_race_has_no_double_hold_or_repeat(place: Place) -> None:
    place.make()
    arbiter = f"sqlite:///{place.folder}/arbiter.db"
    open_store(arbiter, create=True).close()
    for number in range(TASKS):
        place.page(f"task {number}")
    place.clock.advance(seconds=5)  # until lists show them: a worker without a task exits
    place.notion.faults.set(
        {
            "rates": {
                "conflict": 0.05,
                "unavailable": 0.03,
                "unavailable_after_commit": 0.05,
                "drop_after_commit": 0.03,
            },
            "latency_before": [0.0, 0.01],
            "query_lag": 1.0,
        }
    )
    witness = str(place.folder / "witness")
    script = os.path.join(os.path.dirname(__file__), "race.py")
    url = f"notion://{place.database}?arbiter={arbiter}&window=10&settle=10.5"  # a slow answer is not a lost one
    workers = [
        subprocess.Popen([sys.executable, script, url, f"w{number}", witness], stderr=subprocess.DEVNULL)
        for number in range(WORKERS)
    ]
    clock = place.clock
    try:
        while any(worker.poll() is None for worker in workers):
            clock.advance(seconds=0.1)  # lists catch up
            try:
                workers[0].wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            for worker in workers:
                try:
                    worker.wait(0.1)
                except subprocess.TimeoutExpired:
                    break
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    place.notion.faults.clear()
    assert [worker.returncode for worker in workers] == [0] * WORKERS
    with open(witness, encoding="utf-8") as file:
        refuse_overlaps([line.split() for line in file])
    found = place.join(arbiter=arbiter).counts(None).by_status
    assert {status: number for status, number in found.items() if number} == {Status.DONE: TASKS}


def refuse_overlaps(lines: list[list[str]]) -> None:
    """No task begins while another has it, and none begins again after it ended."""
    at_work: dict[str, str] = {}
    begun: Counter[str] = Counter()
    for what, task, worker in lines:
        if what == "begin":
            assert task not in at_work, f"{task} was in the hands of {at_work[task]} when {worker} began it"
            at_work[task] = worker
            begun[task] += 1
        else:
            assert at_work.pop(task) == worker
    assert set(begun.values()) == {1}
