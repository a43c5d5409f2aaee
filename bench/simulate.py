"""How many agents one store can serve: a small simulation, `python -m bench.simulate [--write]`.

Agents work on a task for a while, renew their lease during the work, then finish and claim the next in one step; there
is always a next one. The store serves one request per core of the measured machine at a time, in order of arrival, each
for a random time whose mean gives the measured rate. Rates are read from RESULTS.md; nothing is measured here.
docs/explanation/scaling.md lists the simplifications; `--write` updates the table there.
"""

import heapq
import math
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "RESULTS.md"
PAGE = ROOT / "docs" / "explanation" / "scaling.md"

CORES = 2  # of the machine in RESULTS.md, for clients and server together
LEASE = 1200.0
RENEWAL_COST = 0.5  # share of the cost of a finish with a claim: a high estimate
AGENTS = (10, 1_000, 100_000)
TASKS = {"10 s": 10.0, "1 min": 60.0, "10 min": 600.0}
BUSY = 0.7  # divide a store that is busier than this
_TABLE = re.compile(r"(?<=<!-- simulated -->\n).*?(?=<!-- end -->)", re.DOTALL)

_RATES = {
    "SQLite": r"16 looping processes.*?\(([\d,]+) tasks/s in all",
    "PostgreSQL": r"\*\*dibs\*\*: done that claims the next \|.*\| ([\d,]+) \([\d.]+\) \|$",
    "Neo4j": r"Neo4j, claim and finish against two bare queries, 1 worker \| [\d.]+ \(([\d,]+)/s of",
}


class Fleet(NamedTuple):
    agents: int
    task_seconds: float


class Outcome(NamedTuple):
    """A cycle finishes a task and claims the next; a wait is the time that an agent waits for that claim."""

    cycles_per_second: float
    busy: float
    wait_p50: float
    wait_p99: float


def rates() -> dict[str, float]:
    """Measured cycles per second of each store, with enough clients to keep it busy."""
    text = RESULTS.read_text(encoding="utf-8")
    found = {store: re.search(pattern, text, re.MULTILINE) for store, pattern in _RATES.items()}
    return {store: float(match[1].replace(",", "")) for store, match in found.items() if match}


def simulate(fleet: Fleet, rate: float, events: int = 20_000, seed: int = 1) -> Outcome:
    """Simulate this many requests after a warm-up. The agents start in the middle of their tasks."""
    dice = random.Random(seed)
    service = CORES / rate
    free = [0.0] * CORES  # when each core is free
    due = [_step(0.0, dice.expovariate(1 / fleet.task_seconds), dice.random()) for _ in range(fleet.agents)]
    heapq.heapify(due)
    waits: list[float] = []
    began = worked = done = 0.0
    first = 2 * max(events, fleet.agents)
    for number in range(first + events):
        at, left = due[0]
        if number == first:
            began, worked, waits = done, 0.0, []
        cost = dice.expovariate(1 / service) * (RENEWAL_COST if left else 1.0)
        done = max(at, free[0]) + cost
        heapq.heapreplace(free, done)
        worked += cost
        if not left:
            waits.append(done - at)
        heapq.heapreplace(due, _step(done, left or dice.expovariate(1 / fleet.task_seconds)))
    span = done - began
    waits.sort()
    return Outcome(len(waits) / span, worked / span / CORES, waits[len(waits) // 2], waits[len(waits) * 99 // 100])


def _step(now: float, work: float, share: float = 1.0) -> tuple[float, float]:
    """The time of an agent's next request, and the work left then: none at a finish, some at a renewal."""
    return now + share * min(work, LEASE / 3), max(0.0, work - LEASE / 3)


def asked_of(fleet: Fleet) -> float:
    """Cycles per second that a fleet requests; a renewal counts as a part of one."""
    renewals = 1 / math.expm1(LEASE / 3 / fleet.task_seconds)  # a task takes a random time
    return fleet.agents / fleet.task_seconds * (1 + RENEWAL_COST * renewals)


def partitions(fleet: Fleet, rate: float) -> int:
    """The number of stores of this rate that the fleet needs so that none is too busy."""
    return max(1, math.ceil(asked_of(fleet) / (BUSY * rate)))


def table() -> Iterator[str]:
    rate = rates()["PostgreSQL"]
    yield f"One PostgreSQL at {rate:,.0f} finishes with claims a second:\n"
    yield "| Agents | A task takes | Tasks a second | Store busy | Wait for a task, p50 / p99 | Stores below 70 % |"
    yield "|---|---|---|---|---|---|"
    for agents in AGENTS:
        for name, seconds in TASKS.items():
            fleet = Fleet(agents, seconds)
            came = simulate(fleet, rate)
            waits = f"{_span(came.wait_p50)} / {_span(came.wait_p99)}"
            parts = partitions(fleet, rate)
            yield f"| {agents:,} | {name} | {came.cycles_per_second:,.2f} | {came.busy:.1%} | {waits} | {parts} |"
    yield ""
    yield "The number of agents that each store serves below a load of 70 %, with tasks of one minute:\n"
    yield "| Store | Finishes with claims a second, measured | Agents |"
    yield "|---|---|---|"
    for store, each in rates().items():
        yield f"| {store} | {each:,.0f} | {_most(each, 60.0):,} |"


def _most(rate: float, seconds: float) -> int:
    """The largest fleet for one store, to two digits."""
    return int(float(f"{BUSY * rate / asked_of(Fleet(1, seconds)):.1e}"))


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def main(words: list[str]) -> int:
    told = "\n".join(table()) + "\n"
    if "--write" in words:
        PAGE.write_text(_TABLE.sub(lambda _: told, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
