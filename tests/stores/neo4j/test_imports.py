"""Imports in batches: readers see all of a file or nothing, and a broken import is resumed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.task import Actor, Link, LinkKind, Status, Task
from dibs.stores.neo4j import bulk
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery
from dibs.stores.reports import Record
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

BY = Actor("mover")
NUMBER = 40


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Neo4jStore]:
    monkeypatch.setattr(bulk, "BATCH", 7)
    with Neo4jStore(shared_url(), desk=fresh_desk()) as opened:
        yield opened


def records(now: datetime, number: int = NUMBER) -> list[Record]:
    tasks = [
        Record("s", Task("s", f"t{at:02}", f"Task {at}", now, now, now, parent="t00" if at % 5 == 1 else None))
        for at in range(number)
    ]
    links = [Record("s", Link(f"t{at:02}", f"t{at - 2:02}", LinkKind.BLOCKS)) for at in range(2, number) if at % 5 != 2]
    run = {"id": "run-1", "status": "success"}
    events = [Record("s", Event(now, "s", f"t{at:02}", "add", target=Status.READY)) for at in range(number)]
    events.insert(3, Record("s", Event(now, "s", "t03", "sync_change", detail={"id": "c", "sync_event_id": "run-1"})))
    return [*tasks, *links, *events, Record("s", Event(now, "s", "", "sync", detail=run))]


class Killed(BaseException):
    """The process is gone."""


def killed_after(number: int) -> Any:
    done = 0

    def progress(more: int) -> None:
        nonlocal done
        done += more
        if done >= number:
            raise Killed

    return progress


def quiet(_more: int) -> None:
    return


def asked(store: Neo4jStore, query: str) -> Any:
    desk = store._database.target.desk
    return admin().execute_query(query, desk=desk).records[0][0]


def staged(store: Neo4jStore) -> int:
    """Nodes that readers do not see."""
    return int(
        asked(
            store,
            "MATCH (n) WHERE n.desk STARTS WITH $desk + '/' OR (n.desk = $desk AND n:Discarded|Import) RETURN count(n)",
        )
    )


def everything(store: Neo4jStore) -> list[Record]:
    return [
        record._replace(item=record.item._replace(seq=0)) if isinstance(record.item, Event) else record
        for record in store.dump()
    ]


def expected(now: datetime) -> list[Any]:
    with Neo4jStore(shared_url(), desk=fresh_desk()) as other:
        other.restore(records(now), BY, quiet)
        return [record.item for record in everything(other) if not isinstance(record.item, Event)]


@pytest.mark.parametrize("after", [1, NUMBER, 2 * NUMBER, 100])
def test_broken_import_is_hidden_and_resumed(store: Neo4jStore, after: int) -> None:
    now = store.now()
    with pytest.raises(Killed):
        store.restore(records(now), BY, killed_after(after))
    before = staged(store)
    assert before > 1
    assert (everything(store), store.scopes(), store.counts(None).claimable) == ([], [], 0)
    assert asked(store, "MATCH (t:Task|TaskDispatch|SyncEvent) WHERE t.desk STARTS WITH $desk RETURN count(t)") == 0

    seen: list[int] = []
    assert store.restore(records(now), BY, seen.append) == NUMBER

    assert sum(seen) == len(records(now))
    assert staged(store) == 0
    assert [record.item for record in everything(store) if not isinstance(record.item, Event)] == expected(now)
    verbs = [event.verb for event in store.events(EventQuery("s"))]
    assert verbs == [*["add"] * 3, "sync_change", *["add"] * (NUMBER - 3), "sync", "import"]
    assert asked(store, "MATCH (s:SyncEvent {desk: $desk})-[:CONTAINS_CHANGE]->(c:SyncChange) RETURN count(c)") == 1
    assert store.check(fix=False) == []


@pytest.mark.parametrize("replace", [False, True])
def test_import_broken_after_publishing_gets_its_history_once(
    store: Neo4jStore, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    now = store.now()
    if replace:
        store.restore(records(now, 3), BY, quiet)
    act = store.replace if replace else store.restore
    with monkeypatch.context() as patched:
        patched.setattr(bulk, "_publish_events", killed_after(0))
        with pytest.raises((Killed, TypeError)):
            act(records(now), BY, quiet)
    assert store.counts("s").by_status[Status.READY] == NUMBER

    assert act(records(now), BY, quiet) == NUMBER

    assert [event.verb for event in store.events(EventQuery("s"))].count("add") == NUMBER
    assert staged(store) == 0
    assert store.check(fix=False) == []
    if not replace:
        with pytest.raises(AlreadyExists):
            store.restore(records(now), BY, quiet)


@pytest.mark.parametrize("replace", [False, True])
def test_concurrent_reader_sees_all_or_nothing(store: Neo4jStore, replace: bool) -> None:
    now, number = store.now(), 3 if replace else 0
    if replace:
        store.restore(records(now, 3), BY, quiet)
    seen, over = set(), threading.Event()

    def look() -> None:
        with Neo4jStore(shared_url(), desk=store._database.target.desk) as reader:
            while not over.is_set():
                graph = reader.graph("s", finished=True)
                seen.add((len(graph.tasks), len(graph.links)))

    thread = threading.Thread(target=look)
    thread.start()
    (store.replace if replace else store.restore)(records(now), BY, quiet)
    over.set()
    thread.join()
    links = sum(isinstance(record.item, Link) for record in records(now))
    assert seen <= {(number, 0), (NUMBER, links)}


def test_refused_file_leaves_no_node(store: Neo4jStore) -> None:
    now = store.now()
    bad = Record("s", Task("s", "bad", "Bad", now, now, now, status=Status.DONE))  # done, and never finished
    with pytest.raises(InvalidInput, match="not be sound"):
        store.restore([*records(now), bad], BY, quiet)
    assert staged(store) == 0
    assert everything(store) == []


def test_id_taken_during_the_import_refuses_the_file(store: Neo4jStore) -> None:
    now = store.now()
    with pytest.raises(Killed):
        store.restore(records(now), BY, killed_after(NUMBER))

    def take(_more: int) -> None:
        if not store.scopes():
            with Neo4jStore(shared_url(), desk=store._database.target.desk) as other:
                other.restore([record for record in records(now, 1) if isinstance(record.item, Task)], BY, quiet)

    with pytest.raises(AlreadyExists, match="t00"):
        store.restore(records(now), BY, take)
    assert staged(store) == 0
    assert store.counts("s").by_status[Status.READY] == 1


def test_abandoned_import_is_dropped_by_the_next_one(store: Neo4jStore) -> None:
    now = store.now()
    with pytest.raises(Killed):
        store.restore(records(now), BY, killed_after(NUMBER))
    store.restore(records(now, 2), BY, quiet)
    assert staged(store) > 1  # it may be at work
    asked(store, "MATCH (i:Import {desk: $desk}) SET i.touched_at = i.touched_at - duration('PT2H') RETURN 1")
    store.restore([Record("other", Task("other", "a", "A", now, now, now))], BY, quiet)
    assert staged(store) == 0
