"""The hot path goes through its indexes: no query of a claim, a move or a link looks through a whole table."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import CycleDetected
from dibs.core.task import Actor, Draft, Link, Status, order_key
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.stores.sqlite.database import QUERIES
from dibs.stores.sqlite.store import SqliteStore
from interleave import acts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BEYOND = "(class_rank,override_rank,priority,queued_at,id)>(?,?,?,?,?)"

# query → what its plan must name, table by table
HOT: dict[str, tuple[str, ...]] = {
    "task_by_id": ("task USING INDEX sqlite_autoindex_task_1 (scope=? AND id=?)",),
    "task_to_move": (
        "task USING INDEX sqlite_autoindex_task_1 (scope=? AND id=?)",
        "child USING INDEX task_parent (scope=? AND parent=?)",
        "link USING COVERING INDEX link_on (on_task=? AND kind=?)",
    ),
    "task_by_key": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "key_of": ("task USING COVERING INDEX sqlite_autoindex_task_1 (scope=? AND id=?)",),
    "status_of": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "ids_by_prefix": ("task USING COVERING INDEX sqlite_autoindex_task_1 (scope=? AND id>? AND id<?)",),
    "ids_of": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "anything_due": ("task USING COVERING INDEX task_queue (opens_at<?)",),
    "due_without_retry": ("task USING INDEX task_queue (opens_at<?)",),
    "wake": ("task USING COVERING INDEX task_queue (opens_at<?)",),
    "due_head": ("task USING INDEX task_queue (opens_at<?)",),
    "claim_head": ("task USING INDEX task_queue (opens_at=? AND scope=?)", "link USING PRIMARY KEY (task=?)"),
    "find_open": (f"task USING INDEX task_queue (opens_at=? AND scope=? AND {_BEYOND})",),
    "find_aside": (f"task USING INDEX task_aside (aside=? AND scope=? AND {_BEYOND})",),
    "find_timed": ("task USING INDEX task_queue (opens_at<?)",),
    "find_by_index": (
        "task USING COVERING INDEX task_parent (scope=? AND parent=?)",
        "task USING COVERING INDEX task_spec (scope=? AND spec_ref=?)",
        "task USING COVERING INDEX task_assigned (assigned_to=? AND status=?)",
        "task USING INTEGER PRIMARY KEY (rowid=?)",
    ),
    "find_in_order": (f"task USING INDEX task_order (scope=? AND {_BEYOND})",),
    "tallies": ("tally USING PRIMARY KEY (scope=?)",),
    "count_woken": ("task USING INDEX task_aside (aside=? AND scope=?)",),
    "count_timed": ("task USING INDEX task_queue (opens_at<?)",),
    "write_move": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "write_edit": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "requeue": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "gate": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "ungate": ("task USING INTEGER PRIMARY KEY (rowid=?)",),
    "release_dependents": (
        "task USING INTEGER PRIMARY KEY (rowid=?)",
        "link USING COVERING INDEX link_on (on_task=? AND kind=?)",
    ),
    "gate_dependents": (
        "task USING INTEGER PRIMARY KEY (rowid=?)",
        "link USING COVERING INDEX link_on (on_task=? AND kind=?)",
    ),
    "gated_dependents": (
        "task USING INTEGER PRIMARY KEY (rowid=?)",
        "link USING COVERING INDEX link_on (on_task=? AND kind=?)",
    ),
    "inputs": ("link USING PRIMARY KEY (task=?)", "before USING INTEGER PRIMARY KEY (rowid=?)"),
    "open_children": ("task USING INDEX task_parent (scope=? AND parent=?)",),
    "link_between": ("link USING PRIMARY KEY (task=? AND on_task=?)",),
    "drop_link": ("link USING PRIMARY KEY (task=? AND on_task=?)",),
    "links_of": ("link USING PRIMARY KEY (task=?)", "link USING INDEX link_on (on_task=?)"),
    "step_before": (
        "link USING PRIMARY KEY (task=?)",
        "parent USING INTEGER PRIMARY KEY (rowid=?)",
        "child USING COVERING INDEX task_parent (scope=? AND parent=?)",
    ),
    "step_after": (
        "link USING COVERING INDEX link_on (on_task=?)",
        "child USING INTEGER PRIMARY KEY (rowid=?)",
        "parent USING COVERING INDEX sqlite_autoindex_task_1 (scope=? AND id=?)",
    ),
}

_VIRTUAL = re.compile(r"SCAN \w+ VIRTUAL TABLE")
_NAMED_IN_QUERY = re.compile(r"\b(\w+) (?:\([^)]*\) )?AS \(\s*SELECT")


class Anything(dict[str, object]):
    """A value for whatever a query asks for."""

    def __missing__(self, name: str) -> object:
        return None


def parameters(query: str) -> Anything | list[None]:
    if re.search(r"(?<!:):\w", query):
        return Anything()
    numbered = re.findall(r"\?(\d+)", query)
    return [None] * (max(map(int, numbered)) if numbered else query.count("?"))


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    query = QUERIES[name]
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", parameters(query))]


def open_desk(path: str) -> Desk:
    return Desk(SqliteStore(path, create=True, durable=False), scope="s", by=Actor("tester"))


def connection_of(desk: Desk) -> sqlite3.Connection:
    connection: sqlite3.Connection = desk._store._database._connection  # type: ignore[attr-defined]
    return connection


def fill(desk: Desk, size: int) -> None:
    """Chains of five, some held, some finished: no index is empty, and none is all there is."""
    ids = [f"t{number:06}" for number in range(size)]
    drafts = [Draft(f"Task {each}", each, priority=number % 7) for number, each in enumerate(ids)]
    links = [Link(after, before) for number, (before, after) in enumerate(pairwise(ids)) if number % 5]
    desk.add(drafts, links)
    for number in range(10):
        task = desk.claim("ann")[0].task
        if number % 2 and task.lease is not None:
            acts.finish(desk, task.id, task.lease.token)


@pytest.fixture(params=["fresh", "analyzed"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """As it comes, and after someone ran ANALYZE on it: what SQLite then knows of the data must not lead it astray."""
    with open_desk(str(tmp_path / "dibs.db")) as desk:
        if request.param == "analyzed":
            fill(desk, 500)
            connection_of(desk).execute("ANALYZE")
        yield connection_of(desk)


@pytest.mark.parametrize("name", HOT)
def test_hot_query_uses_its_index(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, name)
    own = {f"SCAN {step}" for step in _NAMED_IN_QUERY.findall(QUERIES[name])}
    assert [step for step in steps if step.startswith("SCAN") and not _VIRTUAL.match(step) and step not in own] == []
    for wanted in HOT[name]:
        assert f"SEARCH {wanted}" in steps, steps


@pytest.mark.parametrize("name", ["claim_head", "find_open", "find_aside", "find_in_order"])
def test_claim_and_page_queries_need_no_sort(connection: sqlite3.Connection, name: str) -> None:
    assert not any("TEMP B-TREE" in step for step in plan(connection, name))


def test_every_query_can_be_planned(connection: sqlite3.Connection) -> None:
    for name in QUERIES.all():
        plan(connection, name)


# What a plan promises, counted: steps of SQLite's machine for the same work in a small and in a large store.


def steps_of(desk: Desk, act: Callable[[Desk], object]) -> int:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection_of(desk).set_progress_handler(count, 1)
    try:
        act(desk)
    finally:
        connection_of(desk).set_progress_handler(None, 1)
    return counted


def claim_and_finish(desk: Desk) -> None:
    task = acts.claim(desk, "bob", "u1")[0].task
    acts.renew(desk, task.id, "u1")
    acts.finish(desk, task.id, "u1", then=("bob", "u2"))


def refuse_a_cycle(desk: Desk) -> None:
    with pytest.raises(CycleDetected):
        acts.link(desk, "t000050", "t000060")


NOT_DONE = tuple(status for status in Status if status is not Status.DONE)
WORK: dict[str, Callable[[Desk], object]] = {
    "claim, renew, finish and go on": claim_and_finish,
    "claim by name": lambda desk: acts.claim(desk, "bob", "u3", ids=("t000096",)),
    "link": lambda desk: acts.link(desk, "t000060", "t000050"),
    "refuse a cycle": refuse_a_cycle,
    "add": lambda desk: acts.add_one(desk, "new", on=("t000070",)),
    "peek": lambda desk: desk.ready(limit=5, agent="bob"),
    "a page of all that is not done": lambda desk: desk.find(Query("s", NOT_DONE, limit=20)),
    "a page of all": lambda desk: desk.find(Query("s", limit=20)),
    "counts": lambda desk: desk.counts(),
    "a page further on": lambda desk: desk.find(Query("s", NOT_DONE, limit=20, after=order_key(desk.get("t000030")))),
    "the parts of a task": lambda desk: desk.find(Query("s", parent="t000030")),
}


def test_steps_of_a_query_do_not_grow_with_the_store(tmp_path: Path) -> None:
    with open_desk(str(tmp_path / "small.db")) as small, open_desk(str(tmp_path / "large.db")) as large:
        fill(small, 100)
        fill(large, 4_000)
        for name, act in WORK.items():
            assert steps_of(large, act) <= 1.2 * steps_of(small, act), name
