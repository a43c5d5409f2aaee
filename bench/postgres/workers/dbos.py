"""DBOS: a queue of workflows. MODE `one` lets a process run one at a time, `free` as many as DBOS likes."""

from __future__ import annotations

import os
import sys
import threading

from dbos import DBOS  # type: ignore[import-not-found]  # lives in its own environment

from bench.postgres.workers.starting_line import Tally, wait_for_start

_POLLING = 0.001  # seconds between polls; the default of 1 s would dominate the result
_IDLE = 10.0
_tally = Tally()


def job(number: int) -> None:
    _tally.add(number)


def _launch(url: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "executor_id": str(os.getpid()),
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.workflow(name="job")(job)
    DBOS.launch()


def fill(url: str, jobs: int) -> None:
    """Fill a queue with concurrency 0, so that launched workers wait for the common start."""
    _launch(url)
    queue = DBOS.register_queue("jobs", worker_concurrency=0, polling_interval_sec=_POLLING)
    for number in range(jobs):
        queue.enqueue(job, number)
    DBOS.destroy()


def drain(url: str, mode: str) -> None:
    _launch(url)
    queue = DBOS.retrieve_queue("jobs")
    wait_for_start()
    _tally.add(-1)
    _tally.jobs.clear()
    queue.set_worker_concurrency(1 if mode == "one" else None)
    idle = threading.Event()
    _tally.stop_when_idle(idle.set, _IDLE)
    idle.wait()
    _tally.report()
    sys.stdout.flush()
    os._exit(0)  # a regular exit waits for threads, for many seconds


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        drain(sys.argv[2], sys.argv[3])
