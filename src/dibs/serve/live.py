"""Live events: one thread looks for what has happened, and any number of listeners follow at their own pace.

The newest events are kept in one list that all listeners read from. Who falls so far behind that the list has gone on
without them reads from the store again; nobody is waited for, and nobody's slowness costs memory.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, StoreUnavailable, Unsupported
from dibs.serve.cursor import Cursor
from dibs.serve.following import Entry, Follower

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from dibs.serve.metrics import Metrics

EVERY = 0.1  # seconds between looks
_TOGETHER = 0.02  # at least: what is written at the same time is found in one look
_TROUBLE = 1.0  # the same while the store cannot be asked
_KEPT = 5000  # events that listeners may be behind
_REFRESH = 5.0
_log = logging.getLogger("dibs.serve")


class Hub:
    """Begin with `start`, on the event loop; every method but those of the thread belongs to it."""

    def __init__(
        self, open_desk: Callable[[], Desk], metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_desk = open_desk
        self._metrics = metrics
        self._clock = clock
        self._kept: deque[Entry] = deque()
        self._first = 0  # the number, in order of arrival, of the first that is kept
        self.place = Cursor()  # what all that have arrived make together
        self.news = asyncio.Event()
        self.closing = asyncio.Event()
        self._trouble: DibsError | None = None
        self._known_trouble: str | None = None  # what has been logged once; known to the thread alone
        self._asked = self._answered = 0
        self._poke = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """The number that the next to arrive will have."""
        return self._first + len(self._kept)

    def since(self, number: int) -> list[Entry] | None:
        """What has arrived from there on; None where it is not kept any more."""
        if number < self._first:
            return None
        return [self._kept[place] for place in range(number - self._first, len(self._kept))]

    def hurry(self) -> None:
        """Something was written here: if anybody listens, look now."""
        if self._metrics.listeners:
            self._poke.set()

    async def refresh(self) -> Cursor:
        """The place after a look that begins now, so that whoever has just written finds it."""
        self._asked += 1
        wanted = self._asked
        self._poke.set()
        try:
            async with asyncio.timeout(_REFRESH):
                while self._answered < wanted and self._trouble is None:
                    await self.news.wait()
        except TimeoutError:
            raise StoreUnavailable("The store does not answer. Try again in a moment.", retry_after_ms=1000) from None
        if self._trouble is not None:
            raise self._trouble
        return self.place

    def close(self) -> None:
        """Listeners are told to go; the thread ends."""
        self.closing.set()
        self._announce()
        self._stop.set()
        self._poke.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _announce(self) -> None:
        before, self.news = self.news, asyncio.Event()
        before.set()

    def _arrived(self, entries: list[Entry], place: Cursor, answered: int, trouble: DibsError | None) -> None:
        self._kept.extend(entries)
        self._metrics.happened(entry.event for entry in entries)
        while len(self._kept) > _KEPT:
            self._kept.popleft()
            self._first += 1
        self.place, self._trouble = place, trouble
        if entries or trouble or answered > self._answered:
            self._answered = max(self._answered, answered)
            self._announce()

    # On the thread

    def _run(self) -> None:
        follower = Follower(self._open_desk, self._clock)
        while not self._stop.is_set():
            self._poke.clear()
            asked, began = self._asked, time.monotonic()
            entries: list[Entry] = []
            trouble: DibsError | None = None
            try:
                entries.extend(follower.look())
            except DibsError as error:
                follower.leave()
                trouble = error
            self._log_once(trouble)
            self._tell(entries, follower.place, asked, trouble)
            if isinstance(trouble, Unsupported):  # this store keeps none, and never will
                return
            self._stop.wait(_TOGETHER)
            self._poke.wait(_TROUBLE if trouble else max(EVERY, 10 * (time.monotonic() - began)))
        follower.leave()

    def _log_once(self, trouble: DibsError | None) -> None:
        """Trouble when it begins and when it is over, not at every look. That a store keeps no events is none."""
        code = None if trouble is None or isinstance(trouble, Unsupported) else trouble.code
        if trouble is not None and code not in {None, self._known_trouble}:
            _log.warning("events cannot be read: %s", trouble.message)
        elif trouble is None and self._known_trouble is not None:
            _log.warning("events can be read again")
        self._known_trouble = code

    def _tell(self, entries: list[Entry], place: Cursor, answered: int, trouble: DibsError | None) -> None:
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._arrived, entries, place, answered, trouble)
