"""A large plan, from its text to the commit; and the same plan again."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING

from bench.measure import Figure
from dibs.core.plan import skim_jsonl
from dibs.desk import Desk
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from bench.postgres.options import Options
    from bench.postgres.server import Server

_TASKS = 100_000
_QUICK_TASKS = 5_000
_LINKS = 3


def figures(server: Server, options: Options) -> list[Figure]:
    tasks = _QUICK_TASKS if options.quick else _TASKS
    text = _plan(tasks)
    title = f"{tasks:,} tasks / {_LINKS * (tasks - _LINKS):,} links"
    with server.database("plans") as url, Desk(open_store(f"{url}&schema=dibs", create=True)) as desk:
        first, changed = _apply(desk, text)
        assert changed == tasks, changed
        again, changed = _apply(desk, text)
        assert not changed, changed
    return [
        Figure(f"PostgreSQL, a plan of {title}", _said(first), "< 10 s", sum(first) < 10),
        Figure("PostgreSQL, the same plan again", _said(again), "< 1 s", sum(again) < 1),
    ]


def _plan(tasks: int) -> str:
    """As JSON Lines; each task waits for three earlier ones."""
    rng = random.Random(20260103)
    lines = []
    for number in range(tasks):
        on = rng.sample(range(number), _LINKS) if number >= _LINKS else []
        deps = [f"t{one:06}" for one in on]
        lines.append(json.dumps({"id": f"t{number:06}", "t": f"task {number}", "spec": "large", "deps": deps}))
    return "\n".join(lines)


def _apply(desk: Desk, text: str) -> tuple[tuple[float, float], int]:
    """Seconds to read the plan and to bring the store in line with it, and how many tasks that changed."""
    started = time.perf_counter()
    plan = skim_jsonl(text)
    read = time.perf_counter()
    changes = desk.apply_plan(plan)
    applied = time.perf_counter()
    changed = len(changes.insert) + len(changes.updated) + len(changes.remove)
    return (read - started, applied - read), changed


def _said(seconds: tuple[float, float]) -> str:
    return f"{sum(seconds):.2f} s ({seconds[0]:.2f} s to read it, {seconds[1]:.2f} s to apply it)"
