"""Sessions that a test advances one statement at a time.

A `Player` runs an operation in its own thread, over its own connections. It pauses before the statement it is given,
commits included. The first player never uses the single-statement queries, so that it has several stops; the others
use them, which then meet an open transaction of the first. The server reports which session waits for a lock; no test
guesses this from elapsed time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import neo4j
from neo4j.exceptions import Neo4jError

from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import QUERIES
from interleave.postgres.player import Paused, Sign, Waiting, answer_of
from interleave.stepper import PATIENCE, Act, Answer
from support.neo4j import admin, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

_LOOK = 0.03  # seconds before the server is asked whether the player waits for a lock
_NAMES = {text: name for name, text in QUERIES.items()}
_here = threading.local()
_run, _commit, _run_alone = neo4j.Transaction.run, neo4j.Transaction.commit, neo4j.Session.run

_NOT_PLAIN = "UNWIND [] AS nothing RETURN nothing"
THE_LONG_WAY = {QUERIES[name]: _NOT_PLAIN for name in ("claim_plainly", "move_plainly")}


class Player:
    """One session that performs one operation after another, each in a thread."""

    def __init__(self, desk: str, clock: Callable[[], datetime], lane: int) -> None:
        self.lane = lane
        self._desk_name = desk
        self._clock = clock
        self._store: Neo4jStore | None = None
        self._thread: threading.Thread | None = None
        self._gate = threading.Event()
        self._stands = False
        self._news = threading.Event()  # the player paused or ended
        self._port = 0
        self.stop: int | None = None
        self.rewrites: Mapping[str, str] = {}
        self.places: list[str] = []
        self.gave_way: list[str] = []
        self.answer = Answer()

    def start(self, act: Act, *, stop: int | None = None, rewrites: Mapping[str, str] | None = None) -> Sign:
        """Begin, and return the first sign: the stop, a lock, or the end."""
        assert self._thread is None or not self._thread.is_alive()
        self.stop = stop
        self.rewrites = (THE_LONG_WAY if self.lane == 1 else {}) | dict(rewrites or {})
        self.places, self.gave_way = [], []
        self._gate.clear()
        self._news.clear()
        self._thread = threading.Thread(target=self._perform, args=(act,), daemon=True)
        self._thread.start()
        return self.look()

    def look(self) -> Sign:
        """Wait until the player stops, waits or ends, and return that sign."""
        assert self._thread is not None
        deadline = time.monotonic() + PATIENCE
        while self._thread.is_alive():
            told = self._news.wait(_LOOK)
            if self._stands:
                return Paused()
            if not told and self._blocked():
                return Waiting("scope")
            assert time.monotonic() < deadline, "the player neither ends nor stands anywhere"
        return self.answer

    def _blocked(self) -> bool:
        asked = "SHOW TRANSACTIONS YIELD clientAddress, status WHERE clientAddress ENDS WITH $port RETURN status"
        rows = admin().execute_query(asked, port=f":{self._port}").records
        return any(str(row["status"]).startswith("Blocked") for row in rows)

    def let_go(self) -> Sign:
        """Run on from the stop without another one."""
        self._stands = False
        self._news.clear()
        self._gate.set()
        return self.look()

    def finish(self) -> Answer:
        """Run to the end; the session that holds the awaited lock must be running."""
        assert self._thread is not None
        self._gate.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the player does not come to an end"
        return self.answer

    def close(self) -> None:
        self._gate.set()
        if self._store is not None:
            self._store.close()

    def _perform(self, act: Act) -> None:
        if self._store is None:
            self._store = Neo4jStore(shared_url(), desk=self._desk_name, clock=self._clock)
        _here.player = self
        try:
            self.answer = answer_of(lambda: act(Desk(self._store, scope="s", by=Actor("tester"))))  # type: ignore[arg-type]
        finally:
            self._news.set()

    def pause(self, port: int, place: str) -> None:
        self._port = port
        self.places.append(place)
        if len(self.places) == self.stop and not self._gate.is_set():
            self._stands = True
            self._news.set()
            assert self._gate.wait(PATIENCE)
            self._stands = False


def run(self: neo4j.Transaction, query: str, *args: Any, **options: Any) -> neo4j.Result:
    """Run a statement like the driver, but through the player's gate."""
    player: Player | None = getattr(_here, "player", None)
    if player is None:
        return _run(self, query, *args, **options)
    player.pause(self._connection.local_port, _NAMES.get(query, query[:30]))
    try:
        return _run(self, player.rewrites.get(query, query), *args, **options)
    except Neo4jError as error:
        player.gave_way.append(error.code or "")
        raise


def commit(self: neo4j.Transaction) -> None:
    player: Player | None = getattr(_here, "player", None)
    if player is not None:
        player.pause(self._connection.local_port, "COMMIT")
    _commit(self)


def run_alone(self: neo4j.Session, query: neo4j.Query, *args: Any, **options: Any) -> neo4j.Result:
    """A statement that commits alone."""
    player: Player | None = getattr(_here, "player", None)
    if player is None:
        return _run_alone(self, query, *args, **options)
    text = player.rewrites.get(query.text, query.text)
    if text != _NOT_PLAIN:
        self._connect(neo4j.WRITE_ACCESS)  # type: ignore[no-untyped-call]
        player.pause(self._connection.local_port, _NAMES[query.text])  # type: ignore[union-attr]
    return _run_alone(self, neo4j.Query(text, timeout=query.timeout), *args, **options)
