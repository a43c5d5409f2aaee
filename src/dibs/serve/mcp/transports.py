"""Transports: one client on stdin and stdout, or many over HTTP at /mcp; and their instructions.

On stdio, the session begins and ends with the process. Over HTTP, protocol versions up to 2025-11-25 have sessions.
Later versions have none: there each claim is found by its token.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import anyio
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from dibs.core.errors import InvalidInput
from dibs.fleet.instructions import briefing
from dibs.serve.desks import Desks
from dibs.serve.mcp.server import make_server
from dibs.serve.mcp.sessions import IDLE, HttpClients, LeaseRenewer, Session, identity_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from dibs.console.stopping import Stop
    from dibs.desk import Desk
    from dibs.serve.mcp.sessions import Identity

_RULES = briefing(tools=True)
ON_STDIO = f"""{_RULES}\
The session keeps the tokens of your claims. You need one only after a restart: `progress` with task and token
resumes the task.
"""
OVER_HTTP = f"""{_RULES}\
Pass task and token, as `claim` returned them, with every call about a task you hold. Call `progress` at least every
half hour: after that your leases are no longer renewed.
"""


class MountedApp(NamedTuple):
    """An ASGI application. `running` is entered before the first request, and left when the server ends."""

    app: ASGIApp
    running: Callable[[], AbstractAsyncContextManager[None]]


_GOODBYE = 1.5  # seconds to end the session in the store: clients kill the process after two


def serve_stdio(open_desk: Callable[[], Desk], who: Identity, stop: Stop) -> None:
    """Serve until stdin or stdout is closed, or until stopped."""
    if sys.stdin is None:
        raise InvalidInput("There is no stdin. A client starts 'dibs mcp' and sends its requests there.")
    anyio.run(_serve, open_desk, who, stop)


async def _serve(open_desk: Callable[[], Desk], who: Identity, stop: Stop) -> None:
    transport = StdioTransport(Desks(open_desk, size=1), Session(who, LeaseRenewer(open_desk)))
    server = make_server(transport, ON_STDIO)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_leave_when_stopped, transport, stop)
        async with stdio_server() as (read, write):
            try:
                await server.run(read, write, server.create_initialization_options())
            except anyio.get_cancelled_exc_class():  # stdout is closed
                await _leave(transport)
        await transport.end()
        tasks.cancel_scope.cancel()


async def _leave_when_stopped(transport: StdioTransport, stop: Stop) -> None:
    await anyio.wait_readable(stop.fileno())
    await _leave(transport)


async def _leave(transport: StdioTransport) -> NoReturn:
    """End the session and the process: the thread that reads stdin cannot be interrupted."""
    await transport.end()
    os._exit(0)


class StdioTransport:
    def __init__(self, desks: Desks, session: Session) -> None:
        self._desks = desks
        self._session = session

    async def attend(self, _context: object, _token: str | None, work: Callable[[Desk, Session], Any]) -> Any:
        return await self._desks.borrow(lambda desk: work(desk, self._session))

    async def end(self) -> None:
        """End the session in the store, if it holds tasks and the store answers in time."""
        if not self._session.holds:
            return
        with anyio.move_on_after(_GOODBYE, shield=True):
            for trouble in await self._desks.borrow(self._session.end):
                print(f"dibs: {trouble.message}", file=sys.stderr)  # noqa: T201 - stdout is the client's


_MOST_SESSIONS = 1000
_LOOK = 30.0  # seconds between two searches for idle clients


def mcp_app(open_desk: Callable[[], Desk], scope: str) -> MountedApp:
    transport = _HttpTransport(HttpClients(open_desk), scope)
    return MountedApp(transport.answer, transport.running)


class _HttpTransport:
    """Implements `dibs.serve.mcp.server.ClientTransport`."""

    def __init__(self, clients: HttpClients, scope: str) -> None:
        self._clients = clients
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
        await self._clients.close()

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(_LOOK)
            await self._clients.send_off_idle()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. An open stream keeps its session alive; DELETE ends it before the answer is sent."""
        session = _header(scope, MCP_SESSION_ID_HEADER)
        if session is not None:
            self._clients.require_owner(session, identity_of(Request(scope), self._scope))
            if scope["method"] == "DELETE":
                await self._clients.send_off(session)
        with self._clients.there(session):
            await self._sessions.handle_request(scope, receive, send)

    async def attend(self, context: Any, token: str | None, work: Callable[[Desk, Session], Any]) -> Any:
        request: Request = context.request
        stands_alone = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        session = None if stands_alone else request.headers.get(MCP_SESSION_ID_HEADER)
        said = context.session.client_params
        client = None if said is None else said.client_info.name
        return await self._clients.attend(identity_of(request, self._scope, session, client), session, token, work)


def _header(scope: Scope, name: str) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.decode("latin-1") == name), None)
