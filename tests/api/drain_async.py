"""The asyncio twin of drain.py, with a ticker in the same loop; it prints the longest stall of the ticker."""

import asyncio
import sys
import time

import dibs


async def tick(stalls: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.005)
        stalls.append(time.monotonic() - began - 0.005)


async def main() -> None:
    stalls: list[float] = []
    async with dibs.aio.open(sys.argv[1], agent=sys.argv[2]) as desk:
        ticker = asyncio.create_task(tick(stalls))
        await asyncio.sleep(0.02)
        async for claim in desk.work(lease="1h"):
            async with claim:
                claim.result = 1 + sum(value for value in claim.inputs.values() if isinstance(value, int))
        ticker.cancel()
    stalls.sort()
    print(stalls[len(stalls) // 2], stalls[-1])  # noqa: T201 - for the test that started this


asyncio.run(main())
