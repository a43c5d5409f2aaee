"""Neo4j: does it stay flat, and how far is it from two bare queries on the same server?"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import neo4j

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # tools are no package

from bench.measure import Figure, median, percentile
from bench.postgres.server import running
from bench.scale import cycle, graph
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.desk import Desk, quiet
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.postgres.store import PostgresStore
from neo4j_server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

_SIZES = (1_000, 100_000)
_JOBS = 400
_WARM_UP = 4000  # tasks, until the server has compiled its hot code
_ROUNDS = 9
_HEAP = "6g"  # adding 100,000 tasks is one transaction, which the server holds in memory

# The simplest correct queue: claim the first job, under its lock; finish it by its token.
_CLAIM = """
MATCH (j:Job) WHERE j.open > 0 WITH j ORDER BY j.open LIMIT 1
SET j.held = true WITH j WHERE j.open IS NOT NULL
SET j.open = null, j.token = $token, j.at = datetime() RETURN j.id AS id
"""
_FINISH = "MATCH (j:Job {id: $id}) WHERE j.token = $token SET j.done = datetime() RETURN j.id AS id"


def run() -> list[Figure]:
    server = Server(heap=_HEAP, options=())
    try:
        url = f"bolt://{server.user}:{server.password}@127.0.0.1:{server.port}"
        return [*_rates(server, url), *_flatness(url)]
    finally:
        server.remove()


def _rates(server: Server, url: str) -> list[Figure]:
    """Claim and finish with one worker, alternating with the floor and with PostgreSQL."""
    with (
        neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver,
        driver.session() as session,
        Neo4jStore(url, desk="rate", create=True) as ours,
        running() as postgres,
        PostgresStore(postgres.url(), create=True) as beside,
    ):
        session.run("CREATE INDEX job_open IF NOT EXISTS FOR (j:Job) ON (j.open)").consume()
        session.run("CREATE INDEX job_id IF NOT EXISTS FOR (j:Job) ON (j.id)").consume()
        lanes = (partial(_bare, session), partial(_desk, ours), partial(_desk, beside))
        for lane in lanes:
            lane(_WARM_UP)
        turns = [tuple(lane(_JOBS) for lane in lanes) for _ in range(_ROUNDS)]
    ratio = median([ours / bare for bare, ours, _ in turns])
    bare, own, other = (f"{median(list(rates)):,.0f}/s" for rates in zip(*turns, strict=True))
    what = "Neo4j, claim and finish against two bare queries, 1 worker"
    return [
        Figure(what, f"{ratio:.2f} ({own} of {bare})", "≥ 0.5", ratio >= 0.5),
        Figure("the same over PostgreSQL, in the same turns", other),
    ]


def _bare(session: neo4j.Session, jobs: int) -> float:
    session.run("MATCH (j:Job) DELETE j").consume()
    session.run("UNWIND range(1, $jobs) AS n CREATE (:Job {id: n, open: n})", jobs=jobs).consume()

    def one(number: int) -> None:
        row = session.run(_CLAIM, token=str(number)).single(strict=True)
        session.run(_FINISH, id=row["id"], token=str(number)).consume()

    return _rate(jobs, one)


def _desk(store: Store, jobs: int) -> float:
    made = time.monotonic_ns()
    store.add("s", [Draft("job", f"{made}-{number}") for number in range(jobs)], [], Actor())

    def one(number: int) -> None:
        token = f"{made}-{number}"
        (claimed,) = store.claim(ClaimRequest("worker", (token,), "s"))
        store.move(Move(Verb.DONE, claimed.task.id, "s", Actor("worker"), token), CanceledBlocker.RESOLVES)

    return _rate(jobs, one)


def _rate(jobs: int, one: Callable[[int], None]) -> float:
    started = time.perf_counter()
    for number in range(jobs):
        one(number)
    return jobs / (time.perf_counter() - started)


def _flatness(url: str) -> list[Figure]:
    small, large = (_at(url, size) for size in _SIZES)
    figures = []
    for name in ("claim", "finish"):
        before, after = median(small[name]), median(large[name])
        tail = percentile(large[name], 0.99) * 1e3
        value = f"{after / before:.2f} ({before * 1e3:.2f} → {after * 1e3:.2f} ms; p99 {tail:.1f} ms)"
        what = f"Neo4j, {name} p50, 100k tasks / 300k links against 1k / 3k"
        figures.append(Figure(what, value, "≤ 2", after / before <= 2))
    return figures


def _at(url: str, size: int) -> dict[str, list[float]]:
    with Neo4jStore(url, desk=f"scale-{size}", create=True) as store:
        started = time.perf_counter()
        store.restore(graph(size), Actor(), quiet)
        print(f"  loaded {size:,} tasks in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        return cycle(Desk(store), min(size, 500))
