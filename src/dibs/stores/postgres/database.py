"""One connection: its transactions, reconnection after a failure, and dibs errors for the driver's.

Every statement of the store passes through `Database.run`. A transaction is repeated after a deadlock or serialization
failure. After a lost connection it is repeated only if it was not committed: the store reads the transaction's number
at its start, and asks for its outcome over a new connection.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, new_type, register_type

from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.stores.postgres.connection import Watchdog
from dibs.stores.postgres.migration import (
    GAVE_WAY,
    NEWEST,
    NOT_ALLOWED,
    OLDEST,
    first_line,
    id_of,
    migrate,
    no_store,
    not_connected,
    replaced,
    says_schema,
    starts,
    too_new,
    too_old,
    translated,
    unavailable,
    version_of,
)
from dibs.stores.postgres.rows import Lines
from dibs.stores.postgres.transaction import QUERIES, Transaction, entered, execute, in_store, prepare, unprepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever the driver calls it
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

    from dibs.stores.postgres.connection import Target
    from dibs.stores.postgres.rows import Row
    from dibs.stores.postgres.transaction import Parameters

Value = TypeVar("Value")


_ALREADY_PREPARED = "42P05"
_IN_THE_FUTURE = "22023"  # the server does not know the transaction's number
_TURNS = 12  # attempts of a transaction before the store counts as busy
_LOSSES = 5  # lost connections in a row before the server counts as unavailable


# rows.py parses JSON when it is read: nearly every value that a claim or a finish returns is '{}' or NULL.
_JSON = new_type((114,), "JSON", lambda value, _cursor: value)


class NeverHeardOf(Exception):
    """The server does not know the transaction."""


class Database:
    """One connection, replaced when it breaks."""

    def __init__(self, target: Target, *, create: bool = False, store: str | None = None) -> None:
        self.target = target
        self.store = store  # the id of the store that was opened, once it is known
        self._watchdog = Watchdog(target.timeout, self._at_work)
        self._losses = 0
        self._freely = False
        self.hint_due = False
        self._connect_patiently()
        if create:
            self._migrate()

    # Connecting

    def _connect_patiently(self) -> None:
        """Wait up to `timeout=` for a starting server, or for one of several hosts to become the primary."""
        deadline = time.monotonic() + self.target.timeout
        pause = 0.05
        while True:
            try:
                self._connect()
            except StoreUnavailable as error:
                if not (self.target.several_hosts or starts(error)) or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            else:
                return

    def _connect(self) -> None:
        """Connect under a unique name, by which a lost session can be terminated."""
        self._name = f"{self.target.parameters['application_name']} {os.urandom(8).hex()}"
        try:
            connection = psycopg2.connect(**self._parameters(self._name))
        except psycopg2.Error as error:
            raise not_connected(self.target.place, error) from None  # the driver's message may contain the password
        connection.autocommit = True
        register_type(_JSON, connection)
        self._connection: Connection = connection
        self._cursor: Cursor = connection.cursor()
        self._entered = False  # whether `enter` has configured the session
        self.pooled = False
        self._prepared: set[str] = set()
        self._watchdog.watch(connection.fileno())

    @property
    def connection(self) -> Connection:
        return self._connection

    def _migrate(self) -> None:
        try:
            with self._watchdog.watching():
                self._make_or_update()
        except psycopg2.Error as error:
            self.close()
            raise translated(error, self.target.place) from error
        except BaseException:
            self.close()
            raise

    def _make_or_update(self) -> None:
        version = version_of(self._cursor, self.target)
        if version > NEWEST:
            raise too_new(self.target.place, version)
        if 0 < version < OLDEST:
            raise too_old(self.target.place, version)
        if version < NEWEST:
            migrate(self._cursor, self.target)

    def _schema_trouble(self, error: psycopg2.Error) -> None:
        """Migrate a schema that is missing or has another version, or raise the reason."""
        self._rollback()
        try:
            with self._watchdog.watching():
                version = version_of(self._cursor, self.target)
                found = id_of(self._cursor, self.target, version)
        except psycopg2.Error as trouble:
            raise translated(trouble, self.target.place) from trouble
        if self.store not in {None, found}:
            raise replaced(self.target.place, gone=version == 0) from None
        if version == 0:
            raise no_store(self.target.place) from None
        if version > NEWEST:
            raise too_new(self.target.place, version) from None
        if version < OLDEST:
            raise too_old(self.target.place, version) from None
        if version == NEWEST:
            raise translated(error, self.target.place) from error
        try:
            with self._watchdog.watching():
                migrate(self._cursor, self.target)
        except psycopg2.Error as trouble:
            if trouble.pgcode != NOT_ALLOWED:
                raise translated(trouble, self.target.place) from trouble
            raise StoreUnavailable(
                f"{self.target.place} is of an older dibs (schema {version}, this one needs {NEWEST}), and this role "
                "may not change it. Its owner runs 'dibs init --store URL' once."
            ) from None

    def lost(self) -> bool:
        return bool(self._connection.closed)

    def mend(self, error: BaseException) -> None:
        """Reconnect and terminate the lost session, so that it cannot commit later."""
        self._losses += 1
        deadline = time.monotonic() + self.target.timeout
        pause = 0.05
        while True:
            try:
                self._connection.close()
                if self._losses > _LOSSES:
                    raise unavailable(self.target.place, first_line(error))
                name = self._name
                self._connect()
                self._end_session(name)
            except (StoreUnavailable, StoreBusy, psycopg2.Error) as failure:
                if self._losses > _LOSSES or time.monotonic() + pause > deadline:
                    self._losses = 0
                    raise unavailable(self.target.place, first_line(failure)) from None
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that a fleet does not come back in step
                pause = min(2 * pause, 2.0)
            else:
                return

    def _at_work(self) -> bool:
        """Whether the server still runs our statement."""
        try:
            connection = psycopg2.connect(**self._parameters("dibs"))
            try:
                with connection.cursor() as cursor:
                    cursor.execute(QUERIES["at_work"], (self._name,))
                    return bool(cursor.fetchall())
            finally:
                connection.close()
        except psycopg2.Error:
            return False

    def _parameters(self, name: str) -> dict[str, Any]:
        return {**self.target.parameters, "application_name": name}

    def _end_session(self, name: str) -> None:
        with self._watchdog.watching():
            self._cursor.execute(QUERIES["end_session"], (name,))
        if any(not ended for (ended,) in self._cursor.fetchall()):
            raise unavailable(self.target.place, "a lost session of ours cannot be ended")

    # Statements

    def run(self, text: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement; all statements use this."""
        if not self._entered:
            self._enter()
        if self.pooled and self._connection.info.transaction_status == TRANSACTION_STATUS_IDLE:
            text = entered(text, self._enter_text("NULL"))
        cursor = self._cursor
        self._watchdog.start()
        try:
            cursor.execute(text, parameters or None)
        finally:
            self._watchdog.stop()
        return cursor

    def _enter(self) -> None:
        """Configure the session, or detect a pooler: then each transaction configures itself."""
        with self._watchdog.watching():
            self._cursor.execute(self._enter_text(str(self._connection.info.backend_pid)))
        ((direct, self.store),) = self._cursor.fetchall()
        self._entered, self.pooled = True, not direct

    def _enter_text(self, pid: str) -> str:
        schema = self.target.schema
        timeout = f"{self.target.timeout:.0f}s"
        known = f"'{self.store}'" if self.store else "NULL"
        enter = f"{schema}.enter('{schema}', {NEWEST}, '{timeout}', {pid}, {self._freely})"
        return f"SELECT {enter}, {schema}.recognised('{schema}', {known})"

    def _own(self, text: str) -> str:
        """The first statement of a transaction, bound to the opened store. Behind a pooler `run` does that."""
        if not self._entered:
            self._enter()
        return text if self.pooled else in_store(text, self.store or "")

    def copy(self, text: str, lines: Iterable[str]) -> None:
        with self._watchdog.watching():
            self._cursor.copy_expert(text, Lines(lines, self._watchdog.start))

    def call_within(self, name: str, parameters: Sequence[object]) -> list[Row]:
        """Call a statement that is prepared once per session, so that it is not planned again.

        Behind a pooler nothing is prepared: the next transaction may come to another session.
        """
        if not self._entered:
            self._enter()
        if self.pooled:
            return self.run(*unprepared(name, parameters)).fetchall()
        text = execute(name, len(parameters))
        if name in self._prepared:
            return self.run(text, parameters).fetchall()
        try:
            rows = self.run(f"{prepare(name, self.store or '')}; {text}", parameters).fetchall()
        except psycopg2.errors.DuplicatePreparedStatement:  # it was prepared, and the call after it failed
            self._prepared.add(name)
            raise
        self._prepared.add(name)
        return rows

    def call(self, name: str, parameters: Sequence[object]) -> list[Row] | None:
        """Call a statement as a transaction. None: the connection was replaced, and the outcome is unknown."""
        for turn in range(1, _TURNS + 1):
            try:
                rows = self.call_within(name, parameters)
            except psycopg2.Error as error:
                if self.lost():
                    self.mend(error)
                    return None
                self._give_way(error, turn)
            else:
                self._losses = 0
                return rows
        raise AssertionError("unreachable")

    def rows(self, name: str, parameters: Parameters = ()) -> list[Row]:
        """Run a query, again if the connection breaks."""
        for turn in range(1, _TURNS + 1):
            try:
                rows = self.run(self._own(QUERIES[name]), parameters).fetchall()
            except psycopg2.Error as error:
                if self.lost():
                    self.mend(error)
                else:
                    self._give_way(error, turn)
            else:
                self._losses = 0
                return rows
        raise AssertionError("unreachable")

    def read(self, act: Callable[[Transaction], Value]) -> Value:
        """Run several queries on one snapshot."""
        return self._transaction("begin_read", act, repeatable=True, dry_run=True)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The same for a reader that streams rows and so cannot be repeated."""
        try:
            yield Transaction(self, self._begun("begin_read")[0])
            self.run("ROLLBACK")
        except psycopg2.Error as error:
            if says_schema(error):
                self._schema_trouble(error)
            raise translated(error, self.target.place) from error

    def write(self, act: Callable[[Transaction], Value], *, repeatable: bool = True, dry_run: bool = False) -> Value:
        """Run `act` in a transaction, again if it was rolled back and is repeatable."""
        return self._transaction("begin", act, repeatable=repeatable, dry_run=dry_run)

    @contextmanager
    def planning_freely(self) -> Iterator[None]:
        """Let the planner choose freely, for questions about the whole store."""
        self._plan(freely=True)
        try:
            yield
        finally:
            self._plan(freely=False)

    def _plan(self, *, freely: bool) -> None:
        """Set the planner. Behind a pooler, or on a lost connection, the next transaction does."""
        self._freely = freely
        if self._entered and not self.pooled and not self.lost():
            self.rows("plan_freely" if freely else "plan_narrowly")

    def _transaction(
        self, begin: str, act: Callable[[Transaction], Value], *, repeatable: bool, dry_run: bool
    ) -> Value:
        for turn in range(1, _TURNS + 1):
            number = None
            committing = self.hint_due = False
            try:
                now, number = self._begun(begin)
                value = act(Transaction(self, now))
                committing = not dry_run
                self.run("ROLLBACK" if dry_run else "COMMIT")
            except psycopg2.Error as error:
                if self.lost():
                    self.mend(error)
                    if committing and self._was_committed(number):
                        return self._told(value)
                    if not repeatable:
                        raise unavailable(self.target.place, "the connection broke; nothing was changed") from None
                else:
                    self._rollback()
                    self._give_way(error, turn if repeatable else _TURNS)
            except BaseException:
                self._rollback()
                raise
            else:
                self._losses = 0
                return self._told(value)
        raise AssertionError("unreachable")

    def _told(self, value: Value) -> Value:
        """The value of a finished transaction, after notifying listeners."""
        if self.hint_due:
            self.hint_due = False
            self.notify("notify_listeners")
        return value

    def notify(self, query: str = "notify") -> None:
        """Notify listeners of a commit. A failure is harmless: they also poll, and the next verb reconnects."""
        with suppress(psycopg2.Error):
            self.run(QUERIES[query])

    def _begun(self, begin: str) -> tuple[datetime, str | None]:
        """The time of a new transaction and, if it writes, its number."""
        now, number = self.run(self._own(QUERIES[begin])).fetchone() or (None, None)
        return now, number

    def _was_committed(self, number: str | None) -> bool:
        """Whether it was committed. After a crash the server may have reused the number."""
        known, _, started = (number or "").partition(" ")
        try:
            status, same_server = self.rows("transaction_status", (known, started))[0]
        except NeverHeardOf:  # the server crashed before any of it reached the disk
            return False
        if status != "aborted" and not (status == "committed" and same_server):
            raise StoreUnavailable(
                f"The connection to {self.target.place} broke during a commit, and whether it counted cannot be found "
                "out. Look before asking again."
            )
        return bool(status == "committed")

    def _rollback(self) -> None:
        if not self.lost() and self._connection.info.transaction_status != TRANSACTION_STATUS_IDLE:
            try:
                with self._watchdog.watching():
                    self._cursor.execute("ROLLBACK")
            except psycopg2.Error:
                self._connection.close()  # also ends the transaction; the next verb reconnects

    def _give_way(self, error: psycopg2.Error, turn: int) -> None:
        """Wait briefly and return if a repetition may succeed; otherwise raise the error."""
        if says_schema(error):
            self._schema_trouble(error)
            return
        if error.pgcode == _ALREADY_PREPARED:
            return
        if error.pgcode == _IN_THE_FUTURE:
            raise NeverHeardOf from None
        if error.pgcode not in GAVE_WAY or turn >= _TURNS:
            raise translated(error, self.target.place) from error
        time.sleep(random.uniform(0, 0.005 * 2 ** min(turn, 6)))  # noqa: S311 - so that they do not meet again

    def now(self) -> datetime:
        moment: datetime = self.rows("now")[0][0]
        return moment

    def close(self) -> None:
        self._watchdog.forget()
        self._connection.close()
