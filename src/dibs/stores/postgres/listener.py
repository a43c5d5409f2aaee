"""Wait for work: LISTEN for the notification of whoever unblocks a task, and check the clock every second."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import psycopg2

from dibs.stores.postgres.migration import translated

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever the driver calls it

    from dibs.stores.postgres.database import Database

_LOOK = 1.0  # how often time itself is asked: nobody gives notice of a lease that ends


class NotifyListener:
    """Listens on the store's own connection. A notification that arrives between two waits is kept for the next.

    Listeners share an advisory lock. A writer that gets this lock alone knows that there are none, and sends nothing.
    The notification follows the commit, so it may be lost with its sender: hence the look every second. Behind a pooler
    a session belongs to nobody, so there the look is all.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
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
        """A look of our own, at the clock and at what has happened since the last one."""
        due, newest = self._database.rows("anything_due")[0]
        happened, self._newest = newest != self._newest, newest
        return bool(due) or happened

    def _listen(self) -> bool:
        """Whether this connection is new to the listener: it may have missed something."""
        if self._listening_on is self._database.connection and not self._database.lost():
            return False
        self._anything()
        if not self._database.pooled:
            self._database.rows("listen")
            self._anything()
        self._listening_on = self._database.connection
        return True

    def _heard(self, seconds: float) -> bool:
        connection = self._database.connection
        if self._database.pooled:
            time.sleep(seconds)
            return False
        try:
            if not connection.notifies and not select.select([connection], [], [], seconds)[0]:
                return False
            connection.poll()
        except psycopg2.Error as error:
            if not self._database.lost():
                raise translated(error, self._database.target.place) from error
            return True  # to be mended by whatever is asked next
        heard = bool(connection.notifies)
        connection.notifies.clear()
        return heard
