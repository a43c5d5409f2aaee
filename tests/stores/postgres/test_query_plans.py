"""What a claim, a renewal and a finish cost does not grow with the store: they keep to their indexes."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from dibs.core.task import Status
from dibs.stores.port import Query
from dibs.stores.postgres.claims import head_query, next_values
from dibs.stores.postgres.rows import array, place_values
from dibs.stores.postgres.transaction import QUERIES, execute, prepare
from dibs.testing.conformance.builders import SCOPE, add, blocks, request
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.harness import PostgresHarness
    from dibs.stores.postgres.store import PostgresStore

SMALL, LARGE = 10_000, 100_000

# Every hundredth task is claimable and has three dependents; the others wait for earlier ones and sort ahead.
_TASKS = """
INSERT INTO task (priority, queued_at, created_at, updated_at, class_rank, override_rank, scope, id, status, doc,
                  blockers, claimable, has_prerequisites, has_dependents)
SELECT CASE WHEN number %% 100 = 0 THEN 2 ELSE 1 END, desk_now(), desk_now(), desk_now(), 3, 1, 'home',
       't' || lpad(number::text, 7, '0'), 'ready', json_build_object('title', 'Task', 'created_at', desk_now()),
       CASE WHEN number %% 100 = 0 THEN 0 ELSE 3 END, number %% 100 = 0, number %% 100 <> 0, true
FROM generate_series(1, %s) AS number
"""
_LINKS = """
INSERT INTO link SELECT later.key, later.key - step, 'blocks', 1, 'plan', 1
FROM task AS later CROSS JOIN generate_series(1, 3) AS step
WHERE NOT claimable AND later.key - 3 >= (SELECT min(key) FROM task)
"""


def fill(store: PostgresStore, number: int, *, analyze: bool = True) -> None:
    database = store._database
    # statistics of tests that used the schema before
    database.run("DELETE FROM pg_statistic WHERE starelid IN ('task'::regclass, 'link'::regclass)")
    database.run(_TASKS, (number,))
    database.run(_LINKS)
    if analyze:
        database.run("VACUUM ANALYZE task, link")


def pages(store: PostgresStore, name: str, values: tuple[Any, ...]) -> int:
    """How many pages a prepared statement touches; it is carried out."""
    if name not in store._database._prepared:
        store._database.run(prepare(name, store.describe()["id"]))
        store._database._prepared.add(name)
    plan = store._database.run(f"EXPLAIN (ANALYZE, BUFFERS) {execute(name, len(values))}", values).fetchall()
    return touched("\n".join(row[0] for row in plan))


def touched(plan: str) -> int:
    found = re.search(r"Buffers: shared([^\n]*)", plan)
    assert found is not None
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", found[1]))


def costs(store: PostgresStore, turns: int = 3) -> dict[str, int]:
    """The pages of each hot verb, once its plan is made and the first pages are in memory."""
    found: dict[str, int] = {}
    for turn in range(turns):
        claimed = request("ann")
        found["claim"] = pages(store, *head_query(claimed))
        token = claimed.tokens[0]
        if not held(store, claimed.tokens):  # something is due, which is left to the function
            found["claim"] = pages(store, "claim_next", next_values(claimed))
        ((task, _),) = held(store, claimed.tokens)
        found["renew"] = pages(store, "renew", (SCOPE, task, token, "1 hour", False, False))
        finish: tuple[Any, ...] = (SCOPE, task, token, "ann", None, None, None, None, False, False)
        found["finish"] = pages(store, "finish", finish)
        free = store._database.run("SELECT id FROM task WHERE claimable OFFSET 5 LIMIT 1").fetchall()[0][0]
        named: tuple[Any, ...] = (SCOPE, [free], "ann", None, [f"named-{turn}"], "1 hour", [])
        found["claim by name"] = pages(store, "claim_named", named)
        plan = store._database.run("EXPLAIN (ANALYZE, BUFFERS) SELECT wake(%s, NULL)", (store.now(),)).fetchall()
        found["wake"] = touched("\n".join(row[0] for row in plan))
    return found


def finish_some(store: PostgresStore, number: int) -> None:
    """Let the last so many waiting tasks be finished ones."""
    database = store._database
    database.run(
        "UPDATE task SET status = 'done', finished_at = desk_now() WHERE key IN"
        " (SELECT key FROM task WHERE NOT claimable ORDER BY key DESC LIMIT %s)",
        (number,),
    )
    database.run("VACUUM ANALYZE task")


NOT_DONE = tuple(status for status in Status if status is not Status.DONE)
LISTINGS = {
    "first page": Query(SCOPE, NOT_DONE),
    "page further on": Query(SCOPE, NOT_DONE, after=(3, True, 1, datetime(9000, 1, 1, tzinfo=UTC), "", "")),
    "page of everything": Query(SCOPE),
    "page of finished tasks": Query(SCOPE, (Status.DONE,)),
    "page of what is ready": Query(SCOPE, (Status.READY,)),
    "page of what is held": Query(SCOPE, (Status.ACTIVE,)),
}


def page_costs(store: PostgresStore) -> dict[str, int]:
    """The pages that are read for a page of a listing."""
    found = {}
    for name, query in LISTINGS.items():
        asked = {"scopes": [SCOPE], "statuses": [str(status) for status in query.statuses], "limit": 50}
        asked |= {"only": None, "spec_ref": None}
        values = query._asdict() | place_values(query.after) | asked
        told = store._database.run(f"EXPLAIN (ANALYZE, BUFFERS) {QUERIES['find']}", values).fetchall()
        plan = "\n".join(row[0] for row in told)
        assert "Seq Scan" not in plan, plan
        found[name] = touched(plan)
    return found


@pytest.fixture
def filled(harness: PostgresHarness) -> dict[int, dict[str, int]]:
    found = {}
    for number in (SMALL, LARGE):
        with harness.open() as store:
            fill(store, number)
            finish_some(store, number // 3)
            found[number] = costs(store) | page_costs(store)
    return found


def test_pages_of_hot_verbs_do_not_grow_with_the_store(filled: dict[int, dict[str, int]]) -> None:
    for verb, few in filled[SMALL].items():
        assert filled[LARGE][verb] <= 1.5 * few + 8, (verb, filled)
    assert filled[LARGE]["claim"] < 120, filled
    assert filled[LARGE]["renew"] < 60, filled


@pytest.mark.parametrize("offset", [0, 3, 21, 59, 73])
def test_pages_do_not_depend_on_earlier_keys(harness: PostgresHarness, offset: int) -> None:
    """A reused schema continues to count its keys; the links of the sample must not depend on that."""
    with harness.open() as store:
        store._database.run(f"ALTER TABLE task ALTER COLUMN key RESTART WITH {1 + offset}")
        fill(store, SMALL)
        assert costs(store)["finish"] < 120


# Conditions of production under which an index is full of rows that no longer count.


def test_fresh_load_needs_no_statistics(harness: PostgresHarness) -> None:
    with harness.open() as store:
        fill(store, LARGE)
        analyzed = costs(store)
    with harness.open() as store:
        fill(store, LARGE, analyze=False)
        fresh = costs(store)
    for verb, few in analyzed.items():
        assert fresh[verb] <= 1.5 * few + 8, (verb, analyzed, fresh)


_STALE = """
UPDATE pg_class SET relpages = pg_relation_size(oid) / 8192, reltuples = %s
WHERE oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN ('task'::regclass, 'link'::regclass))
   OR oid IN ('task'::regclass, 'link'::regclass)
"""


@pytest.mark.parametrize("rows", [0, 1, 100, 10_000_000])
def test_wrong_row_counts_do_not_slow_hot_verbs(harness: PostgresHarness, rows: int) -> None:
    """An ANALYZE during the transaction that loads a store finds full pages and no rows."""
    with harness.open() as store:
        fill(store, LARGE)
        analyzed = costs(store)
    with harness.open() as store:
        fill(store, LARGE, analyze=False)
        store._database.run(_STALE, (rows,))
        stale = costs(store)
    for verb, few in analyzed.items():
        assert stale[verb] <= 1.5 * few + 8, (verb, analyzed, stale)


def test_many_held_tasks_do_not_slow_a_holder(harness: PostgresHarness) -> None:
    with harness.open() as store:
        fill(store, LARGE)
        before = costs(store)
        take(store, 600)
        after = costs(store)
    for verb in ("renew", "finish", "wake"):
        assert after[verb] <= 1.5 * before[verb] + 8, (verb, before, after)


@contextmanager
def old_snapshot(store: PostgresStore) -> Iterator[None]:
    """A transaction such as a long dump: while it is open, no dead row can be removed."""
    connection = psycopg2.connect(shared_url())
    try:
        connection.set_session(isolation_level="REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {store._database.target.schema}.task")
            yield
    finally:
        connection.close()


def test_old_snapshot_does_not_slow_renewals_and_finishes(harness: PostgresHarness) -> None:
    with harness.open() as store:
        fill(store, LARGE)
        before = costs(store)
        with old_snapshot(store):
            for _ in range(200):
                after = costs(store, turns=1)
    for verb in ("renew", "finish", "wake"):
        assert after[verb] <= 1.5 * before[verb] + 8, (verb, before, after)
    # One dead row for each claim since the snapshot: no index in the order of the queue can skip them.
    assert after["claim"] <= before["claim"] + 3 * 200, (before, after)


def test_expired_leases_do_not_slow_a_finish(harness: PostgresHarness) -> None:
    """Under an old snapshot, too, where the rows of the expired leases stay in their index."""
    with harness.open() as store:
        fill(store, LARGE)
        before = costs(store)
        with old_snapshot(store):
            take(store, 400)
            harness.clock.advance(hours=2)
            after = costs(store)
    for verb in ("renew", "finish"):
        assert after[verb] <= 1.5 * before[verb] + 8, (verb, before, after)


def take(store: PostgresStore, number: int) -> None:
    """Claim so many tasks and keep them."""
    for _ in range(number // 100):
        assert len(store.claim(request("ann", count=100))) == 100


INDEXED = {
    "the head of the queue": (
        """SELECT key FROM task WHERE claimable AND scope = 'home' AND (assigned_to IS NULL OR assigned_to = 'ann')
        AND (requires IS NULL OR requires <@ '{}') ORDER BY class_rank, override_rank, priority, queued_at, id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED""",
        "task_claim",
    ),
    "what is due": (
        "SELECT 1 WHERE EXISTS (SELECT FROM task WHERE wake_at <= desk_now())",
        "task_due",
    ),
    "a task by its id": (
        "SELECT key FROM task WHERE scope = 'home' AND id = 'a' FOR NO KEY UPDATE",
        "task_scope_id_key",
    ),
    "what waits for a task": ("SELECT 1 FROM link WHERE on_task = 7 AND kind = 'blocks'", "link_on"),
    "open children": ("SELECT 1 FROM task WHERE scope = 'home' AND parent = 'a'", "task_parent"),
}


@pytest.mark.parametrize("what", INDEXED)
@pytest.mark.parametrize("rows", [0, 3000])
def test_query_of_an_empty_table_uses_its_index(harness: PostgresHarness, what: str, rows: int) -> None:
    text, index = INDEXED[what]
    with harness.open() as store:
        fill(store, rows)
        plan = "\n".join(row[0] for row in store._database.run(f"EXPLAIN {text}").fetchall())
    assert f"using {index} on" in plan, plan
    assert "Seq Scan" not in plan, plan


def batch_costs(store: PostgresStore, turns: int) -> dict[str, int]:
    """The pages that claims of ten and finishes touch; the plans are those of the session's first calls."""
    found: dict[str, int] = {}
    for _ in range(turns):
        ten, one = request("ann", count=10), request("ann")
        found["claim ten"] = pages(store, *head_query(ten))
        pages(store, *head_query(one))
        ids, tokens = zip(*held(store, ten.tokens), strict=True)
        many = (SCOPE, list(ids), list(tokens), array([None] * len(ids)), "ann", None, False, False, *[None] * 6)
        found["finish ten"] = pages(store, "finish_all", many)
        ((task, token),) = held(store, one.tokens)
        found["finish one"] = pages(store, "finish", (SCOPE, task, token, "ann", None, None, None, None, False, False))
    return found


def held(store: PostgresStore, tokens: tuple[str, ...]) -> list[tuple[str, str]]:
    return store._database.run("SELECT id, token FROM task WHERE token = ANY (%s)", (list(tokens),)).fetchall()


def test_plans_made_in_a_small_store_stay_good_in_a_large_one(harness: PostgresHarness) -> None:
    """A session keeps its plans, and a store that grows quickly has no statistics yet."""
    with harness.open() as store:
        chain(store, "few", 140)
        few = batch_costs(store, turns=7)
        chain(store, "many", 6000)
        many = batch_costs(store, turns=20)
    for verb, before in few.items():  # a bad plan reads fifty times as much, dead rows double it
        assert many[verb] <= 4 * before, (verb, few, many)


def chain(store: PostgresStore, name: str, number: int) -> None:
    """Tasks of which each second one waits for two others."""
    ids = [f"{name}-{n:05}" for n in range(number)]
    links = [blocks(ids[n], ids[n - step]) for n in range(1, number, 2) for step in (1, 3) if n >= step]
    add(store, *ids, links=links)
