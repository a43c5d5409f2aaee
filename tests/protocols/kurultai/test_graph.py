"""The nodes and properties of the document, as the Neo4j browser shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from dibs.desk import Desk
from dibs.protocols.kurultai.memory import OperationalMemory
from support.kurultai import ANN, hold

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def desk() -> str:
    from support.neo4j import fresh_desk

    return fresh_desk()


@pytest.fixture
def memory(desk: str) -> Iterator[OperationalMemory]:
    from dibs.stores.neo4j.store import Neo4jStore
    from support.neo4j import shared_url

    with OperationalMemory(Desk(Neo4jStore(shared_url(), desk=desk)), by="main") as opened:
        yield opened


def ask(desk: str, query: str) -> list[dict[str, Any]]:
    from support.neo4j import admin

    return [record.data() for record in admin().execute_query(query, {"desk": desk}).records]


def test_graph_shows_claim_priority_and_block(memory: OperationalMemory, desk: str) -> None:
    ends = datetime(2026, 2, 4, 12, 0, 45, tzinfo=UTC)
    memory.create_task(
        "Build the page", sender_hash=ANN, task_id="a", type="web", deliverable_type="code", delegated_by="main",
        priority_weight=0.3, window_expires_at=ends,
    )  # fmt: skip
    memory.set_priority("a", 0.9, sender_hash=ANN, reason="launch is near")
    proof = hold(memory, "a")
    (found,) = ask(desk, "MATCH (t:Task {desk: $desk}) RETURN t")
    node = found["t"]
    assert node["claim_attempt_id"] == proof
    assert node["window_expires_at"].to_native() == ends
    expected = {
        "id": "a", "type": "web", "description": "Build the page", "status": "in_progress", "assigned_to": "developer",
        "claimed_by": "developer", "delegated_by": "main", "sender_hash": ANN, "deliverable_type": "code",
        "priority_weight": 0.9, "user_priority_override": False, "escalation_count": 0,
    }  # fmt: skip
    assert {name: node[name] for name in expected} == expected
    (sent,) = ask(desk, "MATCH (d:TaskDispatch {desk: $desk}) RETURN d")
    assert (sent["d"]["task_id"], sent["d"]["agent_id"], sent["d"]["status"]) == ("a", "developer", "dispatched")
    (audit,) = ask(desk, "MATCH (p:PriorityAudit {desk: $desk}) RETURN p")
    told = [audit["p"][name] for name in ("sender_hash", "task_id", "old_priority", "new_priority", "reason")]
    assert told == [ANN, "a", 0.3, 0.9, "launch is near"]
    memory.block_task("a", proof, reason="no access", sender_hash=ANN)
    (found,) = ask(desk, "MATCH (t:Task {desk: $desk}) RETURN t.status AS s, t.blocked_reason AS r, t.blocked_at AS at")
    assert (found["s"], found["r"]) == ("blocked", "no access")
    assert found["at"].to_native().tzinfo is not None


def test_dependency_points_from_dependent_to_prerequisite(memory: OperationalMemory, desk: str) -> None:
    for each in ("research", "strategy"):
        memory.create_task(each, sender_hash=ANN, task_id=each)
    memory.add_dependency("strategy", "research", sender_hash=ANN)
    (found,) = ask(desk, "MATCH (a:Task {desk: $desk})-[d:DEPENDS_ON]->(b:Task) RETURN a.id, b.id, properties(d) AS d")
    assert (found["a.id"], found["b.id"]) == ("strategy", "research")
    assert found["d"].pop("created_at") is not None
    assert found["d"] == {"type": "blocks", "weight": 0.5, "detected_by": "explicit", "confidence": 1.0}


def test_agents_and_settings_are_nodes(memory: OperationalMemory, desk: str) -> None:
    memory.register_fleet()
    memory.configure(ANN, {"notion_poll_interval": 30, "sync_preference": "aggressive"})
    agents = ask(desk, "MATCH (a:Agent {desk: $desk}) RETURN a.id AS id ORDER BY id")
    assert [row["id"] for row in agents] == ["analyst", "developer", "main", "ops", "researcher", "writer"]
    (config,) = ask(desk, "MATCH (c:UserConfig {desk: $desk}) RETURN c")
    told = [config["c"][name] for name in ("sender_hash", "notion_poll_interval", "sync_preference")]
    assert told == [ANN, 30, "aggressive"]
