"""Listening on an address, and ending well."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from dibs.core.errors import InvalidInput
from dibs.serve.app import Served
from dibs.serve.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.desk import Desk
    from dibs.serve.doors import Doors

_GRACE = 10  # seconds for what is going on to end
_LOOK = 1  # seconds between looks for slow clients
_PORTS = 65_536


class Server(uvicorn.Server):
    """Tells listeners to go before it waits for everybody to be gone."""

    def __init__(
        self, config: uvicorn.Config, served: Served, started: Callable[[], None], seconds: float | None
    ) -> None:
        super().__init__(config)
        config.timeout_notify, config.callback_notify = _LOOK, self._cut_the_slow
        self._served = served
        self._told = started
        self._seconds = seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        self._told()
        if self._seconds is not None:
            asyncio.get_running_loop().call_later(self._seconds, self.end)

    async def _cut_the_slow(self) -> None:
        for connection in list(self.server_state.connections):
            connection.cut_if_too_slow()  # type: ignore[union-attr]  # all are of our protocol

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller, who was there before the server and stays until after it."""
        yield

    def end(self) -> None:
        """Answer the requests that are under way, then stop."""
        self.should_exit = True

    def abort(self) -> None:
        self.should_exit = self.force_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._served.end_streams()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket that nobody else has; port 0 finds a free one."""
    if port >= _PORTS:
        raise InvalidInput(f"There is no port {port}: the last is {_PORTS - 1}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as undo:
            listening = undo.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
            undo.pop_all()
    except (OSError, UnicodeError) as error:
        taken = (
            "it is taken"
            if getattr(error, "errno", 0) == errno.EADDRINUSE
            else getattr(error, "strerror", "no address")
        )
        raise InvalidInput(f"Cannot listen on {host}, port {port}: {taken}. Choose with --host and --port.") from None
    return listening


def make_server(
    open_desk: Callable[[], Desk],
    scope: str,
    doors: Doors,
    started: Callable[[], None],
    seconds: float | None = None,
) -> Server:
    served = Served(open_desk, scope, doors)
    config = uvicorn.Config(
        served,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        http=Protocol,
    )
    return Server(config, served, started, seconds)
