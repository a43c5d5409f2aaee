"""A server of the test's own, ended and started again under the store's hands."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

from dibs.core.errors import StoreReadOnly, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.opening import open_store
from neo4j_desks import url_of
from neo4j_server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value = TypeVar("Value")
BY = Actor("ann")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


def test_what_was_committed_outlives_a_power_cut_and_a_dead_server_is_told_soon(server: Server) -> None:
    """Killed while a store is open; then it comes back, read-only, and then as it was."""
    with Neo4jStore(url_of(server), create=True) as store:
        store.add("s", [Draft("A", "a"), Draft("B", "b")], [], BY)
        store.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        server.stop()

        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.move(Move(Verb.DONE, "a", "s", BY, "t"), CanceledBlocker.RESOLVES)
        assert time.monotonic() - began < 8

        server.start(settings=("server.databases.default_to_read_only=true",))
        with pytest.raises(StoreReadOnly):
            store.move(Move(Verb.DONE, "a", "s", BY, "t"), CanceledBlocker.RESOLVES)
        began = time.monotonic()
        with pytest.raises(StoreReadOnly):
            open_store(f"{url_of(server)}?desk=other", create=True)
        assert time.monotonic() - began < 8
        assert [task.lease is not None for task in store.graph("s", finished=True).tasks] == [True, False]

        server.stop()
        server.start(settings=())
        assert store.move(Move(Verb.DONE, "a", "s", BY, "t"), CanceledBlocker.RESOLVES).task.finished
        assert store.check(fix=False) == []


def test_workers_go_on_with_nothing_lost_when_the_server_is_killed_among_them(server: Server) -> None:
    """Four drain forty tasks; each says again what it was not sure of, and no finish is believed twice."""
    with Neo4jStore(url_of(server), desk="drained", create=True) as store:
        store.add("s", [Draft("T", f"t{number:02}") for number in range(40)], [], BY)
        finished: list[str] = []
        threads = [threading.Thread(target=_drain, args=(server, f"w{at}", finished)) for at in range(4)]
        for thread in threads:
            thread.start()
        while len(finished) < 10:
            time.sleep(0.01)
        server.stop()
        server.start()
        for thread in threads:
            thread.join(120)
        assert {task.status for task in store.graph("s", finished=True).tasks} == {"done"}
        assert sorted(finished) == [f"t{number:02}" for number in range(40)]
        assert store.check(fix=False) == []


def _drain(server: Server, name: str, finished: list[str]) -> None:
    """Tokens are made by the worker, so that a claim or a finish whose answer was lost can be asked for again."""
    number = 0
    with Neo4jStore(url_of(server), desk="drained") as store:
        while True:
            number += 1
            token = f"{name}-{number}"
            claimed = _insist(partial(_claimed, store, name, token))
            if not claimed:
                return
            task = claimed[0]
            move = Move(Verb.DONE, task, "s", Actor(name), token)
            _insist(partial(store.move, move, CanceledBlocker.RESOLVES))
            finished.append(task)


def _claimed(store: Neo4jStore, name: str, token: str) -> list[str]:
    held = [task.id for task in store.graph("s", finished=False).tasks if task.lease and task.lease.token == token]
    return held or [each.task.id for each in store.claim(ClaimRequest(name, (token,), "s"))]


def _insist(act: Callable[[], Value]) -> Value:
    deadline = time.monotonic() + 90
    while True:
        try:
            return act()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
