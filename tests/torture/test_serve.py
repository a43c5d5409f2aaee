"""Many listeners and agents at one server on PostgreSQL: no listener misses an event, and memory use stays constant.

`make torture` (DIBS_TORTURE=1) plays the full size: 200 listeners, 50 agents, 1,000 tasks.
"""

from __future__ import annotations

import asyncio
import os

from dibs.core.task import Draft
from dibs.desk import open_desk
from support.http import Server
from support.postgres_schemas import ServerClock, fresh_schema
from support.postgres_server import shared_url
from torture.crowd import crowd, resident

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
LISTENERS, AGENTS, TASKS = (200, 50, 1000) if TORTURE else (20, 8, 120)
_GROWTH = 40 << 10  # KiB that a server may need more after the crowd than before it


def test_no_event_is_missed_and_memory_stays_flat() -> None:
    clock = ServerClock()
    url = f"{shared_url()}{'&' if '?' in shared_url() else '?'}schema={fresh_schema(clock)}"
    with open_desk(url) as desk:
        server = Server(url)
        desk.add([Draft(f"Warm {number}") for number in range(AGENTS)])
        asyncio.run(crowd(server.port, LISTENERS, AGENTS, "warm"))
        before, started = resident(server.process.pid), desk.events(last=1, anywhere=True)[-1].seq
        desk.add([Draft(f"Task {number}") for number in range(TASKS)])
        heard = asyncio.run(crowd(server.port, LISTENERS, AGENTS, "last"))
        after = resident(server.process.pid)
        happened = {event.seq for event in desk.events(after=started) if event.verb != "add"}
        server.end()
    for numbers in heard.listeners:
        assert len(numbers) == len(set(numbers)), "no event comes twice"
        assert happened <= set(numbers), "nothing is missed"
    assert len(heard.claims) >= TASKS
    worst = sorted(heard.claims)[int(len(heard.claims) * 0.99)]
    size = f"{LISTENERS} listeners, {AGENTS} agents, {TASKS} tasks"
    told = f"{size}: claim p99 {worst * 1000:.0f} ms, memory {before >> 10} to {after >> 10} MiB"
    print(told)  # noqa: T201 - the figure is a result of this test
    assert after - before < _GROWTH
