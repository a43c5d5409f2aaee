"""One client on stdin and stdout: a session that begins with the process and ends with it, or before."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from mcp.server.stdio import stdio_server

from dibs.core.errors import InvalidInput
from dibs.serve.desks import Desks
from dibs.serve.mcp.instructions import ON_STDIO
from dibs.serve.mcp.keeper import Keeper
from dibs.serve.mcp.server import make_server
from dibs.serve.mcp.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.console.stopping import Stop
    from dibs.desk import Desk
    from dibs.serve.mcp.sessions import Who

_TELLING = 1.5  # seconds to say that the session ends: clients kill what stays longer than two


def serve(open_desk: Callable[[], Desk], who: Who, stop: Stop) -> None:
    """Serve until stdin or stdout is closed, or until stopped."""
    if sys.stdin is None:
        raise InvalidInput("There is no stdin: a client starts 'dibs mcp' and speaks to it there.")
    anyio.run(_serve, open_desk, who, stop)


async def _serve(open_desk: Callable[[], Desk], who: Who, stop: Stop) -> None:
    reception = OneClient(Desks(open_desk, size=1), Session(who, Keeper(open_desk)))
    server = make_server(reception, ON_STDIO)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_leave_when_stopped, reception, stop)
        async with stdio_server() as (read, write):
            try:
                await server.run(read, write, server.create_initialization_options())
            except anyio.get_cancelled_exc_class():  # what we say reaches nobody any more
                await _leave(reception)
        await reception.end()
        tasks.cancel_scope.cancel()


async def _leave_when_stopped(reception: OneClient, stop: Stop) -> None:
    await anyio.wait_readable(stop.fileno())
    await _leave(reception)


async def _leave(reception: OneClient) -> NoReturn:
    """End the session and the process with it: the thread that reads stdin cannot be interrupted."""
    await reception.end()
    os._exit(0)


class OneClient:
    def __init__(self, desks: Desks, session: Session) -> None:
        self._desks = desks
        self._session = session

    async def attend(self, _context: object, _token: str | None, work: Callable[[Desk, Session], Any]) -> Any:
        return await self._desks.borrow(lambda desk: work(desk, self._session))

    async def end(self) -> None:
        """Tell the store, if there is something to tell and it listens."""
        if not self._session.holds:
            return
        with anyio.move_on_after(_TELLING, shield=True):
            for trouble in await self._desks.borrow(self._session.end):
                print(f"dibs: {trouble.message}", file=sys.stderr)  # noqa: T201 - stdout is the client's
