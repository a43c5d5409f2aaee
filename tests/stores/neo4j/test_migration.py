"""A desk of version 1, written by dibs of that time, is converted when it is opened."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dibs.core.wire import task_json
from dibs.stores.neo4j import database
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import MIGRATION
from support.clock import Clock
from support.neo4j import admin, fresh_desk, shared_url

pytestmark = pytest.mark.xdist_group("neo4j-migration")  # a conversion converts all old desks of the shared server

OLD = json.loads((Path(__file__).parent / "version_1.json").read_text(encoding="utf-8"))
SENDER = "ab" * 32
COPIED = """
UNWIND $nodes AS node
CREATE (n) SET n = node.values, n.number = node.number
FOREACH (_ IN CASE WHEN 'Task' IN node.labels THEN [1] ELSE [] END | SET n:Task)
FOREACH (_ IN CASE WHEN 'Event' IN node.labels THEN [1] ELSE [] END | SET n:Event)
FOREACH (_ IN CASE WHEN 'TaskDispatch' IN node.labels THEN [1] ELSE [] END | SET n:TaskDispatch)
FOREACH (_ IN CASE WHEN 'PriorityAudit' IN node.labels THEN [1] ELSE [] END | SET n:PriorityAudit)
FOREACH (_ IN CASE WHEN 'Agent' IN node.labels THEN [1] ELSE [] END | SET n:Agent)
FOREACH (_ IN CASE WHEN 'Scope' IN node.labels THEN [1] ELSE [] END | SET n:Scope)
FOREACH (_ IN CASE WHEN 'Desk' IN node.labels THEN [1] ELSE [] END | SET n:Desk)
"""
TIED = """
UNWIND $links AS link
MATCH (a {number: link.task}), (b {number: link.on}) WHERE a.desk = $desk AND b.desk = $desk
CREATE (a)-[r:DEPENDS_ON]->(b) SET r = link.values
"""


def value(kept: Any) -> Any:
    return datetime.fromisoformat(kept["time"].replace("000+00:00", "+00:00")) if isinstance(kept, dict) else kept


def values(kept: dict[str, Any]) -> dict[str, Any]:
    return {name: value(each) for name, each in kept.items()}


@pytest.fixture
def desk() -> str:
    """The old desk under a new name, in a database with the new indexes."""
    return old_desk(fresh_desk())


def old_desk(name: str) -> str:
    """In one transaction, because a concurrent test converts all desks that it finds."""
    nodes = []
    for number, node in enumerate(OLD["nodes"]):
        own = {"name": name} if node["labels"] == ["Desk"] else {"desk": name}
        nodes.append({"number": number, "labels": node["labels"], "values": values(node["values"]) | own})
    links = [{"task": a, "on": b, "values": values(said)} for a, _, b, said in OLD["links"]]
    with admin().session() as session, session.begin_transaction() as tx:
        tx.run("MATCH (d:Desk {name: $desk}) DETACH DELETE d", desk=name).consume()
        tx.run(COPIED, nodes=nodes).consume()
        tx.run(TIED, links=links, desk=name).consume()
        tx.run("MATCH (n) WHERE coalesce(n.desk, n.name) = $desk REMOVE n.number", desk=name).consume()
        tx.commit()
    return name


def tasks(store: Neo4jStore) -> dict[str, list[Any]]:
    return {
        scope: [task_json(one) for one in sorted(store.graph(scope, finished=True).tasks)] for scope in OLD["tasks"]
    }


def asked(desk: str, statement: str) -> list[dict[str, Any]]:
    return [row.data() for row in admin().execute_query(statement, desk=desk).records]


def test_old_desk_keeps_its_tasks_and_is_sound(desk: str) -> None:
    with Neo4jStore(shared_url(), desk=desk, clock=Clock()) as store:
        assert tasks(store) == OLD["tasks"]
        assert [one for one in store.check(fix=False) if "wakes_at" not in one.problem] == []
        assert store.describe()["schema"].endswith(f"version {database.NEWEST}")


def test_old_desk_gets_the_documents_words(desk: str) -> None:
    Neo4jStore(shared_url(), desk=desk).close()
    found = asked(
        desk, "MATCH (t:Task {desk: $desk}) RETURN t.id AS id, t.status AS status, t.blocked_reason AS reason"
    )
    assert {row["id"]: (row["status"], row["reason"]) for row in found} == {
        "ready": ("pending", None), "active": ("in_progress", None), "done": ("completed", None),
        "blocked": ("blocked", "waits for a key"), "paused": ("blocked", "paused"), "review": ("blocked", "review"),
        "escalated": ("escalated", "too hard"), "canceled": ("blocked", "aborted"), "backlog": ("blocked", "backlog"),
        "behind": ("pending", None), "freed": ("pending", None), "lapsed": ("in_progress", None),
    }  # fmt: skip
    load = "MATCH (t:Task {desk: $desk, assigned_to: 'developer', status: 'in_progress'}) RETURN count(t) AS load"
    assert asked(desk, load) == [{"load": 1}]
    labels = asked(desk, "MATCH (i:Item {desk: $desk}) WHERE NOT i:Task RETURN DISTINCT labels(i) AS labels")
    assert {tuple(sorted(row["labels"])) for row in labels} == {
        ("Item", "Message"), ("Item", "Note"), ("Item", "Mail"), ("Item", "Lock"), ("Item", "Token"),
    }  # fmt: skip
    links = asked(desk, "MATCH (a:Task {desk: $desk})-[r:DEPENDS_ON]->(b) RETURN b.id AS on, r.type AS type")
    assert {row["on"]: row["type"] for row in links} == {
        "active": "blocks", "canceled": "resolved", "done": "feeds_into",
    }  # fmt: skip
    inner = (
        "MATCH (e {desk: $desk}) WHERE (e:TaskDispatch OR e:PriorityAudit) AND e.sender_hash STARTS WITH '.' RETURN e"
    )
    assert asked(desk, inner) == []
    names = {
        row["id"]: row["name"] for row in asked(desk, "MATCH (a:Agent {desk: $desk}) RETURN a.id AS id, a.name AS name")
    }
    assert names == {"developer": "Temüjin", "ops": "Ögedei"}


def test_broken_conversion_is_resumed(desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each of its transactions."""
    monkeypatch.setattr(database, "_BITE", 7)
    patiently = database.Database._patiently
    ended = 0
    for steps in range(1, 40):
        left = [steps]

        def die(self: database.Database, statement: str, left: list[int] = left, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return patiently(self, statement, **more)

        monkeypatch.setattr(database.Database, "_patiently", die)
        try:
            Neo4jStore(shared_url(), desk=desk).close()
        except KeyboardInterrupt:
            ended += 1
        else:
            break
    assert ended > 1
    with Neo4jStore(shared_url(), desk=desk, clock=Clock()) as store:
        assert tasks(store) == OLD["tasks"]


def test_desk_restored_during_conversion_is_converted_when_opened(desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patiently = database.Database._patiently
    restored: list[str] = []

    def restore(self: database.Database, statement: str, **more: Any) -> Any:
        if "convert_audits" not in restored and statement == MIGRATION["convert_audits"]:
            restored.extend(("convert_audits", old_desk(fresh_desk())))
        return patiently(self, statement, **more)

    monkeypatch.setattr(database.Database, "_patiently", restore)
    Neo4jStore(shared_url(), desk=desk).close()
    monkeypatch.undo()
    with Neo4jStore(shared_url(), desk=restored[1], clock=Clock()) as store:
        assert tasks(store) == OLD["tasks"]


def test_two_processes_convert_one_desk_once(desk: str) -> None:
    """The second process has found the unconverted tasks already when the first one commits."""
    converted = MIGRATION["convert_items"]
    blocked = (
        "SHOW TRANSACTIONS YIELD status, currentQuery WHERE status STARTS WITH 'Blocked by'"
        " AND currentQuery CONTAINS 't.converting' RETURN count(*) AS number"
    )
    with ThreadPoolExecutor(1) as second, admin().session() as session, session.begin_transaction() as first:
        first.run(converted, bite=1000).consume()
        opened = second.submit(lambda: Neo4jStore(shared_url(), desk=desk).close())
        while not opened.done() and not asked(desk, blocked)[0]["number"]:
            time.sleep(0.01)
        assert not opened.done()
        first.commit()
        opened.result()
    with Neo4jStore(shared_url(), desk=desk, clock=Clock()) as store:
        assert tasks(store) == OLD["tasks"]
    assert asked(desk, "MATCH (t {desk: $desk}) WHERE t.converting IS NOT NULL RETURN t.id") == []


def test_index_on_the_old_label_is_dropped(desk: str) -> None:
    admin().execute_query("CREATE INDEX dibs_old IF NOT EXISTS FOR (t:Task) ON (t.desk, t.spec_ref)")
    Neo4jStore(shared_url(), desk=desk).close()
    assert asked(desk, "SHOW INDEXES YIELD name WHERE name = 'dibs_old' RETURN name") == []
