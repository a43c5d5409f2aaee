"""The application: the API, the board, and MCP, behind one guard."""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from dibs.core.errors import Misconfigured, NotFound
from dibs.serve.api.routes import description
from dibs.serve.callers import Right
from dibs.serve.desks import Desks
from dibs.serve.guard import Guard
from dibs.serve.health import measured, ready
from dibs.serve.live import Hub
from dibs.serve.metrics import Metrics
from dibs.serve.refusals import Forbidden, MethodNotAllowed
from dibs.serve.site import Site
from dibs.serve.table import BASE
from dibs.serve.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from dibs.desk import Desk
    from dibs.serve.doors import Doors
    from dibs.serve.mounting import Mounted

_BOARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "board", "static")


class Served:
    """An ASGI application, and what has to be ended with it."""

    def __init__(self, open_desk: Callable[[], Desk], scope: str, doors: Doors) -> None:
        self.metrics = Metrics()
        self.desks = Desks(open_desk)
        self.hub = Hub(open_desk, self.metrics)
        self.site = Site(self.desks, self.hub, self.metrics, scope, doors.secret)
        self._timer = Timer(open_desk)
        self._mcp = _LazyMcp(open_desk, scope, self.hub)
        self._board = GZipMiddleware(StaticFiles(directory=_BOARD, html=True, check_dir=False))
        self._guarded = Guard(self._find, doors, self.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)

    async def _find(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(f"{BASE}/"):
            answer = await self.site.answer(scope, receive)
            await answer(scope, receive, send)
        elif path in _PAGES:
            scope["dibs.route"] = path
            await (await self._page(scope, path))(scope, receive, send)
        elif path == "/mcp" or path.startswith("/mcp/"):
            await self._mcp(scope, receive, send)
        else:
            await self._static(scope, receive, send)

    async def _page(self, scope: Scope, path: str) -> Response:
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed.but(["GET"])
        if path == "/health":
            return JSONResponse({"status": "ok"})
        if not scope["dibs.caller"].may(Right.READ):
            raise Forbidden(f"This needs the right '{Right.READ}', which this token does not have.")
        if path == "/openapi.json":
            return JSONResponse(description())
        scope["dibs.caller"].scope(self.site.scope, self.site.scope)  # what follows tells of it
        if path == "/metrics":
            return Response(await self._measured(), media_type="text/plain; version=0.0.4")
        return JSONResponse(await ready(self.site))

    async def _measured(self) -> str:
        where = self.site.scope
        counts, ages = await self.desks.borrow(lambda desk: measured(desk.at(where)))
        return self.metrics.text(where, counts, ages)

    async def _static(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._board(scope, receive, send)
        except HTTPException as error:
            if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                raise MethodNotAllowed.but(["GET"]) from None
            raise NotFound("There is nothing at this address.") from None

    async def _live(self, receive: Receive, send: Send) -> None:
        """From the first message of the server to the last."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.hub.start()
                self._timer.start()
            else:
                await self._close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    def end_streams(self) -> None:
        """Listeners are told to come again; what else is going on may end by itself."""
        self.hub.close()

    async def _close(self) -> None:
        self.end_streams()
        await self._mcp.close()
        await asyncio.to_thread(self._timer.close)
        await asyncio.to_thread(self.hub.join)
        await asyncio.to_thread(self.desks.close)


_PAGES = frozenset({"/health", "/health/ready", "/metrics", "/openapi.json"})


_MCP = frozenset({"mcp", "mcp_types", "pydantic", "httpx", "anyio"})


class _LazyMcp:
    """Loaded when somebody first asks for it: most servers are never asked."""

    def __init__(self, open_desk: Callable[[], Desk], scope: str, hub: Hub) -> None:
        self._open_desk = open_desk
        self._scope = scope
        self._hub = hub
        self._mounted: Mounted | None = None
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._ready:
            self._mounted = self._mounted or await self._start()
        await self._mounted.app(scope, receive, send)

    async def _start(self) -> Mounted:
        try:
            make = import_module("dibs.serve.mcp.transports").mcp_app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _MCP:
                raise
            raise Misconfigured("MCP is not installed here: pip install 'dibs[mcp]'.") from None
        mounted: Mounted = make(self._open_desk, self._scope)
        started = asyncio.Event()

        async def run() -> None:
            async with mounted.running():
                started.set()
                await self._hub.closing.wait()

        self._running = asyncio.ensure_future(run())
        await started.wait()
        return mounted

    async def close(self) -> None:
        if self._running is not None:
            await self._running
