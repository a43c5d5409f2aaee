"""Sessions that are moved forward one statement at a time, inside the database's functions as well.

A `Player` has a connection of its own, and with it a process of its own in the server: that is where the races are. It
stops at the place it is told, by waiting for a lock of the conductor's. Whether it stands there, waits for someone else
or is done is never guessed from the time that passes: the server's list of locks says so.
"""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever it is called

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

_LOOK = 0.0005  # between two looks at the server's list of locks

# Where that is allowed, who runs into a deadlock need not wait a second for it.
_SOON = "SELECT set_config('deadlock_timeout', '20ms', false) FROM pg_roles WHERE rolname = current_user AND rolsuper"

_here = threading.local()
_connect = psycopg2.connect


class Paused(NamedTuple):
    """It stands at its stop."""


class Waiting(NamedTuple):
    """It waits for a lock that another session holds."""

    kind: str


Sign = Paused | Waiting | Answer


class Conductor:
    """Holds the gates of all lanes, and reads from the server who stands where."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
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
        """What this session waits for; None while it is running."""
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
        """And not by the server itself, which may be tidying up."""
        self.cursor.execute(
            "SELECT FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(%s)) AND backend_type = 'client backend'",
            (pid,),
        )
        return self.cursor.rowcount > 0

    def close(self) -> None:
        self.cursor.connection.close()


class Player:
    """A lane of its own: one session that performs one act after the other, each in a thread."""

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
        self.notices: list[str] = []  # the places it came by
        self.gave_way: list[str] = []  # what the server made it give up for, to try again
        self.answer = Answer()

    def start(self, act: Act, *, stop: int | None = None, rewrites: Mapping[str, str] | None = None) -> Sign:
        """Begin, and look where it gets to: its stop, a lock, or its end."""
        return self._begin(lambda: act(self._desk()), stop, rewrites)

    def start_opening(
        self, schema: str, *, create: bool, stop: int | None = None, rewrites: Mapping[str, str] | None = None
    ) -> Sign:
        """The same for opening a store, and making it."""
        self.close()

        def opening() -> None:
            self._stops_at_once = True
            with PostgresStore(self._conductor.url, schema=schema, create=create) as store:
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
        """Where it stands, as soon as it does."""
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
        """From its stop on it runs without another."""
        self._conductor.open_gate(self.lane)
        return self.look()

    def finish(self) -> Answer:
        """Let it run to its end; whatever it waits for must be on its way out."""
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
            self._store = PostgresStore(self._conductor.url, schema=self._conductor.schema)
            self._store.now()
        self.arm()
        return Desk(self._store, scope="s", by=Actor("tester"))

    def arm(self) -> None:
        """From here on the session stops."""
        assert self.session is not None
        settings = {"lane": self.lane, "gate": self._conductor.gate, "visits": 0, "stop": self.stop or 0}
        with Cursor(self.session) as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET interleave.{name} = '{value}'")
            cursor.execute(_SOON)
        self.session.notices = self.notices

    def pause(self, text: str) -> None:
        """Before a statement goes out. Who is not armed passes."""
        assert self.session is not None
        if self.session.info.transaction_status != TRANSACTION_STATUS_INERROR:
            with Cursor(self.session) as cursor:
                cursor.execute(f"SELECT {stops_of(self._conductor.schema)}.pause(%s)", (_name_of(text),))


def _name_of(text: str) -> str:
    """A statement by its name in the store's queries, or by its first words."""
    for name, query in QUERIES.all().items():
        if text == query or text.startswith((f"EXECUTE {name} ", f"PREPARE {name} ")):
            return name
    return " ".join(text.split()[:2])


class _Gated(Cursor):
    """Stops before every statement of its session, and puts another in its place where it is told to."""

    player: Player

    def execute(self, query: Any, parameters: Any = None) -> None:
        self.player.pause(query)
        try:
            super().execute(self._as_sent(query), parameters)
        except psycopg2.Error as error:
            self.player.gave_way.append(error.pgcode or "")
            raise

    def _as_sent(self, text: Any) -> Any:
        """A prepared statement is sent with stops inside it, and broken where it is told to."""
        name = _name_of(text) if text.startswith(("EXECUTE ", "PREPARE ")) else ""
        if name not in STOPS_INSIDE:
            return self.player.rewrites.get(text, text)
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
    """In the place of psycopg2's: whatever a player opens passes its gate."""
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
    except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
        return Answer(None, f"{type(error).__module__}.{type(error).__name__}", str(error))
