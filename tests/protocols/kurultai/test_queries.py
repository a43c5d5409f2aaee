"""The queries of the page, run on a real server, return and write the same as the store."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from neo4j.exceptions import CypherSyntaxError

from dibs.core.errors import IllegalMove
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link, LinkKind, Status
from dibs.desk import Desk
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.policy import KURULTAI, statuses_called
from docs.pages import ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.stores.neo4j.store import Neo4jStore

DAG, READY, LOAD, COMPLETE = (
    block.text
    for block in blocks((ROOT / "docs/reference/neo4j-queries.md").read_text(encoding="utf-8"))
    if block.kind == "cypher"
)
SIZE = 10
FIRST = 19  # the first seed: its landscapes have ready tasks, and tasks that a completion unblocks
pytestmark = pytest.mark.timeout(7200)  # 200 graphs take half an hour on a busy machine
GRAPHS = 200 if os.environ.get("DIBS_TORTURE") else 5
RUN = uuid4().hex  # the queries know no desks, and other tests may use the same server
AGENTS = ("developer", "writer")

# Verbatim from the document.
APPENDIX_COMPLETION = """
MATCH (completed:Task {id: $task_id})
SET completed.status = "completed",
    completed.completed_at = datetime()

WITH completed
MATCH (dependent:Task)-[:DEPENDS_ON]->(completed)
WHERE dependent.status = "blocked"
WITH dependent, collect(completed) as completed_deps

// Check if all blockers are now complete
MATCH (dependent)-[:DEPENDS_ON {type: "blocks"}]->(blocker)
WITH dependent, completed_deps, collect(blocker) as all_blockers
WHERE all(blocker IN completed_deps FOR blocker IN all_blockers)

SET dependent.status = "ready"
"""


@pytest.fixture(scope="module")
def store() -> Iterator[Neo4jStore]:
    """With the server's clock, which the queries use."""
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


def landscape(store: Neo4jStore, sender: str, seed: int) -> dict[str, str]:
    """Tasks in all states, the same for each seed, and the tokens of held tasks."""
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
        with suppress(IllegalMove):  # what waited for a canceled task is escalated already
            desk.move(random.choice((Verb.PAUSE, Verb.CANCEL, Verb.BLOCK, Verb.ESCALATE)), name)
    for name in random.sample(names, 2):  # what the user has freed from an aborted blocker
        task = desk.get(name)
        if task.status is Status.ESCALATED and not task.blockers:
            desk.move(Verb.UNBLOCK, name)
    held = {}
    for each in range(3):
        for claimed in desk.claim(f"{AGENTS[each % 2]}-{sender[:8]}{sender[-4:]}"):
            assert claimed.task.lease is not None
            held[claimed.task.id] = claimed.task.lease.token
    if len(held) > 1 and random.random() < 0.5:  # the first may have lost its lease
        last = list(held)[-1]
        desk.move(Verb.DONE, last, token=held.pop(last))
    return held


VARYING = frozenset({
    "sender_hash", "created_at", "updated_at", "queued_at", "started_at", "completed_at", "claimed_at", "expires_at",
    "wakes_at", "claim_attempt_id", "order_key", "place", "timestamp", "seq", "claimed_by",
    "assigned_to", "finished_by", "agent_id",
})  # fmt: skip


def shape(node: dict[str, Any]) -> dict[str, Any]:
    """All properties of a node. Of values that always differ, only their presence."""
    return {name: "there" if name in VARYING else value for name, value in node.items() if name != "mark"}


def tasks_of(store: Neo4jStore, sender: str) -> dict[str, dict[str, Any]]:
    found = ask(store, "MATCH (t:Task {desk: $desk, sender_hash: $hash}) RETURN t", hash=sender)
    return {row["t"]["id"]: shape(row["t"]) for row in found}


def last_event(store: Neo4jStore, sender: str) -> dict[str, Any]:
    newest = "MATCH (e:Event {desk: $desk, sender_hash: $hash}) RETURN e ORDER BY e.seq DESC LIMIT 1"
    return shape(ask(store, newest, hash=sender)[0]["e"])


def senders(first: int) -> list[str]:
    return [f"{RUN}{number:032x}" for number in range(first, first + GRAPHS)]


def test_document_queries_return_what_the_commands_list(store: Neo4jStore) -> None:
    """On random graphs: the same tasks, the same dependencies, and an order that agrees where weights differ."""
    memory = OperationalMemory(Desk(store))
    found = 0
    for seed, sender in enumerate(senders(0), FIRST):
        landscape(store, sender, seed)
        dag = ask(store, DAG, hash=sender)
        listed = memory.get_tasks(sender, [one for word in ("pending", "blocked", "in_progress") for one in
                                           statuses_called(word)], SIZE)  # fmt: skip
        assert {row["t"]["id"]: row["t"]["status"] for row in dag} == {one["id"]: one["status"] for one in listed}
        assert {row["t"]["id"]: row["t"].get("blocked_reason") for row in dag} == {
            one["id"]: one["blocked_reason"] for one in listed
        }
        pairs = {(row["t"]["id"], row["other"]["id"]) for row in dag if row["other"]}
        known = {one["id"] for one in listed}
        links = store.graph(sender, finished=True).links
        assert pairs == {(link.task, link.on) for link in links if link.task in known}
        ready = [row["t"]["id"] for row in ask(store, READY, hash=sender)]
        told = memory.get_ready_tasks(sender)
        assert sorted(ready) == sorted(task["id"] for task in told)
        weights = {task["id"]: task["priority_weight"] for task in told}
        assert [weights[each] for each in ready] == sorted(weights.values(), reverse=True)
        for agent in AGENTS:
            (row,) = ask(store, LOAD, agent_id=f"{agent}-{sender[:8]}{sender[-4:]}")
            working = [
                t
                for t in memory.get_tasks(sender, [Status.ACTIVE])
                if t["claimed_by"] == f"{agent}-{sender[:8]}{sender[-4:]}"
            ]
            assert row["load"] == len(working)
        found += len(ready)
    assert found > GRAPHS / 2, "the landscapes leave something to do"


def test_third_query_of_the_appendix_is_not_cypher(store: Neo4jStore) -> None:
    """The page has a corrected one."""
    with pytest.raises(CypherSyntaxError):
        ask(store, APPENDIX_COMPLETION, task_id="t1")


def test_completion_query_matches_the_store(store: Neo4jStore) -> None:
    opened = 0
    for seed, (sender, twin) in enumerate(zip(senders(1000), senders(2000), strict=True), FIRST):
        held, held_by_twin = landscape(store, sender, seed), landscape(store, twin, seed)
        assert list(held) == list(held_by_twin)
        for task in list(held):
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


def test_completion_query_needs_the_proof(store: Neo4jStore) -> None:
    sender = f"{RUN}{'e' * 32}"
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
