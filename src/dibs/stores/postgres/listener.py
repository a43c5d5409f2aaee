"""Wait for work: LISTEN for the notification that a task is unblocked, and check for due tasks every second."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import psycopg2

from dibs.core.errors import Misconfigured
from dibs.stores.postgres.database import Database
from dibs.stores.postgres.migration import translated

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever the driver calls it

_LOOK = 1.0  # polling interval: an expiring lease sends no notification


class NotifyListener:
    """Listens on the store's own connection. A notification that arrives between two waits is kept for the next.

    Listeners share an advisory lock. A writer that gets this lock alone knows that there are none, and sends nothing.
    The notification follows the commit, so it may be lost with its sender: hence the look every second. A session
    behind a pooler cannot listen. There a second connection does, to the server that `listen=` in the URL names;
    without one, only the look finds work.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._direct: Database | None = None
        self._listening_on: Connection | None = None
        self._newest = 0  # the last event we know of

    def wait(self, seconds: float) -> bool:
        """True as soon as something may have become claimable, at once where that may have been before we listened."""
        if self._listen():
            return True
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if self._heard(max(0.0, min(left, _LOOK))):
                return True
            if left <= 0:
                return False
            if self._listen() or self._anything():
                return True

    def _anything(self) -> bool:
        """Whether a task is due, or an event was written since the last call."""
        due, newest = self._database.rows("anything_due")[0]
        happened, self._newest = newest != self._newest, newest
        return bool(due) or happened

    def _channel(self) -> Database:
        """The connection that listens."""
        return self._direct or self._database

    def _listen(self) -> bool:
        """Whether this connection is new to the listener: it may have missed something."""
        channel = self._channel()
        if self._listening_on is channel.connection and not channel.lost():
            return False
        self._anything()
        if self._database.pooled and self._database.target.listen:
            channel = self._direct = self._direct or Database(self._database.target.direct, store=self._database.store)
        if not channel.pooled:
            channel.rows("listen")
            self._refuse_another_pooler()
            self._anything()
        self._listening_on = channel.connection
        return True

    def _refuse_another_pooler(self) -> None:
        if self._direct is not None and self._direct.pooled:
            raise Misconfigured(
                f"listen= leads to a connection pooler, {self._direct.target.place}, where nothing can listen. "
                "Name the PostgreSQL server itself, or leave listen= out of the URL."
            )

    def _heard(self, seconds: float) -> bool:
        channel = self._channel()
        connection = channel.connection
        if channel.pooled:
            time.sleep(seconds)
            return False
        try:
            if not connection.notifies and not select.select([connection], [], [], seconds)[0]:
                return False
            connection.poll()
        except psycopg2.Error as error:
            if not channel.lost():
                raise translated(error, channel.target.place) from error
            return True  # the next statement reconnects
        heard = bool(connection.notifies)
        connection.notifies.clear()
        return heard

    def close(self) -> None:
        """The store closes its own connection."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
