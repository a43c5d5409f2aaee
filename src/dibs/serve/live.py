"""Live events: cursors, the thread that reads new events, and server-sent events for any number of listeners.

Where many processes write at once, an event may become visible after one with a higher number. So a cursor is the
highest number seen and, below it, the numbers still missing: `10~9` has seen everything up to 10 except 9. Some never
appear, because their transaction was rolled back.

The newest events are kept in one list that all listeners read from. A listener that falls behind that list reads from
the store again: the server waits for no listener, and a slow one costs no memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from starlette.responses import Response

from dibs.core.errors import DibsError, InvalidInput, StoreUnavailable, Unsupported
from dibs.core.wire import event_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.types import Receive, Scope, Send

    from dibs.core.events import Event
    from dibs.desk import Desk
    from dibs.serve.desks import Desks
    from dibs.serve.metrics import Metrics

_CURSOR_TEXT = re.compile(r"(\d{1,18})(?:~(\d{1,18}(?:-\d{1,18})?(?:,\d{1,18}(?:-\d{1,18})?)*))?", re.ASCII)
_MOST_RANGES = 200


class Cursor(NamedTuple):
    """How far a reader has come. `missing` are ranges of numbers, both ends included, in ascending order."""

    high: int = 0
    missing: tuple[tuple[int, int], ...] = ()

    def covers(self, seq: int) -> bool:
        """Whether this number was seen."""
        return seq <= self.high and not any(low <= seq <= top for low, top in self.missing)

    def past(self, seq: int) -> Self:
        """The cursor after this number was seen too."""
        if seq == self.high + 1:
            return self._replace(high=seq)
        if seq > self.high:
            return self._replace(high=seq, missing=(*self.missing, (self.high + 1, seq - 1)))
        parts = (part for gap in self.missing for part in _without(gap, seq))
        return self._replace(missing=tuple(parts))

    def only(self, missing: tuple[tuple[int, int], ...]) -> Self:
        return self._replace(missing=missing)

    def up_to(self, seq: int) -> Self:
        """The cursor at this number, with the numbers missing below it."""
        return type(self)(seq, tuple((low, min(top, seq)) for low, top in self.missing if low <= seq))

    def __str__(self) -> str:
        if not self.missing:
            return str(self.high)
        ranges = (str(low) if low == top else f"{low}-{top}" for low, top in self.missing[-_MOST_RANGES:])
        return f"{self.high}~{','.join(ranges)}"


def _without(gap: tuple[int, int], seq: int) -> list[tuple[int, int]]:
    low, top = gap
    if not low <= seq <= top:
        return [gap]
    return [part for part in ((low, seq - 1), (seq + 1, top)) if part[0] <= part[1]]


def cursor_from(text: str) -> Cursor:
    found = _CURSOR_TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidInput("after: send the cursor or the id of the last event unchanged.")
    high = int(found[1])
    ranges = []
    for part in (found[2] or "").split(",") if found[2] else ():
        low, _, top = part.partition("-")
        ranges.append((int(low), int(top or low)))
    rising = all(low <= top < high for low, top in ranges) and ranges == sorted(ranges)
    if not rising or len(ranges) > _MOST_RANGES:
        raise InvalidInput("after: send the cursor or the id of the last event unchanged.")
    return Cursor(high, tuple(ranges))


# The thread that reads events

_READ_PAGE = 1000  # events at once
_FIRST_LOOK = 500  # how far back the server looks for numbers that were missing when it started
_GIVE_UP_SECONDS = 600.0  # seconds after which a missing number is given up


class Entry(NamedTuple):
    """An event, its JSON, and the cursor of a reader that has read up to here."""

    event: Event
    data: str
    place: Cursor


class Follower:
    """Reads new events from the store, and keeps looking for the numbers that are still missing."""

    def __init__(self, open_desk: Callable[[], Desk], clock: Callable[[], float], place: Cursor | None = None) -> None:
        """Without a place, it starts with the events written after the first look."""
        self._open_desk = open_desk
        self._clock = clock
        self._desk: Desk | None = None
        self._noticed = None if place is None else dict.fromkeys(place.missing, clock())  # None: it has never looked
        self.place = place or Cursor()

    def look(self) -> Iterator[Entry]:
        """The new events, and the missing ones that appeared."""
        desk = self._desk = self._desk or self._open_desk()
        if self._noticed is None:
            self._begin(desk)
        for low, top in self.place.missing:
            for event in desk.events(after=low - 1, limit=top - low + 1, anywhere=True):
                if event.seq <= top:
                    yield self._seen(event)
        while events := desk.events(after=self.place.high, limit=_READ_PAGE, anywhere=True):
            for event in events:
                yield self._seen(event)
        self._give_up()

    def _begin(self, desk: Desk) -> None:
        newest = desk.events(last=_FIRST_LOOK, anywhere=True)
        place = Cursor(newest[0].seq if newest else 0)
        for event in newest:
            place = place.past(event.seq)
        self.place, self._noticed = place, dict.fromkeys(place.missing, self._clock())

    def leave(self) -> None:
        """Close the desk; the cursor stays."""
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close()

    def _seen(self, event: Event) -> Entry:
        self.place = self.place.past(event.seq)
        return Entry(event, json.dumps(event_json(event)), self.place)

    def _give_up(self) -> None:
        """Stop looking for numbers missing for too long. The rest of a range is as old as the range."""
        now, known = self._clock(), self._noticed or {}
        self._noticed = {
            gap: min((at for old, at in known.items() if _within(gap, old)), default=now) for gap in self.place.missing
        }
        self.place = self.place.only(tuple(gap for gap, at in self._noticed.items() if now - at < _GIVE_UP_SECONDS))


def _within(gap: tuple[int, int], old: tuple[int, int]) -> bool:
    return old[0] <= gap[0] and gap[1] <= old[1]


EVERY = 0.1  # seconds between looks
_EVERY_HEARD = 0.025  # the same while there are listeners
_SHARE = 10  # the pause after a slow look, as a multiple of its duration
_TOGETHER = 0.02  # at least, so that one look finds events written together
_TROUBLE = 1.0  # the same while the store cannot be asked
_KEPT = 5000  # events that listeners may be behind
_REFRESH = 5.0
_log = logging.getLogger("dibs.serve")


class Hub:
    """Keeps the newest events for all listeners.

    Call `start` on the event loop; all methods but the thread's run there.
    """

    def __init__(
        self, open_desk: Callable[[], Desk], metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_desk = open_desk
        self._metrics = metrics
        self._clock = clock
        self._kept: deque[Entry] = deque()
        self._first = 0  # the number, in order of arrival, of the first that is kept
        self._texts: dict[tuple[int, str, str | None], str] = {}  # for listeners at the same place
        self.place = Cursor()  # the cursor of all events that have arrived
        self.news = asyncio.Event()
        self.closing = asyncio.Event()
        self._trouble: DibsError | None = None
        self._known_trouble: str | None = None  # logged already; used by the thread alone
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
        """The number of the next entry to arrive."""
        return self._first + len(self._kept)

    def since(self, number: int) -> list[Entry] | None:
        """The entries from this number on; None if some of them are no longer kept."""
        if number < self._first:
            return None
        return [self._kept[place] for place in range(number - self._first, len(self._kept))]

    def text(self, number: int, entries: list[Entry], scope: str, ref: str | None) -> str:
        """The entries since this number as server-sent events, made once for all listeners of a scope or a task."""
        key = number, scope, ref
        if (known := self._texts.get(key)) is not None:
            return known
        text = "".join(_sse(one.data, one.place) for one in entries if _fits(one.event, scope, ref))
        self._texts[key] = text
        return text

    def hurry(self) -> None:
        """Look for events now, if there are listeners: this server has just written one."""
        if self._metrics.listeners:
            self._poke.set()

    async def refresh(self) -> Cursor:
        """The cursor after a look that begins now, so that it covers events written before the call."""
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
        """End the streams of all listeners, and the thread."""
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
        self._texts.clear()
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
            asked, began = self._asked, time.thread_time()
            entries: list[Entry] = []
            trouble: DibsError | None = None
            try:
                entries.extend(follower.look())
            except DibsError as error:
                follower.leave()
                trouble = error
            self._log_once(trouble)
            self._send_entries(entries, follower.place, asked, trouble)
            if isinstance(trouble, Unsupported):  # this store never has events
                return
            if entries:
                self._stop.wait(_TOGETHER)
            every = _EVERY_HEARD if self._metrics.listeners else EVERY
            self._poke.wait(_TROUBLE if trouble else max(every, _SHARE * (time.thread_time() - began)))
        follower.leave()

    def _log_once(self, trouble: DibsError | None) -> None:
        """Log an outage when it begins and when it ends. A store without events is no outage."""
        code = None if trouble is None or isinstance(trouble, Unsupported) else trouble.code
        if trouble is not None and code not in {None, self._known_trouble}:
            _log.warning("events cannot be read: %s", trouble.message)
        elif trouble is None and self._known_trouble is not None:
            _log.warning("events can be read again")
        self._known_trouble = code

    def _send_entries(self, entries: list[Entry], place: Cursor, answered: int, trouble: DibsError | None) -> None:
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._arrived, entries, place, answered, trouble)


# Server-sent events

KEEP_ALIVE = 15.0  # seconds of silence before a comment line is sent
_RETRY_MS = 1000
_CATCH_UP_PAGE = 500


class Stream(Response):
    """A response that sends the parts of an iterator until it ends or the listener disconnects."""

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncIterator[str], metrics: Metrics) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        self._metrics.listeners += 1
        try:
            await self._until_over(receive, send)
        finally:
            self._metrics.listeners -= 1

    async def _until_over(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sending, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _send(self, send: Send) -> None:
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def follow(hub: Hub, desks: Desks, scope: str, start: Cursor | None, ref: str | None) -> AsyncIterator[str]:
    """The events of a scope, or of one task in it, from a cursor on, or from now on."""
    place = hub.place if start is None else start
    number = hub.end if start is None else -1
    yield f"retry: {_RETRY_MS}\n" + named_sse("hello", {"cursor": str(place)}, str(place))
    while not hub.closing.is_set():
        entries = hub.since(number)
        if entries is None:
            number, goal = hub.end, hub.place
            async for event, passed in _caught_up(desks, scope, place, goal, ref):
                yield _sse(json.dumps(event_json(event)), passed)
            place = goal
            continue
        if entries:
            text = hub.text(number, entries, scope, ref)
            number, place = number + len(entries), entries[-1].place
            if text:
                yield text
        news = hub.news
        if number == hub.end and not await _happened(news):
            yield f": still here\nid: {place}\n\n"
    yield f"retry: {_RETRY_MS}\n\n"


def _fits(event: Event, scope: str, ref: str | None) -> bool:
    return event.scope == scope and ref in {None, event.task}


async def _happened(news: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(KEEP_ALIVE):
            return await news.wait()
    except TimeoutError:
        return False


async def _caught_up(
    desks: Desks, scope: str, place: Cursor, goal: Cursor, ref: str | None
) -> AsyncIterator[tuple[Event, Cursor]]:
    """The events between two cursors. Those missing from `goal` arrive later through the hub."""
    for low, top in place.missing:
        for event in await desks.borrow(partial(_events, scope, ref, low - 1, top - low + 1)):
            if event.seq <= top and goal.covers(event.seq):
                yield event, place
    after = place.high
    while after < goal.high:
        events = await desks.borrow(partial(_events, scope, ref, after, _CATCH_UP_PAGE))
        for event in events:
            if goal.covers(event.seq):
                yield event, goal.up_to(event.seq)
        after = events[-1].seq if events else goal.high


def _events(scope: str, task: str | None, after: int, limit: int, desk: Desk) -> list[Event]:
    return desk.at(scope).exact.events(ref=task, after=after, limit=limit)


def _sse(data: str, place: Cursor) -> str:
    return f"id: {place}\ndata: {data}\n\n"


def named_sse(name: str, data: object, place: str) -> str:
    return f"id: {place}\nevent: {name}\ndata: {json.dumps(data)}\n\n"


# Hints for clients that wait for work


_LISTEN = 2.0  # seconds of one wait of the store
_HINT_EVERY = 0.1  # seconds between two hints: unclaimed work would hint without pause


class Wakeups:
    """One thread waits at the store on behalf of all waiting clients, while there are any."""

    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open_desk = open_desk
        self._listeners = 0
        self._news = asyncio.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    async def follow(self, closing: asyncio.Event) -> AsyncIterator[str]:
        """A server-sent event whenever something may have become claimable."""
        self._listeners += 1
        try:
            if self._thread is None or not self._thread.is_alive():
                arguments = (asyncio.get_running_loop(),)
                self._thread = threading.Thread(target=self._run, args=arguments, name="wakeups", daemon=True)
                self._thread.start()
            yield "data: 1\n\n"  # a task may have become ready before
            while not closing.is_set():
                news = self._news
                heard = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(KEEP_ALIVE):
                        heard = await _either(news, closing)
                yield "data: 1\n\n" if heard else ": still here\n\n"
        finally:
            self._listeners -= 1

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _announce(self) -> None:
        before, self._news = self._news, asyncio.Event()
        before.set()

    # On the thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        desk: Desk | None = None
        while self._listeners and not self._stop.is_set():
            try:
                desk = desk or self._open_desk()
                heard = desk.wait(_LISTEN)
            except DibsError:  # the clients get the error from their own request
                _close(desk)
                heard, desk = True, None
                self._stop.wait(_LISTEN)
            if heard and not self._stop.is_set():
                loop.call_soon_threadsafe(self._announce)
                self._stop.wait(_HINT_EVERY)
        _close(desk)


def _close(desk: Desk | None) -> None:
    if desk is not None:
        desk.close()


async def _either(news: asyncio.Event, closing: asyncio.Event) -> bool:
    waiting = {asyncio.ensure_future(news.wait()), asyncio.ensure_future(closing.wait())}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return news.is_set()
    finally:
        for each in waiting:
            each.cancel()
