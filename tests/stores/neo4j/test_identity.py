"""A process that opened one desk never writes to another that has taken its place in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreReplaced
from dibs.core.lifecycle import Verb
from dibs.stores.neo4j.database import NEWEST
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery, Query
from dibs.testing.conformance.builders import MAKER, SCOPE, add, blocks, draft, hold, move, quiet, request
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTENT = "MATCH (n) WHERE (n:Item OR n:Event OR n:Scope) AND n.desk = $desk DETACH DELETE n"
_DESK = "MATCH (d:Desk {name: $desk}) DELETE d"


def delete(desk: str) -> None:
    for statement in (_CONTENT, _DESK):
        admin().execute_query(statement, desk=desk)


def made(desk: str) -> None:
    with Neo4jStore(shared_url(), desk=desk, create=True) as store:
        add(store, *map(draft, "abcd"))


def refuses(store: Neo4jStore, token: str) -> None:
    """Plain statements, writing transactions and reads."""
    asks: list[Callable[[], object]] = [
        lambda: store.claim(request("ann")),
        lambda: store.claim(request("ann", "c")),
        lambda: move(store, Verb.RENEW, "a", token, lease=request("ann").lease),
        lambda: move(store, Verb.DONE, "a", token),
        lambda: move(store, Verb.DONE, "a", token, then=request("ann")),
        lambda: add(store, "late"),
        lambda: store.link(SCOPE, [blocks("c", "d")], MAKER),
        lambda: store.find(Query(SCOPE)),
        lambda: store.events(EventQuery()),
        lambda: store.wait(0),
        lambda: list(store.dump()),
        lambda: store.replace([], MAKER, quiet),
        store.describe,
        store.now,
    ]
    for ask in asks:
        with pytest.raises(StoreReplaced):
            ask()


@pytest.mark.parametrize("again", [True, False], ids=["made again", "gone"])
def test_desk_that_is_gone_or_another_is_refused(again: bool) -> None:
    desk = fresh_desk()
    made(desk)
    with Neo4jStore(shared_url(), desk=desk) as store:
        token = hold(store, "a")
        move(store, Verb.DONE, "b", hold(store, "b"), then=request("ann"))
        delete(desk)
        if again:
            made(desk)
            hold(other := Neo4jStore(shared_url(), desk=desk), "a")
            before = list(other.dump())
        refuses(store, token)
        store._database._start_over()  # and after it has connected again
        refuses(store, token)
        if again:
            assert list(other.dump()) == before
            other.close()
    left, _, _ = admin().execute_query("MATCH (n) WHERE n.desk = $desk RETURN count(n) AS number", desk=desk)
    assert again or left[0]["number"] == 0


def test_token_of_a_plain_move_is_not_tried_in_another_store() -> None:
    """Even if the new desk holds a task with the same token, as after a restore."""
    desk = fresh_desk()
    made(desk)
    with Neo4jStore(shared_url(), desk=desk) as store:
        token = hold(store, "a")
        admin().execute_query("MATCH (d:Desk {name: $desk}) SET d.id = 'another'", desk=desk)
        for verb in (Verb.RENEW, Verb.DONE):
            with pytest.raises(StoreReplaced):
                move(store, verb, "a", token, lease=request("ann").lease)
    with Neo4jStore(shared_url(), desk=desk) as store:
        assert store.get(SCOPE, "a").status == "active"
        assert [event.verb for event in store.events(EventQuery(SCOPE, "a"))] == ["add", "claim"]


def test_desk_from_before_there_were_ids_gets_one() -> None:
    desk = fresh_desk()
    made(desk)
    admin().execute_query(
        "MATCH (d:Desk {name: $desk}) SET d.version = $old REMOVE d.id, d.generation", desk=desk, old=NEWEST - 1
    )
    with Neo4jStore(shared_url(), desk=desk) as store:
        hold(store, "a")
        assert store.describe()["id"]
        assert store.describe()["generation"] == "1"
