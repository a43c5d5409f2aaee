"""How the server goes about the store's queries: by an index, and for a claim without sorting."""

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


_TRUTHS = {"bounded", "late_ok", "closes", "fails", "signs", "renews"}


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
    """Those that go through all nodes of a kind, or through all links of a kind, by their index."""
    return [
        step for step in steps if re.match(r"(NodeByLabelScan|AllNodesScan|\w*TypeScan|\w*RelationshipIndex)", step)
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_looks_through_all_nodes_of_a_kind(name: str) -> None:
    """Several desks, and other people's nodes, share a database."""
    assert not wide(steps_of(name))


@pytest.mark.xdist_group("neo4j-server")
def test_nor_one_that_was_planned_when_there_was_nothing_yet() -> None:
    """A plan is kept for a while, those of the plain claims and finishes for good; and a store grows fast."""
    server = own_server()
    Neo4jStore(url_of(server), create=True).close()
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
        assert {name: found for name in QUERIES if (found := wide(_planned(driver, name)))} == {}


def test_a_claim_takes_the_first_of_the_queue_without_sorting() -> None:
    """The plain one has the same in a part of its own, which no plan shows."""
    steps = steps_of("claim_head")
    assert not [step for step in steps if re.match(r"(Sort|Top|PartialTop|Union)", step)]
    assert any("t:Task(desk, sender_hash, place)" in step for step in steps)


@pytest.mark.parametrize("name", ["events", "newest_events", "events_of_task", "newest_events_of_task"])
def test_events_come_in_the_order_of_their_index(name: str) -> None:
    assert not [step for step in steps_of(name) if re.match(r"(Sort|Top|PartialTop)", step)]
