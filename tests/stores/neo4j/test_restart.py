"""A server that is killed, stopped and restarted under an open store."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreError, StoreReadOnly, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.stores.neo4j import database
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.opening import open_store
from support.neo4j import own_server, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Task
    from neo4j_server import Server

BY = Actor("ann")
READ_ONLY = ("server.databases.default_to_read_only=true",)
SOON = 120  # seconds; most of them for a server that has just begun, on a busy machine

pytestmark = pytest.mark.xdist_group("neo4j-server")


@pytest.fixture
def server() -> Iterator[Server]:
    server = own_server()
    yield server
    server.signal(signal.SIGCONT)
    if server.settings == READ_ONLY:  # the test ended too soon
        server.stop()
        server.start(settings=())


@contextmanager
def hurried() -> Iterator[None]:
    """With shorter waits than usual, in which the store gives up."""
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        for name, seconds in (("_CONNECTING", 4.0), ("_PATIENCE", 1.0), ("_GRACE", 1.0)):
            patched.setattr(database, name, seconds)
        yield
    assert time.monotonic() - began < SOON


def finish(store: Neo4jStore) -> Task:
    return store.move(Move(Verb.DONE, "a", "s", BY, "t"), CanceledBlocker.RESOLVES).task


def test_dead_and_read_only_servers_are_reported(server: Server) -> None:
    """Under an open store. tests/torture/test_neo4j_disk.py tests durability."""
    with Neo4jStore(url_of(server), create=True) as store:
        store.add("s", [Draft("A", "a"), Draft("B", "b")], [], BY)
        store.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        server.stop(signal.SIGTERM)
        with hurried(), pytest.raises(StoreUnavailable):
            finish(store)
        server.start(settings=READ_ONLY)
        with pytest.raises(StoreReadOnly):
            finish(store)
        with pytest.raises(StoreReadOnly):
            open_store(f"{url_of(server)}?desk=other", create=True)
        assert [task.lease is not None for task in store.graph("s", finished=True).tasks] == [True, False]

        server.stop(signal.SIGTERM)
        server.start(settings=())
        assert finish(store).finished
        assert store.check(fix=False) == []


def test_stopped_server_is_found_again_when_it_continues(server: Server) -> None:
    """SIGSTOP: the kernel accepts connections, and the server does nothing."""
    with (
        Neo4jStore(url_of(server), desk="stopped", create=True) as patient,
        Neo4jStore(f"{url_of(server)}?timeout=2", desk="stopped") as store,
    ):
        patient.add("s", [Draft("A", "a")], [], BY)
        server.signal(signal.SIGSTOP)
        with hurried(), pytest.raises(StoreUnavailable):
            store.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        with hurried(), pytest.raises(StoreError):
            open_store(url_of(server))
        server.signal(signal.SIGCONT)
        assert [each.task.id for each in patient.claim(ClaimRequest("ann", ("t",), "s", ("a",)))] == ["a"]
        assert finish(patient).finished
        assert patient.check(fix=False) == []
