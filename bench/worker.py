"""The worker: its overhead per process, its time to wake, and its processor time while idle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, median, percentile, timed
from dibs.core.task import Draft, Status
from dibs.desk import Desk
from dibs.fleet.attempt import history
from dibs.fleet.supervisor import command
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_TASKS = 200
_ROUNDS = 5
_WAKE_UPS = 40
_PAUSE = (0.3, 0.7)  # seconds between two of them: no beat that a poll could fall into
_IDLE = 30.0  # seconds
_SLOTS = 4
_TICKS = os.sysconf("SC_CLK_TCK")
_DIBS = Path(sys.executable).with_name("dibs")


def run() -> list[Figure]:
    figures = []
    for name, most_wake in (("SQLite", 100), ("PostgreSQL", 30), ("Neo4j", None)):
        with _server(name) as url:
            figures += [_overhead(name, url), _waking(name, url, most_wake), _idling(name, url)]
    return figures


@contextmanager
def _server(name: str) -> Iterator[str]:
    """The URL of an empty desk, with everything durable."""
    if name == "SQLite":
        with tempfile.TemporaryDirectory() as folder:
            open_store(f"sqlite:///{folder}/desk.db", create=True).close()
            yield f"sqlite:///{folder}/desk.db"
    elif name == "PostgreSQL":
        from bench.postgres.server import running

        with running() as server:
            open_store(server.url(), create=True).close()
            yield server.url()
    else:
        sys.path.append(str(Path(__file__).parents[1] / "tools"))  # tools are no package
        from neo4j_server import Server

        graph = Server(options=())
        try:
            url = f"bolt://{graph.user}:{graph.password}@127.0.0.1:{graph.port}"
            open_store(url, create=True).close()
            yield url
        finally:
            graph.remove()


def _overhead(name: str, url: str) -> Figure:
    """The time from the first claim to the last finish, by the events, compared with starting the program as often."""
    each = []
    with Desk(open_store(url)) as desk:
        for number in range(_ROUNDS):
            bare = timed(lambda: [subprocess.run(["true"], check=True) for _ in range(_TASKS)]) / _TASKS
            desk.add([Draft("Nothing", f"{number}-{task}") for task in range(_TASKS)])
            subprocess.run(
                [_DIBS, "work", "--until-empty", "--", "true"],
                env=_environ(url),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            each.append((_took(desk, f"{number}-"), bare))
    ours, bare = (median(list(times)) * 1000 for times in zip(*each, strict=True))
    over = median([mine - theirs for mine, theirs in each]) * 1000
    told = f"{over:.1f} ms ({ours:.1f} ms, a bare start {bare:.1f} ms)"
    return Figure(f"worker, {name}: overhead for each of {_TASKS} no-op tasks", told, "≤ 15 ms", over <= 15)


def _took(desk: Desk, prefix: str) -> float:
    times = [event.at for event in history(desk) if event.task.startswith(prefix) and event.verb in {"claim", "done"}]
    assert len(times) == 2 * _TASKS
    return (max(times) - min(times)).total_seconds() / _TASKS


def _waking(name: str, url: str, most: float | None) -> Figure:
    """The time from an added task to its claim, by the store's clock."""
    with Desk(open_store(url)) as desk, _worker(url):
        for number in range(_WAKE_UPS + 1):
            time.sleep(random.uniform(*_PAUSE))
            desk.add([Draft("Wake up", f"wake-{number}")])
        while desk.get(f"wake-{_WAKE_UPS}").status is not Status.DONE:
            time.sleep(0.1)
        added, claimed = (_times(desk, verb) for verb in ("add", "claim"))
    waits = [(claimed[task] - added[task]) / timedelta(milliseconds=1) for task in added][1:]
    middle = median(waits)
    told = f"{middle:.1f} ms (p99 {percentile(waits, 0.99):.1f} ms)"
    kept = None if most is None else middle < most
    return Figure(f"worker, {name}: wake-up from idle, p50", told, "" if most is None else f"< {most} ms", kept)


def _times(desk: Desk, verb: str) -> dict[str, datetime]:
    events = history(desk)
    return {event.task: event.at for event in events if event.task.startswith("wake-") and event.verb == verb}


def _idling(name: str, url: str) -> Figure:
    """The processor time of an idle worker and its child processes."""
    with _worker(url) as pid:
        before = _spent(pid)
        time.sleep(_IDLE)
        share = 100 * (_spent(pid) - before) / _IDLE
    return Figure(f"worker, {name}: idle, {_SLOTS} slots", f"{share:.2f} % of a core", "< 0.5 %", share < 0.5)


def _spent(pid: int) -> float:
    """Seconds."""
    total = 0
    for each in (pid, *command.descendants(pid)):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


@contextmanager
def _worker(url: str) -> Iterator[int]:
    """A started worker that waits for work."""
    words = [str(_DIBS), "work", "--slots", str(_SLOTS), "--", "true"]
    process = subprocess.Popen(words, env=_environ(url), stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _environ(url: str) -> dict[str, str]:
    return os.environ | {"DIBS_STORE": url, "DIBS_AGENT": "bench"}
