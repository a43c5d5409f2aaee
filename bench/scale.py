"""Does it stay flat? 99 % of the tasks are blocked and sorted ahead of those that can be claimed."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, median, percentile
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Link, Task
from dibs.desk import Desk, quiet
from dibs.stores.reports import Record
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZES = (10_000, 1_000_000)
_LINKS = 3
_CYCLES = 1_000


def run() -> list[Figure]:
    results = {size: _at(size) for size in _SIZES}
    small, large = (results[size] for size in _SIZES)
    figures = []
    for name in ("claim", "finish", "ready", "next"):
        before, after = median(small[name]), median(large[name])
        figures.append(
            Figure(
                f"{name} p50, 1M tasks / 3M links against 10k / 30k",
                f"{after / before:.2f} ({before * 1e3:.2f} → {after * 1e3:.2f} ms; "
                f"p99 {percentile(large[name], 0.99) * 1e3:.1f} ms)",
                "≤ 2",
                after / before <= 2,
            )
        )
    return figures


def _at(size: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as name, SqliteStore(str(Path(name) / "dibs.db"), create=True) as store:
        started = time.perf_counter()
        store.restore(graph(size), Actor(), quiet)
        print(f"  loaded {size:,} tasks in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        return cycle(Desk(store))


def graph(size: int) -> Iterator[Record]:
    """The first hundredth are roots, last in line; each other task waits for three earlier ones."""
    rng = random.Random(20260101)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    roots = size // 100
    for number in range(size):
        priority = 4 if number < roots else 0
        yield Record("default", Task("default", f"t{number:07}", f"task {number}", now, now, now, priority=priority))
    for number in range(roots, size):
        for on in rng.sample(range(number), _LINKS):
            yield Record("default", Link(f"t{number:07}", f"t{on:07}"))


def cycle(desk: Desk, cycles: int = _CYCLES) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"claim": [], "finish": [], "ready": [], "next": []}
    for _ in range(cycles):
        a = time.perf_counter()
        (one,) = desk.claim("worker")
        b = time.perf_counter()
        desk.move(Verb.DONE, one.task.id, token=one.task.lease.token if one.task.lease else None)
        c = time.perf_counter()
        desk.ready(limit=10)
        d = time.perf_counter()
        desk.ready(limit=1)
        e = time.perf_counter()
        for name, spent in zip(times, (b - a, c - b, d - c, e - d), strict=True):
            times[name].append(spent)
    return times
