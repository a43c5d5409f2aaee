"""Sixteen processes that claim and finish in a loop: does each get its share?"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path

from bench.measure import Figure
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

_PROCESSES = 16
_SECONDS = 10.0


def _loop(path: str, start: float, counts: multiprocessing.SimpleQueue[tuple[int, float]]) -> None:
    done, worst = 0, 0.0
    with Desk(SqliteStore(path)) as desk:
        time.sleep(max(0.0, start - time.monotonic()))
        while time.monotonic() < start + _SECONDS:
            began = time.monotonic()
            for one in desk.claim("worker"):
                lease = one.task.lease
                desk.move(Verb.DONE, one.task.id, token=lease.token if lease else None)
                done += 1
            worst = max(worst, time.monotonic() - began)
    counts.put((done, worst))


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        path = str(Path(name) / "dibs.db")
        with Desk(SqliteStore(path, create=True)) as desk:
            desk.add([Draft(f"task {number}", id=f"t{number:06}") for number in range(60_000)])
        context = multiprocessing.get_context("spawn")
        counts: multiprocessing.SimpleQueue[tuple[int, float]] = context.SimpleQueue()
        start = time.monotonic() + 5
        processes = [context.Process(target=_loop, args=(path, start, counts)) for _ in range(_PROCESSES)]
        for process in processes:
            process.start()
        results = [counts.get() for _ in processes]
        for process in processes:
            process.join()
    finished = [done for done, _ in results]
    mean = sum(finished) / len(finished)
    return [
        Figure(
            "16 looping processes: the slowest against the mean",
            f"{min(finished) / mean:.2f} ({sum(finished) / _SECONDS:,.0f} tasks/s in all, "
            f"longest turn {max(worst for _, worst in results) * 1e3:.0f} ms)",
            "≥ 0.5",
            min(finished) / mean >= 0.5,
        )
    ]
