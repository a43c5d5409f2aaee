"""The server or the network stops answering: every wait ends, and nothing counts twice."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.lab.torture.proxies import BOLT_COMMIT, BoltProxy, Ending
from dibs.stores.neo4j import database
from dibs.stores.neo4j.database import Watch
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery
from support.neo4j import fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator

BY = Actor("ann")
TIMEOUT, GRACE = 2, 0.5
CONNECTING, PATIENCE = 1.0, 1.0  # where the server never answers again
BOUND = 60  # seconds, after which a wait counts as hanging


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed early; a slow server still has enough time."""
    monkeypatch.setattr(database, "_GRACE", GRACE)
    monkeypatch.setattr(database, "_CONNECTING", float(BOUND))
    monkeypatch.setattr(database, "_PATIENCE", float(BOUND))


@pytest.fixture
def proxy() -> Iterator[BoltProxy]:
    with BoltProxy(shared_url()) as between:
        yield between


@pytest.fixture
def far(proxy: BoltProxy) -> Iterator[Neo4jStore]:
    desk = seeded()
    with Neo4jStore(proxy.url(timeout=TIMEOUT), desk=desk) as store:
        yield store
        proxy.heal()
        assert store.check(fix=False) == []


def seeded() -> str:
    """A desk with tasks a and b, on which the tested calls were run once, to warm the server."""
    desk = fresh_desk()
    with Neo4jStore(shared_url(), desk=desk) as near:
        for scope in ("warm", "s"):
            near.add(scope, [Draft("A", "a"), Draft("B", "b")], [], BY)
        near.claim(ClaimRequest("ann", ("w",), "warm"))
        near.move(Move(Verb.DONE, "a", "warm", BY, "w"), CanceledBlocker.RESOLVES)
    return desk


def claimed(store: Neo4jStore, who: str = "t") -> list[str]:
    return [each.task.id for each in store.claim(ClaimRequest("ann", (who,), "s"))]


def claims_told(store: Neo4jStore) -> list[str]:
    return [event.task for event in store.events(EventQuery(scope="s")) if event.verb == "claim"]


def test_half_open_connection_is_replaced(far: Neo4jStore, proxy: BoltProxy) -> None:
    assert proxy.freeze() > 0
    began = time.monotonic()
    assert claimed(far) == ["a"]
    assert TIMEOUT + GRACE <= time.monotonic() - began < BOUND
    assert claims_told(far) == ["a"]


@pytest.mark.parametrize("answer", [True, False], ids=["carried out", "not heard of"])
def test_unanswered_commit_counts_once(far: Neo4jStore, proxy: BoltProxy, answer: bool) -> None:
    lose = proxy.lose_answer if answer else proxy.lose_request
    trap = lose(BOLT_COMMIT, Ending.SILENCE)
    assert [task.id for task in far.add("s", [Draft("C", "c")], [], BY)] == ["c"]
    assert trap.sprung.is_set()
    assert [event.task for event in far.events(EventQuery(scope="s"))] == ["a", "b", "c"]


def test_server_that_stops_answering_is_given_up(proxy: BoltProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    with Neo4jStore(proxy.url(timeout=TIMEOUT), desk=seeded()) as far:
        far.now()
        monkeypatch.setattr(database, "_CONNECTING", CONNECTING)
        proxy.black_hole()
        with monkeypatch.context() as hurried:
            hurried.setattr(database, "_PATIENCE", PATIENCE)
            began = time.monotonic()
            with pytest.raises(StoreUnavailable) as error:
                claimed(far)
            assert time.monotonic() - began < BOUND
        assert "whether it was committed is unknown" in error.value.message  # the claim had been sent
        proxy.heal()
        assert claimed(far) == ["a"]
        assert far.check(fix=False) == []


def test_other_waiting_callers_succeed_too(far: Neo4jStore, proxy: BoltProxy) -> None:
    won: list[str] = []

    def claim(who: str) -> None:
        won.extend(claimed(far, who))

    threads = [threading.Thread(target=claim, args=(who,)) for who in ("t", "u")]
    proxy.freeze()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * BOUND)
    assert sorted(won) == sorted(claims_told(far)) == ["a", "b"]


def test_watch_ignores_answered_callers_and_ends_when_idle() -> None:
    told = threading.Event()
    watch = Watch(told.set)
    with watch.at_most(300):
        assert "dibs-watch" in [thread.name for thread in threading.enumerate()]
    deadline = time.monotonic() + BOUND
    while "dibs-watch" in [thread.name for thread in threading.enumerate()]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not told.is_set()
    with watch.at_most(0.01):
        assert told.wait(BOUND)
