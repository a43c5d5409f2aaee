"""A process that opened one store never writes to another that has taken its place in the database."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from dibs.core.errors import LostLock, StoreError, StoreReplaced
from dibs.core.lifecycle import Verb
from dibs.stores.port import EventQuery, Query
from dibs.stores.postgres.store import PostgresStore
from dibs.testing.conformance.builders import MAKER, SCOPE, add, blocks, draft, hold, move, quiet, request
from support.pgbouncer import Pooler
from support.postgres_server import Server, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

Made = dict[str, str]


@pytest.fixture
def schema(admin: Cursor) -> Iterator[str]:
    name = f"dibs_identity_{os.getpid()}"
    yield name
    for each in (name, f"{name}_away"):
        admin.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {each} CASCADE")


def made(schema: str, *ids: str) -> None:
    with PostgresStore(shared_url(), schema=schema, create=True) as store:
        add(store, *map(draft, ids))


def drop(admin: Cursor, schema: str) -> None:
    admin.execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")


def drop_and_make_again(admin: Cursor, schema: str) -> None:
    drop(admin, schema)
    made(schema, "a", "b", "c", "d")


def rename_and_make_again(admin: Cursor, schema: str) -> None:
    admin.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
    made(schema, "a", "b", "c", "d")


def refuses(store: PostgresStore, token: str) -> None:
    """Every kind of statement: prepared calls, transactions that write or read, and questions by themselves."""
    asks: list[Callable[[], object]] = [
        lambda: store.claim(request("ann")),
        lambda: store.claim(request("ann", "c")),
        lambda: move(store, Verb.RENEW, "a", token, lease=request("ann").lease),
        lambda: move(store, Verb.DONE, "a", token),
        lambda: move(store, Verb.DONE, "a", token, then=request("ann")),
        lambda: add(store, "late"),
        lambda: store.link(SCOPE, [blocks("c", "d")], MAKER),
        lambda: store.get(SCOPE, "a"),
        lambda: store.find(Query(SCOPE)),
        lambda: store.events(EventQuery()),
        lambda: store.counts(SCOPE),
        lambda: store.wait(0),
        lambda: list(store.dump()),
        lambda: store.check(fix=False),
        lambda: store.replace([], MAKER, quiet),
        store.describe,
        store.now,
    ]
    for ask in asks:
        with pytest.raises(StoreReplaced):
            ask()


@pytest.mark.parametrize("happens", [drop, drop_and_make_again, rename_and_make_again])
@pytest.mark.parametrize("worked", [True, False], ids=["after work", "after a look"])
def test_schema_that_is_gone_or_another_is_refused(
    happens: Callable[[Cursor, str], None], worked: bool, schema: str, admin: Cursor
) -> None:
    made(schema, "a", "b", "c", "d")
    with PostgresStore(shared_url(), schema=schema) as store:
        token = "unknown"  # noqa: S105 - no task has it
        store.counts(SCOPE)
        if worked:  # all hot statements are prepared, and keep their plans
            token = hold(store, "a")
            move(store, Verb.RENEW, "a", token, lease=request("ann").lease)
            move(store, Verb.DONE, "b", hold(store, "b"), then=request("ann"))
        happens(admin, schema)
        refuses(store, token)
        store._database._connection.close()  # and after it has connected again
        refuses(store, token)
    if happens is not drop:
        with PostgresStore(shared_url(), schema=schema) as new:
            assert {task.status for task in new.find(Query(SCOPE))} == {"ready"}, "nothing was written to the new store"


def test_database_that_was_dropped_and_made_again_is_refused() -> None:
    server = Server()
    try:
        server.ask("CREATE DATABASE work")
        url = f"{server.url}&timeout=120".replace("/postgres?", "/work?")
        with PostgresStore(url, create=True) as store:
            add(store, "a", "b", "c", "d")
            token = hold(store, "a")
            server.ask("DROP DATABASE work WITH (FORCE)")
            server.ask("CREATE DATABASE work")
            with pytest.raises(StoreReplaced, match="gone"):
                store.claim(request("ann"))
            with PostgresStore(url, create=True) as new:
                add(new, "a", "b", "c", "d")
            refuses(store, token)
    finally:
        server.remove()


def test_pooled_store_is_recognised_in_every_transaction(schema: str, admin: Cursor) -> None:
    made(schema, "a", "b", "c", "d")
    pooler = Pooler(shared_url(), "transaction", size=1)
    try:
        with PostgresStore(f"{pooler.url}&schema={schema}") as store:
            token = hold(store, "a")
            assert store._database.pooled
            drop_and_make_again(admin, schema)
            refuses(store, token)
    finally:
        pooler.remove()


def test_check_is_in_no_plan_of_a_hot_statement(schema: str) -> None:
    made(schema, "a")
    with PostgresStore(shared_url(), schema=schema) as store:
        store.claim(request("ann"))
        plan = store._database.run(
            "EXPLAIN (VERBOSE) EXECUTE claim_head ('s', 'ann', NULL, '{t}', '1 minute', '{}')"
        ).fetchall()
        assert not any(f"store_{store.describe()['id']}" in row[0] for row in plan)


def test_store_without_an_id_is_refused_and_unchanged(schema: str, admin: Cursor) -> None:
    made(schema, "a")
    admin.execute(f"SET search_path = {schema}; SELECT id FROM store")
    ((before,),) = admin.fetchall()
    admin.execute(f"DROP FUNCTION store_{before}(); DROP FUNCTION recognised(text, text); DROP TABLE store")
    admin.execute("UPDATE schema_version SET version = 6; RESET search_path")
    with PostgresStore(shared_url(), schema=schema) as store, pytest.raises(StoreError, match="import the file"):
        hold(store, "a")
    admin.execute(f"SELECT id, status FROM {schema}.task")
    assert admin.fetchall() == [("a", "ready")]


def test_restore_waits_for_writers_and_refuses_their_tokens_afterwards(schema: str) -> None:
    """Restore waits for open transactions, so the new content contains none of their writes."""
    made(schema, "a", "b")
    with PostgresStore(shared_url(), schema=schema) as store, PostgresStore(shared_url(), schema=schema) as other:
        whole = list(store.dump())
        token = hold(store, "a")
        with closing(psycopg2.connect(shared_url())) as writer, writer.cursor() as cursor:
            cursor.execute(f"SET search_path = {schema}; SELECT FROM store; UPDATE task SET retries = 7 WHERE id = 'b'")
            with (
                pytest.raises(Exception, match="busy"),
                PostgresStore(f"{shared_url()}&timeout=1&connect_timeout=30", schema=schema) as hasty,
            ):
                hasty.replace(whole, MAKER, quiet)
            assert [task.id for task in other.find(Query(SCOPE))] == ["a", "b"], "readers go on meanwhile"
            writer.rollback()
        other.replace(whole, MAKER, quiet)
        with pytest.raises(LostLock):
            move(store, Verb.DONE, "a", token)
        assert store.check(fix=False) == []
