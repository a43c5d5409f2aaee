"""pgqueuer: asyncpg and uvloop, as its own command line runs it, in drain mode."""

from __future__ import annotations

import sys
from typing import Any

import asyncpg  # type: ignore[import-not-found]  # these live in their own environment
import uvloop
from pgqueuer import AsyncpgDriver, Job, Queries, QueueManager  # type: ignore[import-not-found]
from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found]

from bench.postgres.workers.starting_line import Tally, wait_for_start

_CHUNK = 1_000


async def _queries(url: str) -> Any:
    return Queries(AsyncpgDriver(await asyncpg.connect(url)))


async def fill(url: str, jobs: int) -> None:
    queries = await _queries(url)
    await queries.install()
    for start in range(0, jobs, _CHUNK):
        numbers = range(start, min(start + _CHUNK, jobs))
        payloads = [str(number).encode() for number in numbers]
        await queries.enqueue(["job"] * len(numbers), payloads, [0] * len(numbers))


async def drain(url: str, batch: int) -> None:
    tally = Tally()
    manager = QueueManager(await _queries(url))

    async def job(one: Job) -> None:
        tally.add(int(one.payload))

    manager.entrypoint("job")(job)
    wait_for_start()
    await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
    tally.report(from_first_job=True)


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        uvloop.run(fill(sys.argv[2], int(sys.argv[3])))
    else:
        uvloop.run(drain(sys.argv[2], int(sys.argv[4])))
