"""One process: claim and finish, against the barest thing that could be called a queue."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

from bench.measure import Figure, median
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

_TASKS = 3_000
_WARM_UP = 600  # until the log has reached its size: growing a file is dearer than writing over it
_ROUNDS = 7

_SCHEMA = """
CREATE TABLE job (id INTEGER PRIMARY KEY, status TEXT NOT NULL, priority INTEGER NOT NULL, token TEXT) STRICT;
CREATE INDEX job_open ON job (priority, id) WHERE status = 'open';
"""
_CLAIM = """
UPDATE job SET status = 'active', token = ?
WHERE id = (SELECT id FROM job WHERE status = 'open' ORDER BY priority, id LIMIT 1) RETURNING id
"""
_FINISH = "UPDATE job SET status = 'done' WHERE id = ? AND token = ? AND status = 'active'"


def floor(folder: Path, durability: str) -> float:
    """Seconds per job for two statements in two transactions: no links, no fence, no events."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability}")
    db.executescript(_SCHEMA)
    db.execute("BEGIN")
    db.executemany("INSERT INTO job VALUES (?, 'open', 2, NULL)", [(number,) for number in range(_WARM_UP + _TASKS)])
    db.execute("COMMIT")
    started = 0.0
    for number in range(_WARM_UP + _TASKS):
        if number == _WARM_UP:
            started = time.perf_counter()
        db.execute("BEGIN IMMEDIATE")
        (job,) = db.execute(_CLAIM, ("token",)).fetchone()
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute(_FINISH, (job, "token"))
        db.execute("COMMIT")
    spent = time.perf_counter() - started
    db.close()
    return spent / _TASKS


def ours(folder: Path, durability: str) -> tuple[float, float]:
    """Seconds per task: claim then done, and done that claims the next."""
    with Desk(SqliteStore(str(folder / "dibs.db"), create=True, durable=durability == "FULL")) as desk:
        _fill(desk, "a", _WARM_UP + _TASKS)
        started = 0.0
        for number in range(_WARM_UP + _TASKS):
            if number == _WARM_UP:
                started = time.perf_counter()
            (one,) = desk.claim("worker")
            desk.move(Verb.DONE, one.task.id, token=one.task.lease.token if one.task.lease else None)
        apart = time.perf_counter() - started
        _fill(desk, "b", _TASKS)
        started = time.perf_counter()
        batch = tuple(desk.claim("worker"))
        while batch:
            lease = batch[0].task.lease
            token = lease.token if lease else None
            batch = desk.move(Verb.DONE, batch[0].task.id, token=token, then=desk.next_request("worker")).next
        together = time.perf_counter() - started
    return apart / _TASKS, together / _TASKS


def _fill(desk: Desk, prefix: str, count: int) -> None:
    desk.add([Draft(f"task {number}", id=f"{prefix}{number:06}") for number in range(count)])


def run() -> list[Figure]:
    """Floor and ours in turn, so that a slow moment of the machine hits both; medians of the rounds' ratios."""
    figures = []
    for durability, promise in (("FULL", 0.6), ("NORMAL", None)):
        floors, aparts, togethers, ratios, steps = [], [], [], [], []
        for _ in range(_ROUNDS):
            with tempfile.TemporaryDirectory() as name:
                before = floor(Path(name), durability)
                apart, together = ours(Path(name), durability)
            with tempfile.TemporaryDirectory() as name:
                base = (before + floor(Path(name), durability)) / 2
            floors.append(base)
            aparts.append(apart)
            togethers.append(together)
            ratios.append(base / apart)
            steps.append(apart / together)
        ratio, step = median(ratios), median(steps)
        rates = f"{1 / median(floors):,.0f}/s floor, {1 / median(aparts):,.0f}/s ours"
        figures += [
            Figure(
                f"claim + finish, synchronous={durability}, ratio to the floor",
                f"{ratio:.2f} ({rates})",
                f"≥ {promise}" if promise else "",
                ratio >= promise if promise else None,
            ),
            Figure(
                f"done --next, synchronous={durability}, ratio to claim + finish",
                f"{step:.2f} ({1 / median(togethers):,.0f}/s)",
                "≥ 1.5" if promise else "",
                step >= 1.5 if promise else None,
            ),
        ]
    return figures
