"""Sessions that a test advances one statement at a time, inside database functions too.

A `Player` has its own connection, and so its own server process, which is where races happen. It pauses at its stop by
waiting for a lock of the conductor. The server's list of locks shows whether a player is paused, waits for another
session or has finished; no test guesses this from elapsed time.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class

from dibs.core.errors import DibsError
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.postgres.store import PostgresStore
from dibs.stores.postgres.transaction import QUERIES
from interleave.postgres.stops import STOPS_INSIDE, stops_of, with_stops_inside
from interleave.stepper import PATIENCE, Act, Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from psycopg2.extensions import connection as Connection  # noqa: N812

_LOOK = 0.0005  # seconds between two reads of the server's list of locks

# With enough rights, a deadlock is reported after 20 ms instead of a second.
_SOON = "SELECT set_config('deadlock_timeout', '20ms', false) FROM pg_roles WHERE rolname = current_user AND rolsuper"

_THIS_STORE = re.compile(r"\bWITH (RECURSIVE )?this_store AS \(SELECT store_\w+\(\)\)(, | )")

_here = threading.local()
_connect = psycopg2.connect


class Paused(NamedTuple):
    """The player has reached its stop."""


class Waiting(NamedTuple):
    """The player waits for a lock of another session."""

    kind: str


Sign = Paused | Waiting | Answer


class Conductor:
    """Hold the gates of all players, and read from the server which of them wait."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.patient_url = f"{url}{'&' if '?' in url else '?'}timeout={PATIENCE:.0f}"  # of stores that wait for locks
        self.schema = schema
        self.gate = zlib.crc32(schema.encode()) & 0x7FFFFFFF
        connection = _connect(url)
        connection.autocommit = True
        self.cursor: Cursor = connection.cursor()
        self.cursor.execute(f"SET search_path = {schema}")
        self._closed: set[int] = set()

    def close_gate(self, lane: int) -> None:
        if lane not in self._closed:
            self.cursor.execute("SELECT pg_advisory_lock(%s, %s)", (self.gate, lane))
            self._closed.add(lane)

    def open_gate(self, lane: int) -> None:
        if lane in self._closed:
            self.cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (self.gate, lane))
            self._closed.remove(lane)

    def standing(self, pid: int, lane: int) -> Sign | None:
        """The wait of this session; None while it runs."""
        self.cursor.execute(
            "SELECT locktype, objsubid = 2 AND classid = %s AND objid = %s FROM pg_locks"
            " WHERE pid = %s AND NOT granted",
            (self.gate, lane, pid),
        )
        row = self.cursor.fetchone()
        if row is None:
            return None
        if row[0] == "advisory" and row[1]:
            return Paused()
        return Waiting(row[0]) if self._by_a_client(pid) else None

    def _by_a_client(self, pid: int) -> bool:
        """Whether the lock is held by a client, not by the server's own maintenance."""
        self.cursor.execute(
            "SELECT FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(%s)) AND backend_type = 'client backend'",
            (pid,),
        )
        return self.cursor.rowcount > 0

    def close(self) -> None:
        self.cursor.connection.close()


class Player:
    """One session that performs operations one after another, each in a thread."""

    def __init__(self, conductor: Conductor, lane: int) -> None:
        self._conductor = conductor
        self._store: PostgresStore | None = None
        self._thread: threading.Thread | None = None
        self.lane = lane
        self.schema = conductor.schema
        self._stops_at_once = False
        self.session: Connection | None = None
        self.prepared: set[str] = set()
        self.rewrites: Mapping[str, str] = {}
        self.stop: int | None = None
        self.notices: list[str] = []  # the statements it passed
        self.gave_way: list[str] = []  # error codes of transactions that the server ended and the store retried
        self.answer = Answer()

    def start(self, act: Act, *, stop: int | None = None, rewrites: Mapping[str, str] | None = None) -> Sign:
        """Begin, and return the first sign: the stop, a lock, or the end."""
        return self._begin(lambda: act(self._desk()), stop, rewrites)

    def start_opening(
        self, schema: str, *, create: bool, stop: int | None = None, rewrites: Mapping[str, str] | None = None
    ) -> Sign:
        """Begin to open or create a store, and return the first sign."""
        self.close()

        def opening() -> None:
            self._stops_at_once = True
            with PostgresStore(self._conductor.patient_url, schema=schema, create=create) as store:
                store.scopes()

        return self._begin(opening, stop, rewrites)

    def _begin(self, perform: Callable[[], object], stop: int | None, rewrites: Mapping[str, str] | None) -> Sign:
        assert self.idle
        self.stop, self.rewrites = stop, rewrites or {}
        self.notices, self.gave_way = [], []
        self._conductor.close_gate(self.lane)
        self._thread = threading.Thread(target=self._perform, args=(perform,), daemon=True)
        self._thread.start()
        return self.look()

    def look(self) -> Sign:
        """Wait until the player stops, waits or ends, and return that sign."""
        assert self._thread is not None
        deadline = time.monotonic() + PATIENCE
        while self._thread.is_alive():
            sign = self._standing()
            if sign is not None and self._thread.is_alive():
                return sign
            assert time.monotonic() < deadline, "the player neither ends nor stands anywhere"
            self._thread.join(_LOOK)
        return self.answer

    def _standing(self) -> Sign | None:
        session = self.session
        return None if session is None else self._conductor.standing(session.info.backend_pid, self.lane)

    def let_go(self) -> Sign:
        """Run on from the stop without another one."""
        self._conductor.open_gate(self.lane)
        return self.look()

    def finish(self) -> Answer:
        """Run to the end; the session that holds the awaited lock must be running."""
        assert self._thread is not None
        self._conductor.open_gate(self.lane)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the player does not come to an end"
        return self.answer

    @property
    def idle(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    @property
    def places(self) -> list[str]:
        return [notice.removeprefix("NOTICE:").strip() for notice in self.notices]

    def close(self) -> None:
        self._conductor.open_gate(self.lane)
        if self._store is not None:
            self._store.close()
        self._store = self.session = None

    def _perform(self, perform: Callable[[], object]) -> None:
        _here.player = self
        self._stops_at_once = False
        self.answer = answer_of(perform)

    def connected(self, session: Connection) -> None:
        self.session, self.prepared = session, set()
        if self._stops_at_once:
            self.arm()

    def _desk(self) -> Desk:
        if self._store is None:
            self._store = PostgresStore(self._conductor.patient_url, schema=self._conductor.schema)
            self._store.now()
        self.arm()
        return Desk(self._store, scope="s", by=Actor("tester"))

    def arm(self) -> None:
        """Make this session pause at its stop from now on."""
        assert self.session is not None
        settings = {"lane": self.lane, "gate": self._conductor.gate, "visits": 0, "stop": self.stop or 0}
        with Cursor(self.session) as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET interleave.{name} = '{value}'")
            cursor.execute(_SOON)
        self.session.notices = self.notices

    def pause(self, text: str) -> None:
        """Pause before a statement if the session is armed."""
        assert self.session is not None
        if self.session.info.transaction_status != TRANSACTION_STATUS_INERROR:
            with Cursor(self.session) as cursor:
                cursor.execute(f"SELECT {stops_of(self._conductor.schema)}.pause(%s)", (_name_of(text),))


def _as_written(text: str) -> str:
    """A statement without the check of the store's identity."""
    return _THIS_STORE.sub(lambda found: f"WITH {found[1] or ''}" if found[2] == ", " else "", text, count=1)


def _name_of(text: str) -> str:
    """A statement's name in the store's queries, or its first two words."""
    text = _as_written(text)
    for name, query in QUERIES.all().items():
        if text == query or text.startswith((f"EXECUTE {name} ", f"PREPARE {name} ")):
            return name
    return " ".join(text.split()[:2])


class _Gated(Cursor):
    """A cursor that pauses before every statement and applies the player's rewrites."""

    player: Player

    def execute(self, query: Any, parameters: Any = None) -> None:
        self.player.pause(query)
        try:
            super().execute(self._as_sent(query), parameters)
        except psycopg2.Error as error:
            self.player.gave_way.append(error.pgcode or "")
            raise

    def _as_sent(self, text: Any) -> Any:
        """The statement with its rewrite; a prepared one also gets its stops."""
        name = _name_of(text) if text.startswith(("EXECUTE ", "PREPARE ")) else ""
        if name not in STOPS_INSIDE:
            return self.player.rewrites.get(_as_written(text), text)
        statement = with_stops_inside(name, self.player.rewrites.get(QUERIES[name], QUERIES[name]), self.player.schema)
        prepared = f"{name}_{zlib.crc32(statement.encode())}"
        if prepared not in self.player.prepared:
            super().execute(f"PREPARE {prepared} AS {statement}")
            self.player.prepared.add(prepared)
        return text[text.index("EXECUTE ") :].replace(f"EXECUTE {name} ", f"EXECUTE {prepared} ")

    def copy_expert(self, sql: Any, file: Any, size: int = 8192) -> None:
        self.player.pause(sql)
        super().copy_expert(sql, file, size)


def connect(*args: Any, **options: Any) -> Connection:
    """Connect like psycopg2, with a gate if a player connects."""
    player: Player | None = getattr(_here, "player", None)
    if player is None:
        return cast("Connection", _connect(*args, **options))
    gated = type("_Gated", (_Gated,), {"player": player})
    session: Connection = _connect(*args, **options, cursor_factory=gated)
    session.autocommit = True
    player.connected(session)
    return session


def answer_of(act: Callable[[], object]) -> Answer:
    try:
        return Answer(act())
    except DibsError as error:
        return Answer(None, error.code, error.message, error.retry_after_ms)
    except Exception as error:  # noqa: BLE001 - the test checks the error
        return Answer(None, f"{type(error).__module__}.{type(error).__name__}", str(error))
