"""Absurd: its synchronous worker, one task at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psycopg  # type: ignore[import-not-found]  # these live in their own environment
from absurd_sdk import Absurd  # type: ignore[import-not-found]

from bench.postgres.workers.starting_line import Tally, wait_for_start

_IDLE = 3.0


def fill(url: str, jobs: int) -> None:
    command = os.path.join(os.path.dirname(sys.executable), "absurdctl")
    subprocess.run([command, "init"], env={**os.environ, "ABSURD_DATABASE_URL": url}, check=True, capture_output=True)
    with psycopg.connect(url) as connection:
        app = Absurd(connection)
        app.create_queue("default")
        app.register_task(name="job")(lambda _params, _context: None)
        for number in range(jobs):
            app.spawn("job", {"number": number})


def drain(url: str, batch: int) -> None:
    tally = Tally()
    app = Absurd(url)

    def job(params: Any, _context: Any) -> None:
        tally.add(params["number"])

    app.register_task(name="job")(job)
    wait_for_start()
    tally.stop_when_idle(app.stop_worker, _IDLE)
    app.start_worker(concurrency=1, batch_size=batch, poll_interval=0.01)
    tally.report()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        drain(sys.argv[2], int(sys.argv[4]))
