"""One process: claim and finish, compared with a minimal queue."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import dibs
from bench.measure import Figure, median, timed
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.task import Claimed

_SLICE = 50  # tasks in a turn: short, so that changes of the machine's load affect all lanes
_TURNS = 60
_WARM_UP = 600  # tasks, until the log has its full size: growing a file costs more than overwriting it
_TASKS = _WARM_UP + _SLICE * _TURNS
_ROUNDS = 5


class Lane(NamedTuple):
    """A way to claim and finish a given number of tasks."""

    work: Callable[[int], None]
    close: Callable[[], None]


_SCHEMA = """
CREATE TABLE job (id INTEGER PRIMARY KEY, status TEXT NOT NULL, priority INTEGER NOT NULL, token TEXT) STRICT;
CREATE INDEX job_open ON job (priority, id) WHERE status = 'open';
"""
_CLAIM = """
UPDATE job SET status = 'active', token = ?
WHERE id = (SELECT id FROM job WHERE status = 'open' ORDER BY priority, id LIMIT 1) RETURNING id
"""
_FINISH = "UPDATE job SET status = 'done' WHERE id = ? AND token = ? AND status = 'active'"


def floor(folder: Path, durability: str) -> Lane:
    """Two statements in two transactions: no links, no fence, no events."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability}")
    db.executescript(_SCHEMA)
    db.execute("BEGIN")
    db.executemany("INSERT INTO job VALUES (?, 'open', 2, NULL)", [(number,) for number in range(_TASKS)])
    db.execute("COMMIT")

    def work(tasks: int) -> None:
        for _ in range(tasks):
            db.execute("BEGIN IMMEDIATE")
            (job,) = db.execute(_CLAIM, ("token",)).fetchone()
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
            db.execute(_FINISH, (job, "token"))
            db.execute("COMMIT")

    return Lane(work, db.close)


def apart(folder: Path, durability: str) -> Lane:
    """Claim, then done."""
    desk = _desk(folder / "apart.db", durability, _TASKS)

    def work(tasks: int) -> None:
        for _ in range(tasks):
            (one,) = desk.claim("worker")
            desk.move(Verb.DONE, one.task.id, token=_token(one))

    return Lane(work, desk.close)


def together(folder: Path, durability: str) -> Lane:
    """Done that claims the next."""
    desk = _desk(folder / "together.db", durability, _TASKS + 1)
    batch = tuple(desk.claim("worker"))

    def work(tasks: int) -> None:
        nonlocal batch
        for _ in range(tasks):
            (one,) = batch
            batch = desk.move(Verb.DONE, one.task.id, token=_token(one), then=desk.next_request("worker")).next

    return Lane(work, desk.close)


def library(folder: Path, durability: str) -> Lane:
    """A loop of the Python API: `for claim in desk.work(): with claim: …`."""
    desk = dibs.Desk(_desk(folder / "library.db", durability, _TASKS))

    def work(tasks: int) -> None:
        for claim in desk.work("worker", limit=tasks):
            with claim:
                pass

    return Lane(work, desk.close)


def _desk(path: Path, durability: str, tasks: int) -> Desk:
    desk = Desk(SqliteStore(str(path), create=True, durable=durability == "FULL"))
    desk.add([Draft(f"task {number}", id=f"t{number:06}") for number in range(tasks)])
    return desk


def _token(claimed: Claimed) -> str | None:
    return claimed.task.lease.token if claimed.task.lease else None


def _round(durability: str) -> list[tuple[float, ...]]:
    """Seconds per task of each lane (floor, apart, together, Python API), by turn."""
    with tempfile.TemporaryDirectory() as name:
        lanes = [make(Path(name), durability) for make in (floor, apart, together, library)]
        for lane in lanes:
            lane.work(_WARM_UP)
        times = [tuple(timed(lambda: lane.work(_SLICE)) / _SLICE for lane in lanes) for _ in range(_TURNS)]  # noqa: B023 - called at once
        for lane in lanes:
            lane.close()
    return times


def run() -> list[Figure]:
    """Medians over all turns of the ratios within a turn."""
    figures = []
    for durability, promise in (("FULL", 0.6), ("NORMAL", None)):
        turns = [turn for _ in range(_ROUNDS) for turn in _round(durability)]
        ratio = median([bare / ours for bare, ours, *_ in turns])
        step = median([ours / joined for _, ours, joined, _ in turns])
        loop = median([worked / ours for _, ours, _, worked in turns])
        floors, aparts, togethers, loops = (1 / median(lane) for lane in zip(*turns, strict=True))
        figures += [
            Figure(
                f"claim + finish, synchronous={durability}, ratio to the floor",
                f"{ratio:.2f} ({floors:,.0f}/s floor, {aparts:,.0f}/s ours)",
                f"≥ {promise}" if promise else "",
                ratio >= promise if promise else None,
            ),
            Figure(
                f"done --next, synchronous={durability}, ratio to claim + finish",
                f"{step:.2f} ({togethers:,.0f}/s)",
                "≥ 1.5" if promise else "",
                step >= 1.5 if promise else None,
            ),
            Figure(
                f"desk.work() of the Python API, synchronous={durability}, time of a task in claim + finish",
                f"{loop:.3f} ({loops:,.0f}/s)",
                "≤ 1.05" if promise else "",
                loop <= 1.05 if promise else None,
            ),
        ]
    return figures
