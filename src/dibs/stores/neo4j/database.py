"""One driver: transactions on it, what to do when its connection breaks, and our errors instead of its own.

A transaction that writes locks its scopes first, in the order of their names, and then sees all that was committed in
them before. It is tried again when the server made it give way, and when the connection was lost. If that happened
during the commit, whether it counted is asked under the same locks: a commit that is still on its way holds them.

Every wait ends: connecting after `_CONNECTING`, a transaction after the URL's `timeout` by the server's own hand, and
if the server has fallen silent, `_GRACE` later by ours.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Generic, TypeVar

import neo4j

from dibs.core.errors import StoreError, StoreReadOnly
from dibs.stores.neo4j.errors import (
    ANY,
    OLDEST_SERVER,
    gives_way,
    in_doubt,
    is_away,
    is_refusal,
    is_there,
    no_store,
    too_new,
    too_old,
    translated,
    was_sent,
)
from dibs.stores.neo4j.rows import moment_from
from dibs.stores.neo4j.transaction import QUERIES, SCHEMA, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.stores.neo4j.claims import Plain
    from dibs.stores.neo4j.rows import Row, Values
    from dibs.stores.neo4j.target import Target


_TURNS = 12  # so often a transaction gives way before we call the store busy
_PATIENCE = 5.0  # for so long a server that cannot be reached is asked again


class Retries:
    """How often and for how long a transaction is tried again that may take `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._turns = 0
        self._busy_until = time.monotonic() + timeout
        self._away_until = 0.0

    def again(self, error: Exception) -> bool:
        """Whether to try again; if so, the moment to wait is over. It is random: a fleet must not come back in step."""
        now = time.monotonic()
        if is_away(error):
            self._away_until = self._away_until or now + _PATIENCE
            return now < self._away_until and _pause(0.05, 0.2)
        self._turns += 1
        if not gives_way(error) or self._turns >= _TURNS or now > self._busy_until:
            return False
        return _pause(0, 0.005 * 2 ** min(self._turns, 6))


def _pause(shortest: float, longest: float) -> bool:
    time.sleep(random.uniform(shortest, longest))  # noqa: S311 - not a secret
    return True


_LOOK = 0.5


class Watch:
    """Calls `give_up` when a caller has waited too long. Its thread runs only while there are waiting callers.

    The driver bounds connecting only. After that it waits for an answer for as long as the server told it to: two
    minutes by default, or for ever.
    """

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # until when each may
        self._thread: threading.Thread | None = None

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        waiter = object()
        with self._lock:
            self._waiting[waiter] = time.monotonic() + seconds
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._thread = threading.Thread(target=self._look, name="dibs-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(waiter, None)

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                late = [waiter for waiter, until in self._waiting.items() if until < time.monotonic()]
                for waiter in late:
                    del self._waiting[waiter]
            if late:
                self._give_up()


Value = TypeVar("Value")

NEWEST = 1  # the schema's version
_SINCE = {"task_embedding": (5, 18)}  # older ones cannot compare vectors as we do; tasks are then found by their words
_CONNECTING = 4.0  # seconds for a connection, up to the first answer
_GRACE = 10.0  # for connecting, and for a server that has much to do when it ends what took too long

# What the driver would say, an error of ours says; without a handler it would be said on stderr as well.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


class Database:
    """One desk of one database. `clock` is the server's unless another is given."""

    def __init__(self, target: Target, *, create: bool, clock: Callable[[], datetime] | None) -> None:
        self.target = target
        self._clock = clock
        self._watch = Watch(self._start_over)
        self._kept: tuple[neo4j.Driver, neo4j.Session] | None = None
        try:
            self._driver = self._connect()
        except ANY as error:
            raise translated(error, target) from None
        try:
            self._open(create=create)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> neo4j.Driver:
        return neo4j.GraphDatabase.driver(
            self.target.uri,
            auth=(self.target.user, self.target.password),
            connection_timeout=_CONNECTING,
            connection_acquisition_timeout=_CONNECTING,
            notifications_min_severity="OFF",
            user_agent="dibs",
        )

    def _start_over(self) -> None:
        """Who waits for a silent server is told that the connection is gone. A driver has no other way to stop them."""
        silent, self._driver = self._driver, self._connect()
        silent.close()

    def _open(self, *, create: bool) -> None:
        try:
            row = self._asked(QUERIES["desk"])
            if _number(self.server) < OLDEST_SERVER:
                raise too_old(self.target.place, self.server)
            if create and (not row or row[0]["version"] <= NEWEST):
                self._make()
                row = self._asked(QUERIES["desk"])
        except ANY as error:
            raise translated(error, self.target) from None  # what the driver says may hold the password
        if not row:
            raise no_store(self.target.place)
        if row[0]["version"] > NEWEST:
            raise too_new(self.target.place, row[0]["version"], NEWEST)

    def _make(self) -> None:
        """Each is made only if it is not there: two that make a store at once make the same one."""
        for name, statement in SCHEMA.items():
            if _number(self.server) >= _SINCE.get(name, OLDEST_SERVER):
                self._ensure(statement)
        self._asked("CALL db.awaitIndexes(300)", hurried=False)
        self._asked("MERGE (d:Desk {name: $desk}) ON CREATE SET d.version = $version, d.seq = 0", version=NEWEST)

    def _ensure(self, statement: str) -> None:
        """Somebody may be making the same just now: "if not exists" looks before it has the lock, and finds nothing."""
        retries = Retries(self.target.timeout)
        while True:
            try:
                self._asked(statement)
            except ANY as error:
                if is_there(error):
                    return
                if not retries.again(error):
                    raise
            else:
                return

    def _asked(self, statement: str, *, hurried: bool = True, **parameters: object) -> Sequence[Row]:
        """One statement by itself."""
        query = neo4j.Query(statement, timeout=self.target.timeout if hurried else None)
        with self._watched(hurried=hurried), self._session() as session:
            result = session.run(query, {"desk": self.target.desk, **parameters})
            rows = result.data()
            self.server = str(result.consume().server.agent)
            return rows

    @contextmanager
    def _session(self) -> Iterator[neo4j.Session]:
        """One is kept from use to use, until something goes wrong in it: to make one takes as long as to use it.

        Always to the server that writes: a follower may not yet know what we did ourselves.
        """
        driver, kept = self._driver, self._kept
        self._kept = None
        if kept is not None and kept[0] is not driver:
            kept[1].close()
            kept = None
        kept = kept or (driver, driver.session(database=self.target.database, default_access_mode=neo4j.WRITE_ACCESS))
        with ExitStack() as closing:
            yield closing.enter_context(kept[1])
            if self._kept is None:  # else another was made while this one was in use
                closing.pop_all()
                self._kept = kept

    def _watched(self, *, hurried: bool = True) -> AbstractContextManager[None]:
        """What is in no hurry waits for as long as the server says that it is alive."""
        return self._watch.at_most(self.target.timeout + _GRACE) if hurried else nullcontext()

    def now_or_none(self) -> datetime | None:
        """The test's time, or None: the server's."""
        return self._clock() if self._clock else None

    def now(self) -> datetime:
        return self.read(lambda tx: tx.now)

    def read(self, act: Callable[[Transaction], Value], *, scopes: Sequence[str] = ()) -> Value:
        """With scopes: see them as they are at one moment, for nobody writes to them meanwhile."""
        if scopes:
            try:
                return self.write(act, scopes=scopes, dry_run=True)
            except StoreReadOnly:  # then nobody writes here, and no lock can be had
                pass
        return self.write(act, lock="look", dry_run=True)

    def write(
        self,
        act: Callable[[Transaction], Value],
        *,
        scopes: Iterable[str] = (),
        lock: str = "lock_scopes",
        repeatable: bool = True,
        dry_run: bool = False,
        hurried: bool = True,
        plain: Plain[Value] | None = None,
    ) -> Value:
        """All of it or nothing. `act` is called again when its first run came to nothing, if it is repeatable.

        If there is a `plain` way to do it, that is tried first, once.
        """
        attempt = _Attempt(
            self, act, lock=lock, scopes=sorted(set(scopes)), dry_run=dry_run, hurried=hurried, plain=plain
        )
        retries = Retries(self.target.timeout)
        while True:
            try:
                with self._watched(hurried=hurried), self._session() as session:
                    return attempt.run(session)
            except ANY as error:
                if not (repeatable and retries.again(error)):
                    raise attempt.given_up(error) from None

    def close(self) -> None:
        if self._kept is not None:
            self._kept[1].close()
        self._driver.close()


class _Attempt(Generic[Value]):
    """One transaction, however often it is tried."""

    def __init__(
        self,
        database: Database,
        act: Callable[[Transaction], Value],
        *,
        lock: str,
        scopes: list[str],
        dry_run: bool,
        hurried: bool,
        plain: Plain[Value] | None,
    ) -> None:
        self._database = database
        self._act = act
        self._lock = lock
        self._scopes = scopes
        self._dry_run = dry_run
        self._timeout = database.target.timeout if hurried else None
        self._plain = plain
        self._lost: Plain[Value] | None = None  # the statement that got no answer
        self._mark = os.urandom(16).hex()
        self._unsure: tuple[int, Value] | None = None  # the last event and the value of a commit without an answer

    def run(self, session: neo4j.Session) -> Value:
        if self._plain is not None:
            value = self._plainly(session, self._plain)
            if value is not None:
                return value
        with session.begin_transaction(timeout=self._timeout) as inner:
            tx = self._locked(inner)
            if self._unsure is not None:
                if tx.one("was_committed", seq=self._unsure[0], mark=self._mark):
                    return self._unsure[1]
                self._unsure = None
            if self._lost is not None:
                found = self._lost.found(tx)
                if found is not None:
                    return found
                self._lost = None
            value = self._act(tx)
            seq = tx.write_events()
            if self._dry_run:
                inner.rollback()
                return value
            if seq is not None:
                self._unsure = seq, value
            self._commit(inner)
            return value

    def _commit(self, inner: neo4j.Transaction) -> None:
        try:
            inner.commit()
        except ANY as error:
            if is_refusal(error):
                self._unsure = None
            raise

    def _plainly(self, session: neo4j.Session, plain: Plain[Value]) -> Value | None:
        """Statements that do it all, or say that this case is none for them."""
        self._plain = None
        try:
            rows = self._plain_rows(session, plain)
        except ANY as error:
            self._lost = plain if is_away(error) and was_sent(error) else None
            raise
        return None if rows is None else plain.answer(rows)

    def _plain_rows(self, session: neo4j.Session, plain: Plain[Value]) -> Sequence[Row] | None:
        given = {**self._given(), "mark": self._mark}
        if len(plain.statements) == 1:
            ((name, parameters),) = plain.statements
            row = session.run(neo4j.Query(QUERIES[name], timeout=self._timeout), {**parameters, **given}).single()
            return None if row is None else [row]
        rows = []
        with session.begin_transaction(timeout=self._timeout) as inner:
            for name, parameters in plain.statements:
                row = inner.run(QUERIES[name], {**parameters, **given}).single()
                if row is None:
                    inner.rollback()
                    return None
                rows.append(row)
            inner.commit()
        return rows

    def _given(self) -> Values:
        return {"desk": self._database.target.desk, "now": self._database.now_or_none()}

    def _locked(self, inner: neo4j.Transaction) -> Transaction:
        """The moment is told under the locks: a later writer never has an earlier time."""
        row = inner.run(QUERIES[self._lock], {**self._given(), "scopes": self._scopes}).single(strict=True)
        return Transaction(inner, self._database.target.desk, moment_from(row["now"]), self._mark, due=row["due"])

    def given_up(self, error: Exception) -> StoreError:
        target = self._database.target
        sure = self._unsure is None and self._lost is None
        return translated(error, target) if sure else in_doubt(target.place)


def _number(agent: str) -> tuple[int, ...]:
    """`Neo4j/5.26.0` as numbers that compare; what is no Neo4j at all is older than any."""
    found = re.match(r"Neo4j/(\d+)\.(\d+)", agent)
    return (int(found[1]), int(found[2])) if found else ()
