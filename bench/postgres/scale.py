"""Do costs grow with the store? The graphs of `bench.scale`, and new links in the large one."""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING

from bench.measure import Figure, median, percentile
from bench.scale import cycle, graph
from dibs.core.task import Link
from dibs.desk import Desk, open_desk

if TYPE_CHECKING:
    from bench.postgres.options import Options
    from bench.postgres.server import Server

_SIZES = (10_000, 1_000_000)
_QUICK_SIZES = (1_000, 10_000)
_LINKS = 1_000


def figures(server: Server, options: Options) -> list[Figure]:
    sizes = _QUICK_SIZES if options.quick else _SIZES
    small, large = (_at(server, size) for size in sizes)
    title = f"{_short(sizes[1])} tasks / {_short(3 * sizes[1])} links"
    found = []
    for name in ("claim", "finish"):
        before, after = median(small[name]), median(large[name])
        tails = f"{percentile(small[name], 0.99) * 1e3:.2f} → {percentile(large[name], 0.99) * 1e3:.2f} ms"
        value = f"{after / before:.2f} ({before * 1e3:.2f} → {after * 1e3:.2f} ms; p99 {tails})"
        what = f"PostgreSQL, {name} p50, {title} against {_short(sizes[0])}"
        found.append(Figure(what, value, "≤ 1.5", after / before <= 1.5))
    link = median(large["link"]) * 1e3
    value = f"{link:.2f} ms (p99 {percentile(large['link'], 0.99) * 1e3:.2f} ms)"
    return [*found, Figure(f"PostgreSQL, a link put into {title}, p50", value, "< 2 ms", link < 2)]


def _short(number: int) -> str:
    return f"{number // 1_000_000}M" if number >= 1_000_000 else f"{number // 1_000}k"


def _at(server: Server, size: int) -> dict[str, list[float]]:
    with server.database("scale") as url, open_desk(f"{url}&schema=dibs", create=True) as desk:
        started = time.perf_counter()
        desk.restore(graph(size))
        print(f"  loaded {size:,} tasks in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        server.settle("scale")
        return {**cycle(desk), "link": _link(desk, size)}


def _link(desk: Desk, size: int) -> list[float]:
    """Add links one by one, each from a later task to an earlier one."""
    rng = random.Random(20260102)
    times = []
    for _ in range(_LINKS):
        task = rng.randrange(size // 10, size)
        on = rng.randrange(task)
        started = time.perf_counter()
        desk.link([Link(f"t{task:07}", f"t{on:07}")])
        times.append(time.perf_counter() - started)
    return times
