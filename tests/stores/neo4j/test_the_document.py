"""The nodes, properties and indexes of kurultai's document, as the Neo4j browser shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import neo4j
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neo4j.spatial import WGS84Point

from dibs.core.events import Event
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Edit, Link, LinkKind, Status
from dibs.stores.neo4j.rows import DOCUMENTED, LABELS, WORDS, priority_from, status_from, weight_of
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery, Query
from support.clock import Clock
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Json

SENDER = "f3ab12"
BY = Actor("kublai")
KEEPS = CanceledBlocker.RESOLVES

# Fields of :Task in the document, with one extra field for those unknown to dibs.
EXTRA: dict[str, Json] = {
    "delegated_by": "main",
    "escalation_count": 2,
    "external_priority_source": "notion",
    "external_priority_weight": 0.75,
    "merged_from": ["x1", "x2"],
    "notion_page_id": "8a2f",
    "notion_synced_at": "2026-01-31T12:00:00Z",
    "notion_url": "https://notion.so/8a2f",
    "quality_score": 1.0,
    "window_expires_at": "2026-01-31T12:00:45.500000Z",
}


class Graph:
    """A desk, and its raw nodes."""

    def __init__(self) -> None:
        self.desk = fresh_desk()
        self.clock = Clock()
        self.store = Neo4jStore(shared_url(), desk=self.desk, clock=self.clock)

    def ask(self, statement: str, **parameters: object) -> list[neo4j.Record]:
        return admin().execute_query(statement, {"desk": self.desk, **parameters}).records

    def node(self, label: str) -> dict[str, Any]:
        (row,) = self.ask(f"MATCH (n:{label} {{desk: $desk}}) RETURN properties(n) AS node")
        return dict(row["node"])


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    yield made
    assert made.store.check(fix=False) == []
    made.store.close()


def test_task_has_the_properties_of_the_document(graph: Graph) -> None:
    draft = Draft(
        "Earn 1,000 USDC", "t1", "Find ways", category="research", deliverable="analysis", override=True,
        priority=-0.5, assigned_to="jochi", extra=EXTRA,
    )  # fmt: skip
    graph.store.add(SENDER, [draft], [], BY)
    node = graph.node("Task")
    wanted = {
        "id": "t1", "sender_hash": SENDER, "type": "research", "description": "Find ways", "status": "pending",
        "assigned_to": "jochi", "deliverable_type": "analysis", "priority_weight": 0.5,
        "user_priority_override": True, "delegated_by": "main", "merged_from": ["x1", "x2"],
        "escalation_count": 2, "notion_page_id": "8a2f", "notion_url": "https://notion.so/8a2f",
        "external_priority_source": "notion", "external_priority_weight": 0.75, "quality_score": 1.0,
    }  # fmt: skip
    assert {name: node[name] for name in wanted} == wanted
    for name in ("created_at", "updated_at", "window_expires_at", "notion_synced_at"):
        assert isinstance(node[name], neo4j.time.DateTime), name
    assert node["extra"] == "{}"
    assert not node.keys() & {"scope", "priority", "reason", "category", "finished_at", "token", "embedding"}
    assert graph.store.get(SENDER, "t1").extra == EXTRA


def test_held_and_finished_tasks_use_the_documents_words(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    graph.store.claim(ClaimRequest("jochi", ("secret",), SENDER))
    held = graph.node("Task")
    assert (held["status"], held["claimed_by"], held["claim_attempt_id"]) == ("in_progress", "jochi", "secret")
    assert "completed_at" not in held
    graph.store.move(Move(Verb.DONE, "a", SENDER, BY, "secret"), KEEPS)
    done = graph.node("Task")
    assert (done["status"], "claimed_by" in done) == ("completed", False)
    assert isinstance(done["completed_at"], neo4j.time.DateTime)


def test_blocked_task_has_the_documents_reason(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    graph.store.move(Move(Verb.BLOCK, "a", SENDER, BY, reason="waits for a key"), KEEPS)
    node = graph.node("Task")
    assert (node["status"], node["blocked_reason"]) == ("blocked", "waits for a key")


def test_every_status_survives_the_graph() -> None:
    assert [status_from(WORDS[status]) for status in Status] == list(Status)
    assert [status_from(status) for status in Status] == list(Status)
    assert set(DOCUMENTED.values()) == {"pending", "in_progress", "completed", "blocked", "escalated"}
    assert DOCUMENTED.keys() == set(Status)


@pytest.mark.parametrize("priority", [0, -0.0, 2, -7, 0.1, -0.3, 1e300, -5e-324])
def test_weight_is_the_negated_priority_without_loss(graph: Graph, priority: float) -> None:
    assert priority_from(weight_of(priority)) == priority
    assert str(weight_of(priority)) != "-0.0"
    graph.store.add(SENDER, [Draft("A", "a", priority=priority), Draft("B", "b", priority=priority - 1)], [], BY)
    assert graph.store.get(SENDER, "a").priority == priority
    weights = {
        row["id"]: row["w"]
        for row in graph.ask("MATCH (t:Task {desk: $desk}) RETURN t.id AS id, t.priority_weight AS w")
    }
    assert weights["b"] >= weights["a"] == weight_of(priority)


def test_link_has_the_properties_of_the_document(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a"), Draft("B", "b")], [], BY)
    graph.store.link(SENDER, [Link("b", "a", LinkKind.FEEDS_INTO, 0.5, "semantic", 0.8)], BY)
    made = graph.store.now()
    graph.clock.advance(minutes=1)
    graph.store.link(SENDER, [Link("b", "a", LinkKind.BLOCKS, 0.7)], BY)
    (row,) = graph.ask(
        "MATCH (a:Task {desk: $desk})-[d:DEPENDS_ON]->(b) RETURN a.id AS a, b.id AS b, properties(d) AS d"
    )
    assert (row["a"], row["b"]) == ("b", "a")
    assert row["d"].pop("created_at").to_native() == made
    assert row["d"] == {"type": "blocks", "weight": 0.7, "detected_by": "explicit", "confidence": 1.0}


def test_only_a_successful_claim_is_a_dispatch(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    graph.store.claim(ClaimRequest("jochi", ("t",), SENDER))
    with pytest.raises(Exception, match="held by jochi"):
        graph.store.claim(ClaimRequest("temur", ("u",), SENDER, ("a",)))
    node = graph.node("TaskDispatch")
    assert (node["task_id"], node["agent_id"], node["status"]) == ("a", "jochi", "dispatched")
    assert len(node["id"]) == 36
    assert node["dispatched_at"] == node["timestamp"]
    assert graph.store.events(EventQuery(task="a"))[1].detail == {}


def test_only_a_change_of_priority_is_audited(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a", priority=-0.25)], [], BY)
    graph.store.amend(SENDER, "a", Edit(title="Other"), BY)
    graph.store.amend(SENDER, "a", Edit(priority=-1, override=True), BY)
    node = graph.node("PriorityAudit")
    assert (node["sender_hash"], node["task_id"]) == (SENDER, "a")
    assert (node["old_priority"], node["new_priority"], node["user_priority_override"]) == (0.25, 1.0, True)
    assert isinstance(node["timestamp"], neo4j.time.DateTime)


RUN: dict[str, Json] = {
    "id": "run-1", "sync_type": "notion", "triggered_at": "2026-01-31T12:00:00Z",
    "completed_at": "2026-01-31T12:00:09Z", "changes_applied": 1, "changes_skipped": 2, "changes_failed": 0,
    "status": "partial",
}  # fmt: skip
CHANGE: dict[str, Json] = {
    "id": "change-1", "sync_event_id": "run-1", "change_type": "priority", "old_value": "0.5", "new_value": "1.0",
    "applied": False,
}  # fmt: skip


@pytest.mark.parametrize("run_first", [True, False])
def test_sync_has_the_nodes_of_the_document(graph: Graph, *, run_first: bool) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    now = graph.store.now()
    run = Event(now, SENDER, "", "sync", detail=RUN)
    change = Event(now, SENDER, "a", "sync_change", reason="held", detail=CHANGE)
    for event in (run, change) if run_first else (change, run):
        graph.store.record(event)
    graph.store.record(Event(now, SENDER, "", "sync_notice", detail={"applied": 1, "failed": 0, "skipped": 2}))
    (row,) = graph.ask(
        "MATCH (s:SyncEvent {desk: $desk})-[:CONTAINS_CHANGE]->(c:SyncChange)-[:AFFECTS]->(t:Task)"
        " RETURN properties(s) AS run, properties(c) AS change, t.id AS task"
    )
    times = {"triggered_at", "completed_at"}
    assert {name: row["run"][name] for name in RUN.keys() - times} == {name: RUN[name] for name in RUN.keys() - times}
    assert all(isinstance(row["run"][name], neo4j.time.DateTime) for name in times)
    assert {name: row["change"][name] for name in CHANGE} == CHANGE
    assert (row["run"]["sender_hash"], row["change"]["task_id"], row["change"]["reason"]) == (SENDER, "a", "held")
    notice = graph.node("SyncNotification")
    assert (notice["applied"], notice["failed"], notice["skipped"]) == (1, 0, 2)
    told = {event.verb: event for event in graph.store.events(EventQuery())}
    assert told["sync"].detail == RUN
    assert told["sync_change"]._replace(seq=0) == change


def test_sync_events_are_exported_and_pruned(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    now = graph.store.now()
    graph.store.record(Event(now, SENDER, "", "sync", detail=RUN))
    graph.store.record(Event(now, SENDER, "a", "sync_change", detail=CHANGE))
    other = Graph()
    other.store.restore(list(graph.store.dump()), BY, lambda _: None)
    tied = "MATCH (:SyncEvent {desk: $desk})-[:CONTAINS_CHANGE]->(c)-[:AFFECTS]->(:Task) RETURN count(c) AS number"
    assert other.ask(tied)[0]["number"] == 1
    other.clock.advance(days=1)
    gone, _ = other.store.prune(events_before=other.store.now(), tasks_before=None, progress=lambda _: None)
    assert gone == 3
    other.store.close()


def test_every_index_of_the_document_exists(graph: Graph) -> None:
    rows = graph.ask("SHOW INDEXES YIELD labelsOrTypes, properties RETURN labelsOrTypes[0] AS label, properties")
    there = {(row["label"], *(row["properties"] or ())) for row in rows}
    assert {
        ("Task", "sender_hash", "status"),
        ("Task", "assigned_to", "status"),
        ("Task", "window_expires_at"),
        ("Task", "priority_weight", "created_at"),
        ("DEPENDS_ON", "type"),
        ("SyncEvent", "sender_hash", "triggered_at"),
        ("SyncChange", "task_id"),
    } <= there


def test_every_label_belongs_to_one_verb() -> None:
    assert len(set(LABELS.values())) == len(LABELS)


def test_embedding_is_not_read_with_a_task(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a")], [], BY)
    graph.ask("MATCH (t:Task {desk: $desk}) SET t.embedding = [x IN range(1, 384) | 0.5]")
    assert graph.store.get(SENDER, "a").extra == {}


def test_foreign_property_is_an_extra_field_and_removable(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a", extra={"own": None})], [], BY)
    graph.ask(
        "MATCH (t:Task {desk: $desk}) SET t.note = 'hi', t.`odd name` = [1, 2], t.day = date('2026-01-31'),"
        " t.where = $p, t.seen = datetime('2026-01-31T12:00:00+02:00'), t.local = localdatetime('2026-01-31T12:00'),"
        " t.raw = $raw, t.none = $nan, t.days = [date('2026-01-31')]",
        p=WGS84Point((1.0, 2.0)), raw=b"\x00\x01", nan=float("nan"),
    )  # fmt: skip
    extra = dict(graph.store.get(SENDER, "a").extra)
    assert extra.pop("own", "") is None
    assert extra.pop("where") == "WGS84Point(1.0, 2.0)"
    assert isinstance(extra.pop("raw"), str)
    assert extra == {
        "note": "hi", "odd name": [1, 2], "day": "2026-01-31", "seen": "2026-01-31T10:00:00Z",
        "local": "2026-01-31T12:00:00.000000000", "none": "nan", "days": ["2026-01-31"],
    }  # fmt: skip
    graph.store.amend(SENDER, "a", Edit(extra={"note": "ho"}), BY)
    assert graph.store.get(SENDER, "a").extra == {"note": "ho"}
    assert not graph.node("Task").keys() & {"where", "raw", "odd name", "day", "seen"}


def test_extra_field_that_changes_its_type_is_written(graph: Graph) -> None:
    graph.store.add(SENDER, [Draft("A", "a", extra={"n": 1, "list": [1], "m": 1})], [], BY)
    graph.store.amend(SENDER, "a", Edit(extra={"n": 1.0, "list": [True], "m": 2}), BY)
    assert repr(sorted(graph.store.get(SENDER, "a").extra.items())) == "[('list', [True]), ('m', 2), ('n', 1.0)]"


def test_long_text_under_an_indexed_name_is_kept(graph: Graph) -> None:
    extra = {"window_expires_at": "x" * 20_000}
    graph.store.add(SENDER, [Draft("A", "a", extra=extra)], [], BY)
    assert graph.store.get(SENDER, "a").extra == extra


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["status", "desk", "place", "embedding", "extra", "window_expires_at", "", "a\0b", "`", "{", "x" * 300]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(
        [2**63, 2**63 - 1, -(2**63), -0.0, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.1Z", "0001-01-01T00:00:00Z"]
    )
)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Graph]:
    made = Graph()
    yield made
    made.store.close()


@given(before=st.lists(st.dictionaries(NAMES, ANYTHING, max_size=5), min_size=25, max_size=25))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_field_of_a_task_survives_the_graph(shared: Graph, before: list[dict[str, Json]]) -> None:
    """With types, and again after each task was changed to its neighbour's values."""
    desk = fresh_desk()
    with Neo4jStore(shared_url(), desk=desk, clock=shared.clock) as store:
        store.add(SENDER, [Draft("T", f"t{at:02}", extra=each) for at, each in enumerate(before)], [], BY)
        assert [_exact(task.extra) for task in store.find(Query())] == [_exact(each) for each in before]
        for at, each in enumerate(before[5:10]):
            store.amend(SENDER, f"t{at:02}", Edit(extra=each), BY)
        read = [store.get(SENDER, f"t{at:02}").extra for at in range(5)]
        assert [dict(each) for each in read] == before[5:10]


def _exact(value: Json) -> str:
    """1, 1.0 and true are equal, but not the same."""
    if isinstance(value, dict):
        return str(sorted((name, _exact(each)) for name, each in value.items()))
    return str([_exact(each) for each in value]) if isinstance(value, list) else repr(value)
