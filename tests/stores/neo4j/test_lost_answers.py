"""Connections that break during a commit: a committed transaction is recognised, any other is repeated.

Plain statements, which need no explicit commit, are in test_plain.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import neo4j
import pytest
from neo4j.exceptions import ServiceUnavailable

from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.plan import parse_jsonl
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Edit, Link
from dibs.stores.neo4j import claims, database
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery
from dibs.testing.conformance.builders import fleet_of
from support.clock import Clock
from support.neo4j import fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BY = Actor("ann")
KEEPS = CanceledBlocker.RESOLVES
SOON = 60  # seconds; otherwise these waits would last for minutes


@pytest.fixture(autouse=True)
def _the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "plain_claim", lambda _: None)
    monkeypatch.setattr(claims, "plain_move", lambda _: None)


@pytest.fixture
def store() -> Iterator[Neo4jStore]:
    with Neo4jStore(shared_url(), desk=fresh_desk(), clock=Clock()) as opened:
        opened.add("s", [Draft("A", "a"), Draft("B", "b")], [], BY)
        opened.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        yield opened
        assert opened.check(fix=False) == []


VERBS: dict[str, Callable[[Neo4jStore], object]] = {
    "add": lambda store: store.add("s", [Draft("C", "c")], [], BY),
    "claim": lambda store: store.claim(ClaimRequest("bob", ("u",), "s")),
    "claim by name": lambda store: store.claim(ClaimRequest("bob", ("u",), "s", ("b",))),
    "done": lambda store: store.move(Move(Verb.DONE, "a", "s", BY, "t"), KEEPS, ClaimRequest("ann", ("v",), "s")),
    "fail": lambda store: store.move(Move(Verb.FAIL, "a", "s", BY, "t"), KEEPS),
    "renew": lambda store: store.move(Move(Verb.RENEW, "a", "s", BY, "t"), KEEPS),
    "edit": lambda store: store.amend("s", "b", Edit(title="Other"), BY),
    "link": lambda store: store.link("s", [Link("b", "a")], BY),
    "plan": lambda store: store.apply_plan(
        "s", parse_jsonl('{"id": "p", "title": "P"}'), KEEPS, BY, dry_run=False, progress=lambda _: None
    ),
    "register": lambda store: fleet_of(store).register("ann", host="here", pid=1),
}


def breaking(monkeypatch: pytest.MonkeyPatch, *, times: int, committed: bool) -> list[bool]:
    """The next commits lose their connection, before or after the server executes them."""
    commit = neo4j.Transaction.commit
    broken: list[bool] = []

    def breaks(self: neo4j.Transaction) -> None:
        if len(broken) >= times:
            commit(self)
            return
        broken.append(committed)
        if committed:
            commit(self)
        else:
            self._connection.kill()
        raise ServiceUnavailable("the line is dead")

    monkeypatch.setattr(neo4j.Transaction, "commit", breaks)
    return broken


def history(store: Neo4jStore) -> list[tuple[str, str]]:
    return [(event.task, event.verb) for event in store.events(EventQuery())]


@pytest.mark.parametrize("committed", [True, False], ids=["carried out", "not heard of"])
@pytest.mark.parametrize("verb", VERBS)
def test_commit_with_a_lost_answer_counts_once(
    store: Neo4jStore, monkeypatch: pytest.MonkeyPatch, verb: str, committed: bool
) -> None:
    with Neo4jStore(shared_url(), desk=fresh_desk(), clock=Clock()) as sound:
        sound.add("s", [Draft("A", "a"), Draft("B", "b")], [], BY)
        sound.claim(ClaimRequest("ann", ("t",), "s", ("a",)))
        expected = VERBS[verb](sound), history(sound), list(sound.dump())
    broken = breaking(monkeypatch, times=1, committed=committed)
    assert (VERBS[verb](store), history(store), list(store.dump())) == expected
    assert broken == [committed]


def test_unknown_outcome_is_reported_without_a_double_claim(store: Neo4jStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks until the retries end."""
    with monkeypatch.context() as patch:
        patch.setattr(database, "_PATIENCE", 1.0)
        breaking(patch, times=10_000, committed=False)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as error:
            store.claim(ClaimRequest("bob", ("u",), "s"))
        assert time.monotonic() - began < SOON
    assert "whether it was committed is unknown" in error.value.message
    assert [each.task.id for each in store.claim(ClaimRequest("bob", ("u",), "s"))] == ["b"]


_HOLDER = """
import os, sys, time, neo4j
from dibs.stores.neo4j import claims, database
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j import claims
store = Neo4jStore(os.environ["URL"], desk=os.environ["DESK"])
def stall(tx):
    claims.wake(tx, ["s"])
    print("locked", flush=True)
    time.sleep(600)
store._database.write(stall, scopes=["s"])
"""


def test_killed_worker_leaves_no_lock(store: Neo4jStore) -> None:
    desk = store.describe()["place"].partition("desk=")[2]
    environment = {**os.environ, "URL": shared_url(), "DESK": desk}
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "locked\n"
        worker.send_signal(signal.SIGKILL)
        began = time.monotonic()
        assert [each.task.id for each in store.claim(ClaimRequest("bob", ("u",), "s"))] == ["b"]
        assert time.monotonic() - began < SOON


def test_stopped_worker_delays_others_only_until_the_timeout(store: Neo4jStore) -> None:
    desk = store.describe()["place"].partition("desk=")[2]
    environment = {**os.environ, "URL": shared_url(), "DESK": desk}
    with (
        subprocess.Popen([sys.executable, "-c", _HOLDER], env=environment, stdout=subprocess.PIPE, text=True) as worker,
        Neo4jStore(f"{shared_url()}?timeout=1", desk=desk, clock=Clock()) as hurried,
    ):
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "locked\n"
            began = time.monotonic()
            with pytest.raises(StoreBusy):
                hurried.claim(ClaimRequest("bob", ("u",), "s"))
            assert time.monotonic() - began < SOON
        finally:
            worker.kill()
