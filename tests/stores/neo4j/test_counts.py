"""Counting takes several statements, and Neo4j lets others write between them."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Actor, Draft, Status
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import Transaction
from support.neo4j import fresh_desk, shared_url

COUNTED = ("count_by_status", "count_open", "count_woken", "count_timed")


@pytest.mark.parametrize("before", COUNTED)
def test_task_claimed_during_a_count_is_counted(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = fresh_desk()
    real = Transaction.all
    with Neo4jStore(shared_url(), desk=desk) as store, Neo4jStore(shared_url(), desk=desk) as other:
        store.add("s", [Draft("A", "a")], [], Actor("ann"))

        def meanwhile(tx: Transaction, name: str, **asked: Any) -> Any:
            if name == before:
                monkeypatch.setattr(Transaction, "all", real)
                other.claim(ClaimRequest("bob", ("t",), "s"))
            return real(tx, name, **asked)

        monkeypatch.setattr(Transaction, "all", meanwhile)
        found = store.counts("s")
        assert min(found.by_status.values()) >= 0
        assert found.by_status[Status.READY] + found.by_status[Status.ACTIVE] >= 1
        assert found.expired == 0
