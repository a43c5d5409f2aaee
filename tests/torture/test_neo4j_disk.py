"""A full disk under a Neo4j server: it closes its database with a clear error, and loses no commit."""

from __future__ import annotations

import resource
import time

import pytest

from dibs.core.errors import StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.stores.neo4j.store import Neo4jStore
from support.neo4j import own_server, url_of

pytestmark = pytest.mark.xdist_group("neo4j-server")

BY = Actor("ann")


def test_full_disk_is_reported_soon_and_loses_no_commit() -> None:
    """Of what the server may write no file may grow: to it that is a disk without room."""
    server = own_server()
    with Neo4jStore(url_of(server), desk="full", create=True) as store:
        store.add("s", [Draft("A", "a"), Draft("B", "b")], [], BY)
        store.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, 1))
        messages = []
        for task in ("c", "d"):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable) as error:
                store.add("s", [Draft("More", task)], [], BY)
            assert time.monotonic() - began < 15
            messages.append(error.value.message)
        assert "full disk" in messages[-1]
        server.stop()
        server.start()
        assert {"a", "b"} <= {task.id for task in store.graph("s", finished=True).tasks}
        assert store.move(Move(Verb.DONE, "a", "s", BY, "t"), CanceledBlocker.RESOLVES).task.finished
        assert store.check(fix=False) == []
