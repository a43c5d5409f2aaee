"""procrastinate: its asynchronous worker, one job at a time."""

from __future__ import annotations

import asyncio
import sys

import procrastinate  # type: ignore[import-not-found]  # lives in its own environment

from bench.postgres.workers.starting_line import Tally, wait_for_start

_CHUNK = 1_000


async def fill(url: str, jobs: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    task = app.task(name="job")(_never)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, _CHUNK):
            await task.batch_defer_async(*({"number": number} for number in range(start, min(start + _CHUNK, jobs))))


async def _never(number: int) -> None:
    raise AssertionError(number)


async def drain(url: str) -> None:
    tally = Tally()
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    async def job(number: int) -> None:
        tally.add(number)

    app.task(name="job")(job)
    async with app.open_async():
        wait_for_start()
        await app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)
    tally.report(from_first_job=True)


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        asyncio.run(fill(sys.argv[2], int(sys.argv[3])))
    else:
        asyncio.run(drain(sys.argv[2]))
