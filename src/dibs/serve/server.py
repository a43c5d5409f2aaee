"""Listening on an address: HTTP on the wire, time limits for slow clients, and an orderly shutdown.

uvicorn waits for slow clients without a limit. Here, a client that does not send its request or take its answer in time
is cut off. The server checks its connections every second instead of setting a timer for each request.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dibs.core.errors import InvalidInput
from dibs.fleet.supervisor.protocol import clock
from dibs.serve.app import HEADERS, Application
from dibs.serve.problems import Ambiguous, TooSlow, problem

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Transport
    from collections.abc import Callable, Iterator

    from dibs.core.errors import DibsError
    from dibs.desk import Desk
    from dibs.serve.access import AccessControl

HEAD_SECONDS = 10.0  # for the request line and the headers, or for the rest of an answered request
BODY_SECONDS = 30.0
TAKE_SECONDS = 30.0  # for a client to read some of a waiting answer
HEAD_MOST = 32 << 10  # bytes of the request line and the headers
_NOT_ONE_WAY = (
    "The request is ambiguous: it is malformed, names no host or two, gives two lengths, or has more than "
    f"{HEAD_MOST >> 10} KB of headers."
)


class Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_body = False
        self._arrived = 0  # bytes since the last request was whole
        self._awaited: float | None = self.loop.time()  # since when the client has to send
        self._stuck: float | None = None  # since when the client has read nothing

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in the parent class
        super().connection_made(transport)
        self.transport = BatchedTransport(transport, self.loop)  # type: ignore[assignment]  # it has the methods in use

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        super().data_received(data)
        if self._arrived > HEAD_MOST and not self._in_body and not self.transport.is_closing():
            self.send_400_response("too long")

    def on_headers_complete(self) -> None:
        """Refuse a request that two servers might read differently."""
        if sum(name == b"host" for name, _ in self.headers) != 1 and self.parser.get_http_version() != "1.0":
            raise HttpParserError("one host has to be named")
        if (
            self._arrived > HEAD_MOST
            and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_MOST
        ):
            raise HttpParserError("the headers are too long")
        self._in_body = True
        self._awaited = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._arrived = 0
        self._awaited = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        another = bool(self.pipeline)
        super().on_response_complete()
        self._awaited = None if another and not self._in_body else self.loop.time()

    def _unsupported_upgrade_warning(self) -> None:
        """Refuse to switch protocols: answer over HTTP/1.1, then close the connection."""
        self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - every reason gets the same answer
        if self._at_work():
            self.cycle.keep_alive = False
        else:
            self.transport.write(_on_the_wire(Ambiguous(_NOT_ONE_WAY)))
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck = None

    def cut_if_too_slow(self) -> None:
        now = self.loop.time()
        if self._stuck is not None and now - self._stuck > TAKE_SECONDS:
            self.transport.abort()
        elif self._awaited is not None and now - self._awaited > self._patience() and not self.transport.is_closing():
            if not self._being_answered():
                self.transport.write(_on_the_wire(TooSlow("The request did not arrive in time. Send it again.")))
            self.transport.close()

    def _patience(self) -> float:
        return BODY_SECONDS if self._in_body and not self.cycle.response_complete else HEAD_SECONDS

    def _at_work(self) -> bool:
        """Whether the last complete request has no answer yet. It is answered first, then the connection closes."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not self._in_body and not cycle.response_complete

    def _being_answered(self) -> bool:
        """Whether an answer is being sent. A second one would be read as part of it."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and (self._in_body or not cycle.response_complete)


class BatchedTransport:
    """A transport that sends everything written in one turn of the event loop together.

    The head and the body of an answer are written one after the other. Sent apart, each would wake the client.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written = self._written, []
        if written and not self._transport.is_closing():
            self._transport.writelines(written)


def _on_the_wire(error: DibsError) -> bytes:
    answer = problem(error)
    head = b"".join(name + b": " + value + b"\r\n" for name, value in (*answer.raw_headers, *HEADERS))
    return STATUS_LINE[answer.status_code] + head + b"\r\n" + bytes(answer.body)


# The server

GRACE = 10  # seconds for open requests to end
_LOOK = 1  # seconds between looks for slow clients
_PORTS = 65_536


class Server(uvicorn.Server):
    """Drains before it ends, and ends the streams of events before it waits for all connections to close."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        started: Callable[[], None],
        seconds: float | None,
        drain: float,
    ) -> None:
        super().__init__(config)
        config.timeout_notify, config.callback_notify = _LOOK, self._cut_the_slow
        self._application = application
        self._told = started
        self._seconds = seconds
        self._drain = drain
        self._exit_at: float | None = None

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
        """Leave signals to the caller."""
        yield

    async def on_tick(self, counter: int) -> bool:
        if self._exit_at is not None and clock() >= self._exit_at:
            self.should_exit = True
        return await super().on_tick(counter)

    def end(self) -> None:
        """Drain: report that the server is leaving, but answer requests. Then finish those under way and stop.

        A proxy needs the time to notice and to send its requests to another server.
        """
        self._application.drain()
        self._exit_at = clock() + self._drain

    def abort(self) -> None:
        self.should_exit = self.force_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.end_streams()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one."""
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
    access: AccessControl,
    started: Callable[[], None],
    seconds: float | None = None,
    drain: float = 0.0,
) -> Server:
    application = Application(open_desk, scope, access)
    config = uvicorn.Config(
        application,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        http=Protocol,
    )
    return Server(config, application, started, seconds, drain)
