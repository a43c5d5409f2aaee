"""The asyncio twin of drain.py, with a ticker in its loop and one in a thread; it prints the median stall of each."""

import asyncio
import sys
import threading
import time
from statistics import median

import dibs


async def tick(stalls: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.005)
        stalls.append(time.monotonic() - began - 0.005)


def tick_outside(stalls: list[float]) -> None:
    """The stalls that the machine causes."""
    while True:
        began = time.monotonic()
        time.sleep(0.005)
        stalls.append(time.monotonic() - began - 0.005)


async def main() -> None:
    stalls: list[float] = []
    outside: list[float] = []
    threading.Thread(target=tick_outside, args=(outside,), daemon=True).start()
    async with dibs.aio.open(sys.argv[1], agent=sys.argv[2]) as desk:
        ticker = asyncio.create_task(tick(stalls))
        await asyncio.sleep(0.02)
        async for claim in desk.work(lease="1h"):
            async with claim:
                claim.result = 1 + sum(value for value in claim.inputs.values() if isinstance(value, int))
        ticker.cancel()
    print(median(stalls), median(outside))  # noqa: T201 - for the test that started this


asyncio.run(main())
