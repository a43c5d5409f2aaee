"""Server-sent events: what happens in a scope, as it happens, from where a listener was before."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from dibs.core.wire import event_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from dibs.core.events import Event
    from dibs.desk import Desk
    from dibs.serve.cursor import Cursor
    from dibs.serve.desks import Desks
    from dibs.serve.live import Hub
    from dibs.serve.metrics import Metrics

KEEP_ALIVE = 15.0  # seconds without a word, after which one is said
_RETRY_MS = 1000
_PAGE = 500


class Stream(Response):
    """Sends what an iterator gives until it ends, or the listener goes."""

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
    """Each event of a scope, or of one task in it, from a place on, or from now on."""
    place = hub.place if start is None else start
    number = hub.end if start is None else -1
    yield f"retry: {_RETRY_MS}\n" + named("hello", {"cursor": str(place)}, str(place))
    while not hub.closing.is_set():
        entries = hub.since(number)
        if entries is None:
            number, goal = hub.end, hub.place
            async for event, passed in _caught_up(desks, scope, place, goal, ref):
                yield _told(json.dumps(event_json(event)), passed)
            place = goal
            continue
        if entries:
            number, place = number + len(entries), entries[-1].place
            if told := "".join(_told(one.data, one.place) for one in entries if _fits(one.event, scope, ref)):
                yield told
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
    """What lies between two places. What the goal has not seen arrives by itself later."""
    for low, top in place.missing:
        for event in await desks.borrow(partial(_events, scope, ref, low - 1, top - low + 1)):
            if event.seq <= top and goal.covers(event.seq):
                yield event, place
    after = place.high
    while after < goal.high:
        events = await desks.borrow(partial(_events, scope, ref, after, _PAGE))
        for event in events:
            if goal.covers(event.seq):
                yield event, goal.up_to(event.seq)
        after = events[-1].seq if events else goal.high


def _events(scope: str, task: str | None, after: int, limit: int, desk: Desk) -> list[Event]:
    return desk.at(scope).exact.events(ref=task, after=after, limit=limit)


def _told(data: str, place: Cursor) -> str:
    return f"id: {place}\ndata: {data}\n\n"


def named(name: str, data: object, place: str) -> str:
    return f"id: {place}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
