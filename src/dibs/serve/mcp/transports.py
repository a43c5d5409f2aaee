"""Clients over HTTP, at /mcp of a server: sessions as the older protocol has them, and claims that stand alone.

The newest protocol has no sessions over HTTP. There every claim is one by itself, found again by its token.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from dibs.serve.mcp.instructions import OVER_HTTP
from dibs.serve.mcp.server import make_server
from dibs.serve.mcp.visitors import IDLE, Visitors, who_asks
from dibs.serve.mounting import Mounted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from dibs.desk import Desk
    from dibs.serve.mcp.sessions import Session

_MOST_SESSIONS = 1000
_LOOK = 30.0  # seconds between looks for those who said no more


def mcp_app(open_desk: Callable[[], Desk], scope: str) -> Mounted:
    mount = _Mount(Visitors(open_desk), scope)
    return Mounted(mount.answer, mount.running)


class _Mount:
    """Implements `dibs.serve.mcp.server.Reception`."""

    def __init__(self, visitors: Visitors, scope: str) -> None:
        self._visitors = visitors
        self._scope = scope
        self._sessions = StreamableHTTPSessionManager(
            make_server(self, OVER_HTTP), json_response=True, session_idle_timeout=IDLE, max_sessions=_MOST_SESSIONS
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._sessions.run(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_after)
            yield
            tasks.cancel_scope.cancel()
        await self._visitors.close()

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(_LOOK)
            await self._visitors.send_off_idle()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A stream that is open is a sign of life. DELETE is the end, which has come when it is answered."""
        session = _header(scope, MCP_SESSION_ID_HEADER)
        if session is not None:
            self._visitors.insist(session, who_asks(Request(scope), self._scope))
            if scope["method"] == "DELETE":
                await self._visitors.send_off(session)
        with self._visitors.there(session):
            await self._sessions.handle_request(scope, receive, send)

    async def attend(self, context: Any, token: str | None, work: Callable[[Desk, Session], Any]) -> Any:
        request: Request = context.request
        stands_alone = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        session = None if stands_alone else request.headers.get(MCP_SESSION_ID_HEADER)
        return await self._visitors.attend(who_asks(request, self._scope), session, token, work)


def _header(scope: Scope, name: str) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.decode("latin-1") == name), None)
