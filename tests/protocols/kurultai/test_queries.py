"""The queries on the page, taken from it and run on a real server: they say what the store says, and write what it
would have written."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Draft, Link, LinkKind
from dibs.desk import Desk
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.policy import KURULTAI
from dibs.stores.port import Query
from docs.pages import ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.stores.neo4j.store import Neo4jStore

DAG, READY, COMPLETE = (
    block.text
    for block in blocks((ROOT / "docs/reference/neo4j-queries.md").read_text(encoding="utf-8"))
    if block.kind == "cypher"
)
SIZE = 10
GRAPHS = 60 if os.environ.get("DIBS_TORTURE") else 4


@pytest.fixture(scope="module")
def store() -> Iterator[Neo4jStore]:
    """By the server's own clock, as the queries go by it."""
    from dibs.stores.neo4j.store import Neo4jStore
    from support.neo4j import fresh_desk, shared_url

    with Neo4jStore(shared_url(), desk=fresh_desk()) as opened:
        yield opened


def ask(store: Neo4jStore, query: str, **more: object) -> list[dict[str, Any]]:
    from support.neo4j import admin

    desk = store.describe()["schema"].removeprefix("desk ").partition(",")[0]
    parameters: dict[str, Any] = {"desk": desk, **more}
    return [record.data() for record in admin().execute_query(query, parameters).records]


LEASE = timedelta(minutes=20)


def landscape(store: Neo4jStore, sender: str, seed: int, first_lease: timedelta = LEASE) -> dict[str, str]:
    """Tasks in all states that life can bring them to, the same for each seed; the tokens of what is held."""
    random = Random(seed)
    desk = Desk(store, scope=sender, policy=KURULTAI)
    names = [f"t{number}" for number in range(SIZE)]
    pairs = [(names[i], names[j]) for i in range(SIZE) for j in range(i) if random.random() < 0.25]
    links = [Link(task, on, random.choice((LinkKind.BLOCKS, *LinkKind))) for task, on in pairs]
    weights = [random.choice((0, 0.25, 0.5, 1)) for _ in names]
    drafts = [
        Draft(f"Do {name}", id=name, priority=-weight, override=random.random() < 0.2, max_retries=retries)
        for name, weight, retries in zip(names, weights, random.choices((None, 0), k=SIZE), strict=True)
    ]
    desk.add(drafts, links)
    for name in random.sample(names, 4):
        desk.move(random.choice((Verb.PAUSE, Verb.CANCEL, Verb.BLOCK, Verb.ESCALATE)), name)
    held = {}
    for each in range(3):
        lease = first_lease if each == 0 else LEASE
        for claimed in desk.claim("developer", lease=lease):
            assert claimed.task.lease is not None
            held[claimed.task.id] = claimed.task.lease.token
    if len(held) > 1 and random.random() < 0.5:  # the first may have lost its lease
        last = list(held)[-1]
        desk.move(Verb.DONE, last, token=held.pop(last))
    return held


VARYING = frozenset({
    "sender_hash", "created_at", "updated_at", "queued_at", "started_at", "completed_at", "claimed_at", "expires_at",
    "wakes_at", "claim_attempt_id", "order_key", "place", "timestamp", "seq",
})  # fmt: skip


def shape(node: dict[str, Any]) -> dict[str, Any]:
    """All that a node says; of what differs between twins by nature, only that it is there."""
    return {name: "there" if name in VARYING else value for name, value in node.items() if name != "mark"}


def tasks_of(store: Neo4jStore, sender: str) -> dict[str, dict[str, Any]]:
    found = ask(store, "MATCH (t:Task {desk: $desk, sender_hash: $hash}) RETURN t", hash=sender)
    return {row["t"]["id"]: shape(row["t"]) for row in found}


def last_event(store: Neo4jStore, sender: str) -> dict[str, Any]:
    newest = "MATCH (e:Event {desk: $desk, sender_hash: $hash}) RETURN e ORDER BY e.seq DESC LIMIT 1"
    return shape(ask(store, newest, hash=sender)[0]["e"])


def senders(first: int) -> list[str]:
    return [f"{number:064x}" for number in range(first, first + GRAPHS)]


def test_the_dag_and_the_ready_tasks_are_what_the_store_says(store: Neo4jStore) -> None:
    several = senders(0)
    for seed, sender in enumerate(several):
        landscape(store, sender, seed, first_lease=timedelta(seconds=1))
    time.sleep(1.1)  # so that the short leases end
    found = 0
    for sender in several:
        graph = store.graph(sender, finished=False)
        dag = ask(store, DAG, hash=sender)
        assert {row["t"]["id"] for row in dag} == {task.id for task in graph.tasks}
        pairs = {(row["t"]["id"], row["other"]["id"]) for row in dag if row["other"]}
        assert pairs == {(link.task, link.on) for link in graph.links}
        ordered = list(dict.fromkeys(row["t"]["id"] for row in dag))
        by_store = [task.id for task in store.find(Query(sender)) if task.id in set(ordered)]
        assert ordered == by_store
        ready = [row["t"]["id"] for row in ask(store, READY, hash=sender)]
        peeked = store.peek(ClaimRequest("developer", (), sender), 50)
        assert ready == [task.id for task in peeked]
        assert ready == [task["id"] for task in OperationalMemory(Desk(store)).get_ready_tasks(sender)]
        found += len(ready)
    assert found > GRAPHS, "the landscapes leave something to do"


def test_completing_by_the_query_is_what_the_store_does(store: Neo4jStore) -> None:
    opened = 0
    for seed, (sender, twin) in enumerate(zip(senders(1000), senders(2000), strict=True)):
        held, held_by_twin = landscape(store, sender, seed), landscape(store, twin, seed)
        assert list(held) == list(held_by_twin)
        for task in list(held)[1:]:
            (row,) = ask(store, COMPLETE, hash=sender, task_id=task, claim_attempt_id=held[task], result='"fine"')
            desk = Desk(store, scope=twin, policy=KURULTAI)
            moved = desk.move(Verb.DONE, task, token=held_by_twin[task], result="fine")
            assert row["ready"] == list(moved.unblocked)
            assert tasks_of(store, sender) == tasks_of(store, twin)
            assert last_event(store, sender) == last_event(store, twin)
            memory = OperationalMemory(Desk(store))
            assert [ready["id"] for ready in memory.get_ready_tasks(sender)] == [
                ready["id"] for ready in memory.get_ready_tasks(twin)
            ]
            opened += len(row["ready"])
    assert opened, "some completion opens something"
    assert store.check(fix=False) == []


def test_the_query_completes_nothing_for_who_has_no_proof(store: Neo4jStore) -> None:
    sender = "e" * 64
    desk = Desk(store, scope=sender, policy=KURULTAI)
    desk.add([Draft("a", id="a"), Draft("part", id="part", parent="a"), Draft("b", id="b"), Draft("c", id="c")])
    held = {}
    for name, lease in (("a", timedelta(hours=1)), ("b", timedelta(seconds=1))):
        (claimed,) = desk.claim("ops", refs=[name], lease=lease)
        held[name] = claimed.task.lease.token if claimed.task.lease else ""
    time.sleep(1.1)
    before = tasks_of(store, sender), last_event(store, sender)
    for task, proof in (("a", "a guess"), ("a", held["a"]), ("b", held["b"]), ("c", ""), ("nothing", "")):
        assert ask(store, COMPLETE, hash=sender, task_id=task, claim_attempt_id=proof, result=None) == []
    assert (tasks_of(store, sender), last_event(store, sender)) == before
