"""Processes that create a store on one server at the same time share it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import SCHEMA
from support.neo4j import admin_of, own_server, url_of

pytestmark = pytest.mark.xdist_group("neo4j-server")

MAKERS = 4


def test_concurrent_creations_make_one_store() -> None:
    """An uncommitted index is invisible and blocks no one; later commits of the same index are refused."""
    url = url_of(own_server())
    together = Barrier(MAKERS)
    stores = [Neo4jStore(url, create=True) for _ in range(MAKERS)]

    def make(store: Neo4jStore) -> None:
        together.wait(60)
        store._database._ensure(SCHEMA["queue"])

    with ThreadPoolExecutor(MAKERS) as makers:
        for _ in range(5):
            admin_of(url).execute_query("DROP INDEX dibs_queue")
            list(makers.map(make, stores))
    for store in stores:
        assert store.check(fix=False) == []
        store.close()
