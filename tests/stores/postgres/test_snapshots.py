"""A claim is one statement, which sees the store as it was when it began.

Changes of a task between that moment and the lock on its row must still count.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.stores.postgres.transaction import QUERIES
from dibs.testing.conformance.builders import add, blocks, claim, hold, link, move

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.harness import PostgresHarness
    from dibs.stores.postgres.store import PostgresStore

GATE = 7_301  # an advisory lock that stops a claim between its snapshot and the row's lock
_GATE = f"""
CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_lock_shared({GATE});
    RETURN pg_advisory_unlock_shared({GATE});
END $$
"""
_FITS = "AND (requires IS NULL OR requires <@ $6::text[])"
_STANDS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted"


@contextmanager
def gated(store: PostgresStore) -> Iterator[None]:
    """Claims pass the gate after they have found a task and before they lock it."""
    run = store._database.run
    claims = {name: QUERIES[name] for name in ("claim_head", "claim_heads")}
    run(_GATE)
    for name, text in claims.items():
        assert text.count(_FITS) == 1
        QUERIES[name] = text.replace(_FITS, f"AND gate() {_FITS}")
    try:
        yield
    finally:
        for name, text in claims.items():
            QUERIES[name] = text
        run("DROP FUNCTION gate()")


@pytest.mark.parametrize("count", [1, 2])
def test_claim_returns_inputs_of_a_prerequisite_linked_during_it(
    store: PostgresStore, harness: PostgresHarness, count: int
) -> None:
    add(store, "before", "late", "other")
    move(store, Verb.DONE, "before", hold(store, "before"), result={"found": 1})
    with gated(store), harness.join(store) as claimer, ThreadPoolExecutor(1) as pool:
        store._database.run(f"SELECT pg_advisory_lock({GATE})")
        asked = pool.submit(claim, claimer, count=count)
        try:
            until_it_stands(store)
            link(store, blocks("late", "before"))
        finally:
            store._database.run(f"SELECT pg_advisory_unlock({GATE})")
        claimed = {one.task.id: one.inputs for one in asked.result(120)}
    assert [(one.id, one.result) for one in claimed["late"]] == [("before", {"found": 1})]


def until_it_stands(store: PostgresStore) -> None:
    for _ in range(12_000):
        if store._database.run(_STANDS).fetchone() != (0,):
            return
        time.sleep(0.01)
    pytest.fail("the claim never came to the gate")
