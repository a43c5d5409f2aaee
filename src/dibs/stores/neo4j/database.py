"""One driver: its transactions, their retries, and its errors translated to ours.

A writing transaction first locks its scopes, in the order of their names; then it sees everything committed in them.
It is retried after a deadlock and after a lost connection. If the connection was lost during the commit, the retry
takes the same locks, which a running commit would hold, and looks whether the first try was committed.

Every wait ends: connecting after `_CONNECTING`, a transaction after the URL's `timeout` by the server, and `_GRACE`
later by dibs, if the server stopped answering.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import neo4j

from dibs.core.errors import InvalidInput, StoreError, StoreReadOnly
from dibs.core.fleet import NAMES
from dibs.stores.neo4j.errors import (
    ANY,
    OLDEST_SERVER,
    gives_way,
    in_doubt,
    is_away,
    is_refusal,
    is_there,
    no_store,
    replaced,
    too_new,
    too_old,
    translated,
    was_sent,
)
from dibs.stores.neo4j.rows import moment_from
from dibs.stores.neo4j.transaction import MIGRATION, QUERIES, SCHEMA, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.stores.neo4j.claims import Plain
    from dibs.stores.neo4j.rows import Row, Values


_TURNS = 12  # tries of a transaction that loses deadlocks, before the store counts as busy
_PATIENCE = 5.0  # seconds of retries while the server cannot be reached
_TIMEOUT = "30"  # seconds for a transaction, if the URL names none


class Retries:
    """The retries of a transaction that may take `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._turns = 0
        self._busy_until = time.monotonic() + timeout
        self._away_until = 0.0

    def again(self, error: Exception) -> bool:
        """Whether to try again, after a random pause, so that a fleet does not return in step."""
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
    """Call `give_up` when a caller has waited too long, because the driver limits only the time to connect.

    Its thread runs only while callers wait.
    """

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # the end of each wait
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

NEWEST = 3  # version of the schema; since 3, a desk has an id
_BITE = 2000  # nodes that one transaction converts
_CONVERSIONS = ("convert_items", "convert_links", "convert_dispatches", "convert_audits", "convert_agents")
_SINCE = {"task_embedding": (5, 18)}  # older servers lack our comparison of vectors
_CONNECTING = 4.0  # seconds to connect, including the first answer
_GRACE = 10.0  # seconds to connect, and for a loaded server to end a late transaction

# Our errors report the same; without a handler, the driver would also print it to stderr.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


class Database:
    """One desk of one database. `clock` replaces the server's clock."""

    def __init__(self, target: Target, *, create: bool, clock: Callable[[], datetime] | None) -> None:
        self.target = target
        self._clock = clock
        self._watch = Watch(self._start_over)
        self._kept: tuple[neo4j.Driver, neo4j.Session] | None = None
        self.store = ""  # the desk's id
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
        """Close the driver, which is the only way to wake callers that wait for a silent server."""
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
            if row and row[0]["version"] < NEWEST:
                self._convert()
                row = self._asked(QUERIES["desk"])
        except ANY as error:
            raise translated(error, self.target) from None  # the driver's message may hold the password
        if not row:
            raise no_store(self.target.place)
        if row[0]["version"] > NEWEST:
            raise too_new(self.target.place, row[0]["version"], NEWEST)
        self.store = row[0]["id"]

    def _convert(self) -> None:
        """Convert all desks of the database. A later call resumes a broken conversion, and two may run at once."""
        self._make()
        old = self._patiently(MIGRATION["old_desks"], version=NEWEST)[0]["names"]
        for name in _CONVERSIONS:
            while self._patiently(MIGRATION[name], bite=_BITE, names=NAMES)[0]["number"]:
                pass
        self._patiently(MIGRATION["converted"], version=NEWEST, desks=old)

    def _patiently(self, statement: str, **parameters: object) -> Sequence[Row]:
        retries = Retries(self.target.timeout)
        while True:
            try:
                return self._asked(statement, hurried=False, **parameters)
            except ANY as error:
                if not retries.again(error):
                    raise

    def _drop_old_indexes(self) -> None:
        for row in self._asked(MIGRATION["old_indexes"]):
            what = "CONSTRAINT" if row["constrained"] else "INDEX"
            self._asked(f"DROP {what} {row['name']} IF EXISTS")

    def _make(self) -> None:
        """Create what is missing. Two processes that create a store at once create the same one."""
        self._drop_old_indexes()
        for name, statement in SCHEMA.items():
            if _number(self.server) >= _SINCE.get(name, OLDEST_SERVER):
                self._ensure(statement)
        self._asked("CALL db.awaitIndexes(300)", hurried=False)
        self._asked(QUERIES["make_desk"], version=NEWEST)

    def _ensure(self, statement: str) -> None:
        """Create it unless another process does: IF NOT EXISTS looks before it takes the lock."""
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
        """Run one statement in its own transaction."""
        query = neo4j.Query(statement, timeout=self.target.timeout if hurried else None)
        with self._watched(hurried=hurried), self._session() as session:
            result = session.run(query, {"desk": self.target.desk, **parameters})
            rows = result.data()
            self.server = str(result.consume().server.agent)
            return rows

    @contextmanager
    def _session(self) -> Iterator[neo4j.Session]:
        """Reuse one session until an error, because opening one takes as long as using it.

        Always on the writing server, because a follower may lack our own writes.
        """
        driver, kept = self._driver, self._kept
        self._kept = None
        if kept is not None and kept[0] is not driver:
            kept[1].close()
            kept = None
        kept = kept or (driver, driver.session(database=self.target.database, default_access_mode=neo4j.WRITE_ACCESS))
        with ExitStack() as closing:
            yield closing.enter_context(kept[1])
            if self._kept is None:  # another thread may have kept one
                closing.pop_all()
                self._kept = kept

    def _watched(self, *, hurried: bool = True) -> AbstractContextManager[None]:
        """Limit the wait. Long operations wait as long as the server sends keep-alive messages."""
        return self._watch.at_most(self.target.timeout + _GRACE) if hurried else nullcontext()

    def now_or_none(self) -> datetime | None:
        """The time of a test's clock; None means the server's."""
        return self._clock() if self._clock else None

    def now(self) -> datetime:
        return self.read(lambda tx: tx.now)

    def read(self, act: Callable[[Transaction], Value], *, scopes: Sequence[str] = ()) -> Value:
        """Read. Given scopes are locked, so that the reads see one moment."""
        if scopes:
            try:
                return self.write(act, scopes=scopes, dry_run=True)
            except StoreReadOnly:  # there are no writers, and no locks
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
        """Run `act` in one transaction, and again if the transaction failed and `act` is repeatable.

        The `plain` statements, if given, are tried first, once.
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
    """All tries of one transaction."""

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
        self._lost: Plain[Value] | None = None  # statements whose answer was lost
        self._mark = os.urandom(16).hex()
        self._unsure: tuple[int, Value] | None = None  # last event and value of a commit whose answer was lost

    def run(self, session: neo4j.Session) -> Value:
        if self._plain is not None:
            value = self._plainly(session, self._plain)
            if value is not None:
                return value
        with _begun(session, self._timeout) as inner:
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
        """The answer of the plain statements, or None if the case is not plain."""
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
        with _begun(session, self._timeout) as inner:
            for name, parameters in plain.statements:
                row = inner.run(QUERIES[name], {**parameters, **given}).single()
                if row is None:
                    inner.rollback()
                    return None
                rows.append(row)
            inner.commit()
        return rows

    def _given(self) -> Values:
        database = self._database
        return {"desk": database.target.desk, "store": database.store, "now": database.now_or_none()}

    def _locked(self, inner: neo4j.Transaction) -> Transaction:
        """Read the time under the locks, so that a later writer never has an earlier time."""
        row = inner.run(QUERIES[self._lock], {**self._given(), "scopes": self._scopes}).single(strict=True)
        target, store = self._database.target, self._database.store
        if row["store"] != store:
            raise replaced(target.place, gone=row["store"] is None)
        return Transaction(inner, target, store, moment_from(row["now"]), self._mark, due=row["due"])

    def given_up(self, error: Exception) -> StoreError:
        target = self._database.target
        sure = self._unsure is None and self._lost is None
        return translated(error, target) if sure else in_doubt(target.place)


def _begun(session: neo4j.Session, timeout: float | None) -> neo4j.Transaction:
    """Begin a transaction along with its first statement, as the driver's `execute_query` does. Saves a round trip."""
    with getattr(session, "_pipelined_begin", nullcontext()):
        return session.begin_transaction(timeout=timeout)


def _number(agent: str) -> tuple[int, ...]:
    """`Neo4j/5.26.0` as (5, 26). Any other server counts as older than all."""
    found = re.match(r"Neo4j/(\d+)\.(\d+)", agent)
    return (int(found[1]), int(found[2])) if found else ()


SCHEMES = frozenset({"neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc"})
_DESK = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_LONGEST_TIMEOUT = 86_400


class Target(NamedTuple):
    """`uri` is for the driver, `place` for messages."""

    uri: str
    user: str
    password: str
    database: str | None
    desk: str
    timeout: float
    place: str

    def __repr__(self) -> str:
        return f"Target({self.place})"


def target_of(url: str, *, desk: str | None = None) -> Target:
    """Read a URL. NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD supply missing parts."""
    try:
        parts = _with_server(urlsplit(url))
        host, port = parts.hostname, parts.port or 7687
    except ValueError:
        raise InvalidInput("That is not a Neo4j URL; write it like neo4j://host:7687?database=neo4j.") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database, timeout = options.pop("database", None), options.pop("timeout", _TIMEOUT)
    name = desk or options.get("desk", "dibs")
    options.pop("desk", None)
    if not host or parts.scheme not in SCHEMES or parts.path not in {"", "/"} or options:
        raise InvalidInput(
            "A Neo4j URL is neo4j://host:port or bolt://host:port, with database, desk and timeout at most. "
            "Without a host, NEO4J_URI names the server."
        )
    if not _DESK.fullmatch(name):
        raise InvalidInput("A desk's name is letters, digits, '_', '.' and '-', at most 60 of them.")
    if not (
        timeout.isascii()
        and timeout.isdigit()
        and len(timeout) < len("100000")
        and 0 < int(timeout) <= _LONGEST_TIMEOUT
    ):
        raise InvalidInput("A Neo4j URL's timeout must be a whole number of seconds, such as timeout=30.")
    user = unquote(parts.username or "") or os.environ.get("NEO4J_USER") or "neo4j"
    password = unquote(parts.password or "") or os.environ.get("NEO4J_PASSWORD", "")
    address = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    told = [f"database={database}"] if database else []
    told += [f"desk={name}"] if name != "dibs" else []
    place = f"{address}?{'&'.join(told)}" if told else address
    return Target(address, user, password, database, name, float(timeout), place)


def _with_server(parts: SplitResult) -> SplitResult:
    """`neo4j://?desk=team` is a desk on the server of NEO4J_URI."""
    given = os.environ.get("NEO4J_URI")
    if parts.netloc or not given:
        return parts
    server = urlsplit(given)
    return server._replace(query="&".join(filter(None, (server.query, parts.query))))
