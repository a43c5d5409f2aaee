"""Sixteen processes that claim and finish in a loop: how much do they do, and does each get its share?

And sixteen threads of one process, as in a server: their waiting writes share commits.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.measure import Figure
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

_WORKERS = 16
_SECONDS = 10.0
_TASKS = 80_000


class _Share(NamedTuple):
    done: int
    worst: float  # seconds that its longest turn took


def _loop(path: str, ready: Barrier | threading.Barrier, tell: Callable[[_Share], None]) -> None:
    done, worst = 0, 0.0
    with Desk(SqliteStore(path)) as desk:
        ready.wait()
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            for one in desk.claim("worker"):
                lease = one.task.lease
                desk.move(Verb.DONE, one.task.id, token=lease.token if lease else None)
                done += 1
            worst = max(worst, time.monotonic() - began)
    tell(_Share(done, worst))


def _loop_of_a_process(path: str, ready: Barrier, shares: multiprocessing.SimpleQueue[_Share]) -> None:
    _loop(path, ready, shares.put)


def _processes(path: str) -> list[_Share]:
    context = multiprocessing.get_context("spawn")
    shares: multiprocessing.SimpleQueue[_Share] = context.SimpleQueue()
    ready = context.Barrier(_WORKERS)
    processes = [context.Process(target=_loop_of_a_process, args=(path, ready, shares)) for _ in range(_WORKERS)]
    for process in processes:
        process.start()
    found = [shares.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def _threads(path: str) -> list[_Share]:
    found: list[_Share] = []
    ready = threading.Barrier(_WORKERS)
    threads = [threading.Thread(target=_loop, args=(path, ready, found.append)) for _ in range(_WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _figure(what: str, work: Callable[[str], list[_Share]]) -> Figure:
    with tempfile.TemporaryDirectory() as name:
        path = str(Path(name) / "dibs.db")
        with Desk(SqliteStore(path, create=True)) as desk:
            desk.add([Draft(f"task {number}", id=f"t{number:06}") for number in range(_TASKS)])
        shares = work(path)
    finished = [share.done for share in shares]
    fairness = min(finished) * len(finished) / sum(finished)
    return Figure(
        f"{_WORKERS} looping {what}: the slowest against the mean",
        f"{fairness:.2f} ({sum(finished) / _SECONDS:,.0f} tasks/s in all, "
        f"longest turn {max(share.worst for share in shares) * 1e3:.0f} ms)",
        "≥ 0.8",
        fairness >= 0.8,
    )


def run() -> list[Figure]:
    return [_figure("processes", _processes), _figure("threads of one process", _threads)]
