"""The participants with their environments and settings: each peer with its fastest settings for its batch size."""

from __future__ import annotations

from typing import NamedTuple

from bench.postgres.environments import Environment

DRIVER = "psycopg2-binary==2.9.13"  # the one dibs uses
_NODE = "node@26.10.0"
DIBS = Environment("dibs")
FLOORS = Environment("floors", ("psycopg[binary]==3.3.8", DRIVER))
_PROCRASTINATE = Environment("procrastinate", ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8"))
_PGQUEUER = Environment("pgqueuer", ("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0"))
_DBOS = Environment("dbos", ("dbos==3.3.0",))
_ABSURD = Environment("absurd", ("absurd-sdk==0.5.1", "absurdctl==0.5.1", "psycopg[binary]==3.3.8"))
_GRAPHILE = Environment("graphile-worker", ("graphile-worker@0.18.0", _NODE), node=True)
_RIVER = Environment("river", go=True)
_PG_BOSS = Environment("pg-boss", ("pg-boss@12.35.0", _NODE), node=True)

SLOW = 10


class Participant(NamedTuple):
    """`unfinished` counts the jobs that are not done by the participant's own tables; 0 is right.

    `fewer` divides the number of jobs for those that would take minutes: a shorter queue is in their favour.
    """

    name: str
    environment: Environment
    worker: str
    unfinished: str
    settings: str
    mode: str = "-"
    batch: int = 1
    fewer: int = 1

    @property
    def peer(self) -> bool:
        return self.environment not in {DIBS, FLOORS}


def _floor(name: str, mode: str, batch: int = 1) -> Participant:
    left = "SELECT count(*) FROM job WHERE status <> 'done'"
    return Participant(name, FLOORS, "floor", left, "autocommit, driver's defaults", mode, batch)


def _dibs(name: str, mode: str, batch: int = 1) -> Participant:
    left = "SELECT count(*) FROM dibs.task WHERE status <> 'done'"
    return Participant(name, DIBS, "dibs", left, "Desk over open_store(…), leases of 20 minutes", mode, batch)


def _graphile(name: str, mode: str, batch: int, settings: str) -> Participant:
    left = "SELECT count(*) FROM graphile_worker._private_jobs"
    return Participant(name, _GRAPHILE, "graphile_worker", left, settings, mode, batch)


def _pg_boss(batch: int) -> Participant:
    settings = "fetch() and complete() in a loop, supervise and schedule off"
    left = "SELECT count(*) FROM pgboss.job WHERE state <> 'completed'"
    return Participant(f"pg-boss, {_of(batch)}", _PG_BOSS, "pg_boss", left, settings, batch=batch)


def _pgqueuer(batch: int) -> Participant:
    settings = f"asyncpg, uvloop, drain mode, batch_size={batch}, durability as installed (durable)"
    left = "SELECT count(*) FROM pgqueuer"
    return Participant(f"pgqueuer, {_of(batch)}", _PGQUEUER, "pgqueuer", left, settings, batch=batch)


def _river(name: str, workers: int) -> Participant:
    left = "SELECT count(*) FROM river_job WHERE state <> 'completed'"
    settings = f"MaxWorkers {workers}, fetch cooldown 1 ms, polling every 2 ms; completions go in batches, as always"
    return Participant(name, _RIVER, "river", left, settings, batch=workers)


def _dbos(name: str, mode: str, settings: str) -> Participant:
    left = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
    return Participant(name, _DBOS, "dbos", left, settings, mode, fewer=SLOW)


def _of(batch: int) -> str:
    return "one at a time" if batch == 1 else f"batches of {batch}"


FLOOR = _floor("floor: psycopg 3, two statements, two commits", "psycopg:apart")
FLOOR_TOGETHER = _floor("floor: psycopg 3, finish and claim in one commit", "psycopg:together")
FLOOR_BATCHES = {n: _floor(f"floor: psycopg 3, batches of {n}", "psycopg:apart", n) for n in (10, 100)}
DRIVER_FLOORS = (
    _floor("floor: psycopg2, two statements, two commits", "psycopg2:apart"),
    _floor("floor: psycopg2, finish and claim in one commit", "psycopg2:together"),
)
TOLD_FLOORS = {
    1: _floor("floor: psycopg 3, the same two statements with an event each", "psycopg:told"),
    **{n: _floor(f"floor: psycopg 3, batches of {n} with an event each", "psycopg:told", n) for n in (10, 100)},
}

APART = _dibs("**dibs**: claim, then done", "apart")
TOGETHER = _dibs("**dibs**: done that claims the next", "together")
BATCHES = {n: _dibs(f"**dibs**: claim {n}, then done for all", "apart", n) for n in (10, 100)}
BATCHES_TOGETHER = {n: _dibs(f"**dibs**: done for {n} that claims the next {n}", "together", n) for n in (10, 100)}

ONE_AT_A_TIME = (
    _graphile(
        "graphile-worker, one at a time",
        "one",
        1,
        "runOnce, concurrentJobs 1, no logging; it fetches the next job while it completes the last",
    ),
    _pg_boss(1),
    _pgqueuer(1),
    Participant(
        "procrastinate, one at a time",
        _PROCRASTINATE,
        "procrastinate",
        "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'",
        "asynchronous worker, wait=False, concurrency 1, psycopg's C extension",
    ),
    _river("River, one at a time", 1),
    _dbos("DBOS, one at a time", "one", "worker_concurrency 1, polling every ms (the default is 1 s), no logging"),
    Participant(
        "Absurd, one at a time",
        _ABSURD,
        "absurd",
        "SELECT count(*) FROM absurd.t_default WHERE state <> 'completed'",
        "Python SDK, start_worker, concurrency 1, batch_size 1",
        fewer=SLOW,
    ),
)
IN_BATCHES = {
    n: (
        _pg_boss(n),
        _pgqueuer(n),
        _river(f"River, {n} at once", n),
        _graphile(
            f"graphile-worker, local queue of {n}",
            "localQueue",
            n,
            f"localQueue size {n}, completeJobBatchDelay 0 (jobs go on before those done are kept), concurrentJobs 1",
        ),
    )
    for n in (10, 100)
}
DBOS_FREE = _dbos("DBOS, as many at once as it likes", "free", "no worker_concurrency, polling every ms, no logging")

EVERYONE = (
    APART,
    TOGETHER,
    *BATCHES.values(),
    *BATCHES_TOGETHER.values(),
    FLOOR_TOGETHER,
    *FLOOR_BATCHES.values(),
    *DRIVER_FLOORS,
    *TOLD_FLOORS.values(),
    *ONE_AT_A_TIME,
    *IN_BATCHES[10],
    *IN_BATCHES[100],
    DBOS_FREE,
)
