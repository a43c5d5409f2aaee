"""A large plan, from its text to the commit; and the same plan again."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cold import install, variables
from bench.measure import Figure
from bench.postgres.participants import DRIVER

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
    with tempfile.TemporaryDirectory() as name, server.database("plans") as url:
        ralph = str(install(Path(name), DRIVER) / "ralph")
        first, said = _sync(ralph, f"{url}&schema=dibs", text)
        assert said.startswith(f"inserted: {tasks}, updated: 0, deleted: 0"), said
        again, said = _sync(ralph, f"{url}&schema=dibs", text)
        assert said.startswith("inserted: 0, updated: 0, deleted: 0"), said
    return [
        Figure(f"PostgreSQL, plan-sync of {title}, the whole command", f"{first:.2f} s", "< 10 s", first < 10),
        Figure("PostgreSQL, the same plan again", f"{again:.2f} s", "< 1 s", again < 1),
    ]


def _plan(tasks: int) -> str:
    """A plan as JSON Lines; each task depends on three earlier ones."""
    rng = random.Random(20260103)
    lines = []
    for number in range(tasks):
        on = rng.sample(range(number), _LINKS) if number >= _LINKS else []
        deps = [f"t{one:06}" for one in on]
        lines.append(json.dumps({"id": f"t{number:06}", "t": f"task {number}", "spec": "large", "deps": deps}))
    return "\n".join(lines)


def _sync(ralph: str, url: str, text: str) -> tuple[float, str]:
    """The duration of the process in seconds, and its output."""
    started = time.perf_counter()
    done = subprocess.run(
        [ralph, "task", "plan-sync"],
        env=variables(RALPH_DB_URL=url),
        input=text,
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - started, done.stdout
