"""The store behind PgBouncer, in both of its modes: no session state is relied on, and none is left behind."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar, get_args
from urllib.parse import quote

import psycopg2
import pytest

from dibs.core.errors import InvalidInput, LostLock, Misconfigured, StoreError, StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.port import EventQuery, Query
from dibs.stores.postgres.connection import target_of
from dibs.stores.postgres.store import PostgresStore
from dibs.testing.conformance.builders import SCOPE, add, blocks, draft, move, request
from support.pgbouncer import Mode, Pooler
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

Value = TypeVar("Value")
Mode_ = pytest.mark.parametrize("mode", get_args(Mode))
SETTINGS = ["search_path", "enable_seqscan", "jit", "lock_timeout", "plan_cache_mode", "TimeZone"]
TASKS, WORKERS = (2000, 8) if os.environ.get("DIBS_TORTURE") else (120, 4)


@pytest.fixture
def pooler(mode: Mode) -> Iterator[Pooler]:
    """As few sessions of the server as will do: whatever one client leaves behind, the next one meets."""
    made = Pooler(shared_url(), mode, size=1 if mode == "transaction" else 2)
    yield made
    made.remove()


@pytest.fixture
def schemas(admin: Cursor) -> Iterator[list[str]]:
    names = [f"dibs_pool_{os.getpid()}_{name}" for name in ("a", "b")]
    yield names
    for name in names:
        admin.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE")


def opened(pooler: Pooler, schema: str, *, create: bool = False) -> PostgresStore:
    return PostgresStore(f"{pooler.url}&schema={schema}", create=create)


@Mode_
def test_two_schemas_of_one_pool_never_mix(pooler: Pooler, schemas: list[str], admin: Cursor) -> None:
    stores = [opened(pooler, schema, create=True) for schema in schemas]
    for turn in range(3):
        for name, store in zip("ab", stores, strict=True):
            add(store, f"{name}{turn}", f"{name}{turn}-after", links=[blocks(f"{name}{turn}-after", f"{name}{turn}")])
            (claimed,) = store.claim(request("ann"))
            assert claimed.task.id.startswith(name)
            token = claimed.task.lease.token if claimed.task.lease else ""
            move(store, Verb.RENEW, claimed.task.id, token, lease=request("ann").lease)
            moved = move(store, Verb.DONE, claimed.task.id, token, then=request("ann"))
            assert [one.task.id[0] for one in moved.next] == [name]
            assert store.graph(SCOPE, finished=True).tasks  # planned freely
            assert store.check(fix=False) == []
    for name, store in zip("ab", stores, strict=True):
        assert store._database.pooled
        assert {task.id[0] for task in store.find(Query())} == {name}
        assert {event.task[0] for event in store.events(EventQuery())} == {name}
        store.close()
    admin.execute("SELECT count(*) FROM pg_class WHERE relname = 'task' AND relnamespace = 'public'::regnamespace")
    assert admin.fetchall() == [(0,)]


@Mode_
def test_other_clients_of_the_pool_keep_their_settings(pooler: Pooler, schemas: list[str]) -> None:
    with opened(pooler, schemas[0], create=True) as store:
        add(store, "a")
        store.check(fix=False)
        store.claim(request("ann"))
        store.wait(0)
    found = []
    for url in (pooler.url, shared_url()):
        connection = psycopg2.connect(url)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s) ORDER BY name", (SETTINGS,))
            found.append(cursor.fetchall())
            cursor.execute("SELECT count(*) FROM pg_prepared_statements")
            assert cursor.fetchall() == [(0,)]
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            assert cursor.fetchall() == [(0,)]
        connection.close()
    assert found[0] == found[1]


@Mode_
def test_listener_finds_work_by_looking(pooler: Pooler, schemas: list[str]) -> None:
    with opened(pooler, schemas[0], create=True) as waiting, opened(pooler, schemas[0]) as other:
        waiting.wait(0)
        later = threading.Timer(0.3, add, (other, "a"))
        later.start()
        begun = time.monotonic()
        assert waiting.wait(120)
        assert time.monotonic() - begun < 100
        later.join()


@Mode_
def test_direct_listener_is_woken_by_writers_behind_the_pooler(
    pooler: Pooler, schemas: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{pooler.url}&schema={schemas[0]}"
    with (
        PostgresStore(f"{url}&listen={quote(shared_url(), safe='')}", create=True) as waiting,
        PostgresStore(url) as other,
    ):
        waiting.wait(0)
        monkeypatch.setattr("dibs.stores.postgres.listener._LOOK", 300.0)
        for name in ("a", "b"):
            later = threading.Timer(0.3, add, (other, name))
            later.start()
            begun = time.monotonic()
            assert waiting.wait(120)
            assert time.monotonic() - begun < 100
            later.join()


def test_listen_address_of_a_pooler_is_refused(schemas: list[str]) -> None:
    pooler = Pooler(shared_url(), "transaction", size=4)
    try:
        url = f"{pooler.url}&schema={schemas[0]}"
        with (
            PostgresStore(f"{url}&listen={quote(pooler.url, safe='')}", create=True) as waiting,
            pytest.raises(Misconfigured, match="leads to a connection pooler"),
        ):
            waiting.wait(0)
    finally:
        pooler.remove()


@pytest.mark.parametrize("listen", ["db:5432", "sqlite:///x.db", "postgresql://h/d?listen=postgresql%3A%2F%2Fh%2Fd"])
def test_listen_must_be_the_url_of_a_server(listen: str) -> None:
    with pytest.raises(InvalidInput, match="listen="):
        target_of(f"postgresql://h/d?listen={quote(listen, safe='')}")


def test_password_in_the_listen_url_is_never_shown() -> None:
    target = target_of(f"postgresql://u:geheim@pool/d?listen={quote('postgresql://u:geheim@h/d', safe='')}&schema=a")
    assert "geheim" not in repr(target) + target.place + target.direct.place
    assert (target.direct.parameters["host"], target.direct.schema) == ("h", "a")


def test_session_with_another_isolation_is_refused(schemas: list[str]) -> None:
    PostgresStore(shared_url(), schema=schemas[0], create=True).close()
    pooler = Pooler(
        shared_url(), "transaction", more="connect_query='SET default_transaction_isolation = serializable'"
    )
    try:
        with opened(pooler, schemas[0]) as store, pytest.raises(StoreUnavailable, match="not read committed"):
            store.claim(request("ann"))
    finally:
        pooler.remove()


@Mode_
def test_storm_with_restarts_of_the_pooler_loses_nothing(mode: Mode, schemas: list[str]) -> None:
    """Workers claim, finish and go on, one by one and in batches, while the pooler is killed again and again."""
    pooler = Pooler(shared_url(), mode, size=WORKERS)
    try:
        with opened(pooler, schemas[0], create=True) as store:
            ids = [f"t{number:04}" for number in range(TASKS)]
            add(store, *map(draft, ids), links=[blocks(ids[n], ids[n - 3]) for n in range(4, TASKS, 4)])
        crew = [Worker(f"w{number}", pooler, schemas[0]) for number in range(WORKERS)]
        for worker in crew:
            worker.start()
        restarts = 0
        while any(worker.is_alive() for worker in crew):
            time.sleep(0.15)
            if restarts < 6 or os.environ.get("DIBS_TORTURE"):
                pooler.stop()
                pooler.start()
                restarts += 1
        assert restarts > 1
        for worker in crew:
            worker.join()
            assert worker.failure is None, worker.failure
    finally:
        pooler.remove()
    with PostgresStore(shared_url(), schema=schemas[0]) as store:
        assert store.check(fix=False) == []
        assert {task.status for task in store.find(Query(SCOPE))} == {Status.DONE}
        done = Counter(event.task for event in store.events(EventQuery(SCOPE)) if event.verb == "done")
        assert done == Counter(ids)
        believed = Counter(task for worker in crew for task in worker.finished)
        assert believed == done


class Worker(threading.Thread):
    """Claims and finishes until no task is left, and records what it finished."""

    def __init__(self, name: str, pooler: Pooler, schema: str) -> None:
        super().__init__(name=name, daemon=True)
        self._open: Callable[[], PostgresStore] = lambda: opened(pooler, schema)
        self.finished: list[str] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error

    def _work(self) -> None:
        store = self._until_reached(self._open)
        empty = 0
        while empty < 3:  # a finish by another worker may unblock more
            size = 1 + len(self.finished) % 3
            asked = request(self.name, count=size)
            claimed = self._until_reached(partial(store.claim, asked))
            empty = 0 if claimed else empty + 1
            if not claimed:
                time.sleep(0.2)
                empty = 0 if self._until_reached(lambda: store.counts(SCOPE).by_status[Status.READY]) else empty
            for one in claimed:
                token = one.task.lease.token if one.task.lease else ""
                self._until_reached(partial(move, store, Verb.DONE, one.task.id, token))
                self.finished.append(one.task.id)
        store.close()

    @staticmethod
    def _until_reached(act: Callable[[], Value]) -> Value:
        """The pooler may be away for longer than the store's own patience."""
        for _ in range(600):
            try:
                return act()
            except LostLock:
                raise
            except StoreError:
                time.sleep(0.1)
        raise TimeoutError
