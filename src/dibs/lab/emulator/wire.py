"""HTTP/1.1 on one connection, as much of it as API clients speak: keep-alive, bodies with a length or in chunks."""

import json
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_LINE = 65_536
_HEADERS = 200
_BODY = 16 * 1024 * 1024


class Request(NamedTuple):
    """Header names are in lower case; the path's percent signs are undone."""

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
    """Request by request until one side has enough. No answer at all is a connection that closes."""
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
    """None where the client has gone, or says what cannot be."""
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
        reason = "Overloaded"  # 529, which the standard does not know
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in answer.headers)]
    lines += [f"Content-Length: {len(answer.body)}", f"Connection: {'keep-alive' if stay else 'close'}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body
