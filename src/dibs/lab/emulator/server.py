"""An HTTP/1.1 server on loopback, with one thread per connection and as much of HTTP as API clients use."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE = 65_536
_HEADERS = 200
_BODY = 16 * 1024 * 1024


class Request(NamedTuple):
    """A request, with header names in lower case and the path unquoted."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def json_answer(status: int, said: Any, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return Answer(status, body, (("Content-Type", "application/json; charset=utf-8"), *headers))


def converse(connection: socket.socket, answer: Callable[[Request], Answer | None]) -> None:
    """Answer requests until either side closes. No answer closes the connection."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection.makefile("rb") as stream:
        while True:
            request = _read(stream, connection)
            if request is None:
                return
            answered = answer(request)
            if answered is None:
                return
            stay = request.headers.get("connection", "").lower() != "close"
            connection.sendall(_bytes(answered, stay=stay))
            if not stay:
                return


def _read(stream: BinaryIO, connection: socket.socket) -> Request | None:
    words = stream.readline(_LINE).decode("latin-1").split()
    if len(words) != len(("GET", "/path", "HTTP/1.1")):
        return None
    method, target, _ = words
    headers = _headers(stream)
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = _body(stream, headers)
    if body is None:
        return None
    address = urlsplit(target)
    return Request(method, unquote(address.path), parse_qs(address.query, keep_blank_values=True), headers, body)


def _headers(stream: BinaryIO) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(_HEADERS):
        line = stream.readline(_LINE).decode("latin-1").strip()
        if not line:
            break
        name, _, value = line.partition(":")
        found[name.lower()] = value.strip()
    return found


def _body(stream: BinaryIO, headers: dict[str, str]) -> bytes | None:
    """Read the body; None if the client has gone or sent an invalid length."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(stream)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > _BODY:
        return None
    body = stream.read(int(length))
    return body if len(body) == int(length) else None


def _chunks(stream: BinaryIO) -> bytes | None:
    found = bytearray()
    while len(found) <= _BODY:
        try:
            size = int(stream.readline(_LINE).split(b";")[0], 16)
        except ValueError:
            return None
        found += stream.read(size)
        stream.readline(_LINE)
        if size == 0:
            return bytes(found)
    return None


def _bytes(answer: Answer, *, stay: bool) -> bytes:
    try:
        reason = HTTPStatus(answer.status).phrase
    except ValueError:
        reason = "Overloaded"  # 529 is not in the standard
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in answer.headers)]
    lines += [f"Content-Length: {len(answer.body)}", f"Connection: {'keep-alive' if stay else 'close'}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body


HOST = "127.0.0.1"
_BACKLOG = 256
_PATIENCE = 5.0


class Server:
    """A listener on loopback with one thread per connection."""

    def __init__(self, answer: Callable[[Request], Answer | None], stopping: threading.Event, port: int = 0) -> None:
        self._answer = answer
        self._stopping = stopping
        self._listener = socket.create_server((HOST, port), backlog=_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._thread = threading.Thread(target=self._accept, name="notion-emulator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop serving; after this returns, no request is answered."""
        self._stopping.set()
        if self._thread.is_alive():
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                pass  # wakes the accepting thread
            self._thread.join(_PATIENCE)
        self._listener.close()
        with self._lock:
            still_open = list(self._open.items())
        for connection, _ in still_open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for _, thread in still_open:
            thread.join(_PATIENCE)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue  # the client has already gone
            thread = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            with self._lock:
                self._open[connection] = thread
            thread.start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):  # a client may close at any time
                if not self._stopping.is_set():
                    converse(connection, self._answer)
        finally:
            with self._lock:
                self._open.pop(connection, None)
