"""The server's plans use indexes, and claims need no sort."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import neo4j
import pytest

from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import QUERIES
from support.neo4j import admin, fresh_desk, own_server, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS = {
    "scopes",
    "ids",
    "pairs",
    "links",
    "changes",
    "tasks",
    "events",
    "tokens",
    "specs",
    "can",
    "statuses",
    "vectors",
}
_OTHERS: dict[str, object] = {
    "limit": 1,
    "bite": 1,
    "after": 1,
    "seq": 1,
    "finished": True,
    "values": {},
    "width": 1,
    "vector": [1.0],
    "event": {},
    "only": {},
    "lease": timedelta(minutes=1),
}


_TRUTHS = {"bounded", "late_ok", "closes", "fails", "signs", "renews", "dispatches", "canceled"}


def _sample(name: str) -> object:
    if name in _TRUTHS:
        return True
    return [] if name in _LISTS else _OTHERS.get(name, "x")


def _steps(plan: dict[str, Any]) -> Iterator[str]:
    yield f"{plan['operatorType'].partition('@')[0]} {plan['args'].get('Details', '')}"
    for child in plan.get("children", ()):
        yield from _steps(child)


def steps_of(name: str) -> list[str]:
    fresh_desk()  # the indexes are there
    return _planned(admin(), name)


def _planned(driver: neo4j.Driver, name: str) -> list[str]:
    parameters = {each: _sample(each) for each in re.findall(r"\$(\w+)", QUERIES[name])}
    plan = driver.execute_query(f"EXPLAIN {QUERIES[name]}", parameters).summary.plan
    assert plan is not None
    return list(_steps(plan))


def wide(steps: list[str]) -> list[str]:
    """Steps that scan all nodes of a label, or all links of a type."""
    return [
        step for step in steps if re.match(r"(NodeByLabelScan|AllNodesScan|\w*TypeScan|\w*RelationshipIndex)", step)
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_scans_all_nodes_of_a_label(name: str) -> None:
    """Desks and foreign nodes share a database."""
    assert not wide(steps_of(name))


@pytest.mark.xdist_group("neo4j-server")
def test_no_query_planned_on_an_empty_store_scans() -> None:
    """Plans are kept for a while, those of plain statements forever, while the store grows."""
    server = own_server()
    Neo4jStore(url_of(server), create=True).close()
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
        assert {name: found for name in QUERIES if (found := wide(_planned(driver, name)))} == {}


def test_claim_reads_the_queue_without_sorting() -> None:
    """The plain claim has the same query in a subquery, which plans do not show."""
    steps = steps_of("claim_head")
    assert not [step for step in steps if re.match(r"(Sort|Top|PartialTop|Union)", step)]
    assert any("t:Item(desk, sender_hash, place)" in step for step in steps)


@pytest.mark.parametrize("name", ["events", "newest_events", "events_of_task", "newest_events_of_task"])
def test_events_are_read_in_index_order(name: str) -> None:
    assert not [step for step in steps_of(name) if re.match(r"(Sort|Top|PartialTop)", step)]
