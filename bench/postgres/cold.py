"""A cold `ralph task claim`, from process start to exit, against an empty Python process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cold import install, variables
from bench.measure import Figure, median, percentile, timed
from bench.postgres.participants import DRIVER

if TYPE_CHECKING:
    from bench.postgres.options import Options
    from bench.postgres.server import Server

_RUNS = 60
_QUICK_RUNS = 5


def figures(server: Server, options: Options) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, server.database("cold") as url:
        binaries = install(Path(name), DRIVER)
        empty, claim = _measure(binaries, f"{url}&schema=dibs", _QUICK_RUNS if options.quick else _RUNS)
    ratio = median(claim) / median(empty)
    value = (
        f"{ratio:.2f} ({median(claim) * 1e3:.0f} ms to {median(empty) * 1e3:.0f} ms; "
        f"p99 {percentile(claim, 0.99) * 1e3:.0f} ms)"
    )
    return [Figure("PostgreSQL, cold ralph task claim, ratio to python -c pass", value, "≤ 8", ratio <= 8)]


def _measure(binaries: Path, url: str, runs: int) -> tuple[list[float], list[float]]:
    """Seconds of each command, alternating. Every claim gets a different task."""
    environment = variables(RALPH_DB_URL=url, RALPH_AGENT_ID="worker")

    def call(*words: str, text: str = "") -> str:
        return subprocess.run(words, env=environment, input=text, check=True, capture_output=True, text=True).stdout

    ralph, python = str(binaries / "ralph"), str(binaries / "python")
    plan = [{"id": f"t{number}", "spec": "cold", "t": f"task {number}"} for number in range(runs + 1)]
    call(ralph, "task", "plan-sync", text="\n".join(map(json.dumps, plan)))
    answers = [call(ralph, "task", "claim")]
    empty, claim = [], []
    for _ in range(runs):
        empty.append(timed(lambda: call(python, "-c", "pass")))
        claim.append(timed(lambda: answers.append(call(ralph, "task", "claim"))))
    assert len({answer.partition("\n")[0] for answer in answers}) == runs + 1, "every claim takes another task"
    return empty, claim
