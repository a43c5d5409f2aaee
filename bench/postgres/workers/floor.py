"""The floor: a table, an index, and the fewest statements that can be called a queue. No links, no fence, no events.

MODE is the driver and the commits, such as `psycopg:apart`. `apart` claims in one commit and finishes in another,
`together` finishes and claims the next job in one. Any other value is `apart` with an event for each claim and finish,
as a queue with a history needs. A BATCH above 1 does that many jobs per statement.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from bench.postgres.workers.starting_line import Tally, wait_for_start

_SCHEMA = """
CREATE TABLE job (id bigint PRIMARY KEY, status text NOT NULL, priority integer NOT NULL);
CREATE INDEX job_open ON job (priority, id) WHERE status = 'open';
CREATE TABLE event (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT statement_timestamp(),
    job bigint NOT NULL, verb text NOT NULL);
"""
_OPEN = "SELECT id FROM job WHERE status = 'open' ORDER BY priority, id FOR UPDATE SKIP LOCKED LIMIT"
_CLAIM = f"UPDATE job SET status = 'active' WHERE id = ({_OPEN} 1) RETURNING id"
_FINISH = "UPDATE job SET status = 'done' WHERE id = %s"
_CLAIM_MANY = f"UPDATE job SET status = 'active' WHERE id = ANY(ARRAY({_OPEN} %s)) RETURNING id"
_FINISH_MANY = "UPDATE job SET status = 'done' WHERE id = ANY(%s)"
_TOLD = "WITH moved AS ({} RETURNING id) INSERT INTO event (job, verb) SELECT id, '{}' FROM moved RETURNING job"


def _connect(driver: str, url: str) -> Any:
    connection = import_module(driver).connect(url)
    connection.autocommit = True
    return connection


def fill(url: str, jobs: int) -> None:
    with _connect("psycopg", url) as connection:
        connection.execute(_SCHEMA)
        connection.execute("INSERT INTO job SELECT n, 'open', 2 FROM generate_series(0, %s) AS n", (jobs - 1,))


def apart(cursor: Any, tally: Tally, claim: str, finish: str) -> None:
    """Two statements, two commits."""
    while True:
        cursor.execute(claim)
        row = cursor.fetchone()
        if row is None:
            return
        cursor.execute(finish, row)
        tally.add(row[0])


def together_psycopg(cursor: Any, tally: Tally) -> None:
    """Finish and claim the next in one commit and one round trip: a pipeline is one transaction."""
    cursor.execute(_CLAIM)
    row = cursor.fetchone()
    claim = cursor.connection.cursor()
    while row is not None:
        with cursor.connection.pipeline():
            cursor.execute(_FINISH, row)
            claim.execute(_CLAIM)
        tally.add(row[0])
        row = claim.fetchone()


def together_psycopg2(cursor: Any, tally: Tally) -> None:
    """The same with the older driver: statements that are sent together are one transaction."""
    cursor.execute(_CLAIM)
    row = cursor.fetchone()
    while row is not None:
        cursor.execute(f"{_FINISH}; {_CLAIM}", row)
        tally.add(row[0])
        row = cursor.fetchone()


def batches(cursor: Any, tally: Tally, batch: int, claim: str, finish: str) -> None:
    """A batch is claimed in one commit and finished in another."""
    while True:
        cursor.execute(claim, (batch,))
        jobs = [row[0] for row in cursor.fetchall()]
        if not jobs:
            return
        cursor.execute(finish, (jobs,))
        for job in jobs:
            tally.add(job)


def drain(url: str, mode: str, batch: int) -> None:
    driver, _, commits = mode.partition(":")
    cursor = _connect(driver, url).cursor()
    tally = Tally()
    wait_for_start()
    if commits == "together":
        (together_psycopg if driver == "psycopg" else together_psycopg2)(cursor, tally)
    elif batch > 1:
        batches(cursor, tally, batch, *_statements(commits, _CLAIM_MANY, _FINISH_MANY))
    else:
        apart(cursor, tally, *_statements(commits, _CLAIM, _FINISH))
    tally.report()


def _statements(commits: str, claim: str, finish: str) -> tuple[str, str]:
    if commits == "apart":
        return claim, finish
    return _TOLD.format(claim.removesuffix(" RETURNING id"), "claim"), _TOLD.format(finish, "done")


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        drain(sys.argv[2], sys.argv[3], int(sys.argv[4]))
