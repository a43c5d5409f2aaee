"""One driver: transactions on it, what to do when its connection breaks, and our errors instead of its own.

A transaction that writes locks its scopes first, in the order of their names, and then sees all that was committed in
them before. It is tried again when the server made it give way, and when the connection was lost. If that happened
during the commit, whether it counted is asked under the same locks: a commit that is still on its way holds them.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Generic, TypeVar

import neo4j
from neo4j.exceptions import IncompleteCommit

from dibs.core.errors import StoreError, StoreReadOnly, StoreUnavailable
from dibs.stores.neo4j.errors import ANY, LOST, gives_way, no_store, too_new, too_old, translated, unavailable
from dibs.stores.neo4j.rows import moment_from
from dibs.stores.neo4j.statements import QUERIES, SCHEMA
from dibs.stores.neo4j.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.target import Target

Value = TypeVar("Value")

NEWEST = 1  # the schema's version
_OLDEST_SERVER = (5, 13)
_TURNS = 12  # so often a transaction gives way before we call the store busy
_PATIENCE = 5.0  # for so long a server that does not answer is asked again


class Database:
    """One desk of one database. `clock` is the server's unless another is given."""

    def __init__(self, target: Target, *, create: bool, clock: Callable[[], datetime] | None) -> None:
        self.target = target
        self._clock = clock
        try:
            self._driver = neo4j.GraphDatabase.driver(
                target.uri,
                auth=(target.user, target.password),
                connection_timeout=_PATIENCE,
                connection_acquisition_timeout=_PATIENCE,
                max_transaction_retry_time=_PATIENCE,
                notifications_min_severity="OFF",
                user_agent="dibs",
            )
        except ANY as error:
            raise translated(error, target) from None
        try:
            self._open(create=create)
        except BaseException:
            self._driver.close()
            raise

    def _open(self, *, create: bool) -> None:
        try:
            row = self._asked(QUERIES["desk"])
            if _number(self.server) < _OLDEST_SERVER:
                raise too_old(self.target.place, self.server)
            if create and (not row or row[0]["version"] < NEWEST):
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
        for statement in SCHEMA:
            self._asked(statement)
        self._asked("CALL db.awaitIndexes(300)")
        self._asked("MERGE (d:Desk {name: $desk}) ON CREATE SET d.version = $version, d.seq = 0", version=NEWEST)

    def _asked(self, statement: str, **parameters: object) -> Sequence[Row]:
        """One statement by itself."""
        with self._session() as session:
            result = session.run(statement, {"desk": self.target.desk, **parameters})
            rows = result.data()
            self.server = str(result.consume().server.agent)
            return rows

    def _session(self) -> neo4j.Session:
        """Always to the server that writes: a follower may not yet know what we did ourselves."""
        return self._driver.session(database=self.target.database, default_access_mode=neo4j.WRITE_ACCESS)

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
    ) -> Value:
        """All of it or nothing. `act` is called again when its first run came to nothing, if it is repeatable."""
        attempt = _Attempt(self, act, lock=lock, scopes=sorted(set(scopes)), dry_run=dry_run, hurried=hurried)
        deadline = None
        for turn in range(1, 1000):
            try:
                with self._session() as session:
                    return attempt.run(session)
            except (*LOST, IncompleteCommit) as error:
                deadline = deadline or time.monotonic() + _PATIENCE
                if not repeatable or time.monotonic() > deadline:
                    raise attempt.given_up(error) from None
                time.sleep(random.uniform(0.05, 0.2))  # noqa: S311 - so that a fleet does not come back in step
            except ANY as error:
                if not (repeatable and gives_way(error)) or turn >= _TURNS:
                    raise translated(error, self.target) from None
                time.sleep(random.uniform(0, 0.005 * 2 ** min(turn, 6)))  # noqa: S311 - so that they do not meet again
        raise AssertionError("unreachable")

    def close(self) -> None:
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
    ) -> None:
        self._database = database
        self._act = act
        self._lock = lock
        self._scopes = scopes
        self._dry_run = dry_run
        self._timeout = database.target.timeout if hurried else None
        self._mark = uuid.uuid4().hex
        self._unsure: tuple[int, Value] | None = None  # the last event and the value of a commit without an answer

    def run(self, session: neo4j.Session) -> Value:
        with session.begin_transaction(timeout=self._timeout) as inner:
            tx = self._locked(inner)
            if self._unsure is not None:
                if tx.one("was_committed", seq=self._unsure[0], mark=self._mark):
                    return self._unsure[1]
                self._unsure = None
            value = self._act(tx)
            seq = tx.write_events()
            if self._dry_run:
                inner.rollback()
                return value
            if seq is not None:
                self._unsure = seq, value
            inner.commit()
            return value

    def _locked(self, inner: neo4j.Transaction) -> Transaction:
        """The moment is told under the locks: a later writer never has an earlier time."""
        given = {"desk": self._database.target.desk, "scopes": self._scopes, "now": self._database.now_or_none()}
        row = inner.run(QUERIES[self._lock], given).single(strict=True)
        return Transaction(inner, self._database.target.desk, moment_from(row["now"]), self._mark, due=row["due"])

    def given_up(self, error: Exception) -> StoreError:
        place = self._database.target.place
        if self._unsure is None:
            return unavailable(place)
        return StoreUnavailable(
            f"The connection to {place} broke during a commit, and whether it counted cannot be found out "
            f"({type(error).__name__}). Look before asking again."
        )


def _number(agent: str) -> tuple[int, ...]:
    """`Neo4j/5.26.0` as numbers that compare; what is no Neo4j at all is older than any."""
    name, _, version = agent.partition("/")
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit()) if name == "Neo4j" else ()
