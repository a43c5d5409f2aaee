"""A store as a worker far away sees it, through a network that a test can break; and the same store from nearby."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg2

from dibs.lab.torture.proxies import PostgresProxy
from dibs.stores.postgres.store import PostgresStore
from support.postgres_schemas import ServerClock, fresh_schema
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class with a lower-case name

Value = TypeVar("Value")

TIMEOUT = 1  # seconds after which a store that is to give up soon does so
PATIENT = 30  # seconds for all other stores: a busy machine must not look like a broken network
PATIENCE = 120.0  # seconds after which a test gives up; a store that keeps its timeout never gets there


class Far:
    """One store with a stopped clock: `far` connects through the proxy, `near` directly."""

    def __init__(self, timeout: int = PATIENT) -> None:
        self._timeout = timeout
        self.clock = ServerClock()
        self.schema = fresh_schema(self.clock)
        self.proxy = PostgresProxy(shared_url())
        self.near = PostgresStore(shared_url(), schema=self.schema)
        self.far = self.open()

    def open(self, **options: object) -> PostgresStore:
        """Open a store over the proxy. Its sessions are named after its schema, which is unique."""
        named = {"timeout": self._timeout, "application_name": self.schema}
        return PostgresStore(self.proxy.url(**named | options), schema=self.schema)

    def admin(self) -> closing[Connection]:
        """An administrator's connection, without dibs."""
        return closing(psycopg2.connect(shared_url(), options=f"-c search_path={self.schema}"))

    def sessions(self) -> list[tuple[Any, ...]]:
        """The far store's sessions that are doing something, or wait: process, kind of wait, statement."""
        with self.admin() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, wait_event_type, query FROM pg_stat_activity"
                " WHERE split_part(application_name, ' ', 1) = %s AND state <> 'idle'",
                (self.schema,),
            )
            return cursor.fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy.close()  # first, for a store that hangs cannot be closed
        self.far.close()
        try:
            if kind is None:
                assert self.near.check(fix=False) == []
        finally:
            self.near.close()


def notice_silence_soon(store: PostgresStore) -> None:
    """Give up on an answer after TIMEOUT. The timeout for reconnecting stays long."""
    store._database._watchdog._seconds = TIMEOUT


@contextmanager
def hurried(store: PostgresStore) -> Iterator[None]:
    """Let a connected store give up after TIMEOUT."""
    database = store._database
    usual, seconds = database.target, database._watchdog._seconds
    soon = {**usual.parameters, "connect_timeout": "2"}  # libpq waits no less
    database.target = usual._replace(timeout=float(TIMEOUT), parameters=soon)
    notice_silence_soon(store)
    try:
        yield
    finally:
        database.target, database._watchdog._seconds = usual, seconds


def be_patient(store: PostgresStore) -> None:
    """Give this store a long timeout for reconnecting, instead of its URL's timeout."""
    store._database.target = store._database.target._replace(timeout=PATIENT)


class Call(threading.Thread):
    """A verb in a separate thread, so that a hanging verb does not hang the test."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self._value: object = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._ask()
        except BaseException as error:  # noqa: BLE001 - raised again where it is asked for
            self._error = error

    def result(self, patience: float = PATIENCE) -> Any:
        self.join(patience)
        assert not self.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error
        return self._value


def in_time(ask: Callable[[], Value]) -> Value:
    """The verb's result; fails if it hangs."""
    value: Value = Call(ask).result()
    return value


def until(true: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never comes to that"
        time.sleep(0.01)
