"""Connections: time limits, pipelined requests, and clients that leave."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from dibs.core.task import Draft
from dibs.desk import open_desk
from dibs.serve import server as server_module
from dibs.serve.access import AccessControl
from dibs.serve.server import listen, make_server
from support.http import PATIENCE, new_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.serve.server import Protocol, Server

T = TypeVar("T")

LONG = 3600.0  # seconds; no client is too slow unless a test lowers it
HOST = b"host: localhost\r\n"
CLAIM = b"POST /api/v1/claims HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
COUNTS = b"GET /api/v1/counts HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return new_store(tmp_path)


class Patience:
    """How long the server waits for slow clients: for ever, until a test shortens one of the limits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.limit(head=LONG, body=LONG, take=LONG)

    def limit(self, **seconds: float) -> None:
        for name, limit in seconds.items():
            self._monkeypatch.setattr(server_module, f"{name.upper()}_SECONDS", limit)


class Running(NamedTuple):
    """A server in this process."""

    port: int
    server: Server
    patience: Patience

    def connection(self) -> Protocol:
        """The server's end of the only connection."""
        (found,) = _eventually(lambda: self.server.server_state.connections)
        assert isinstance(found, server_module.Protocol)
        return found

    def looks_twice(self) -> None:
        """Return after the server has looked for slow clients at every connection."""
        for _ in range(2):  # in the look that cuts off the first one, another connection may come later
            with line_to(self.port) as slow:
                assert problem_of(all_of(slow)) == (b"408", "TOO_SLOW")


@pytest.fixture
def running(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    patience = Patience(monkeypatch)
    listening = listen("127.0.0.1", 0)
    number: int = listening.getsockname()[1]
    started = threading.Event()
    server = make_server(lambda: open_desk(store), "default", AccessControl((), 0), started.set)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    assert started.wait(PATIENCE)
    yield Running(number, server, patience)
    server.should_exit = True
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture
def port(running: Running) -> int:
    return running.port


def line_to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def _eventually(found: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value


def all_of(line: socket.socket) -> bytes:
    """Until the server ends it."""
    got = b""
    try:
        while part := line.recv(65536):
            got += part
    except ConnectionResetError:
        return got
    return got


def problem_of(got: bytes) -> tuple[bytes, str]:
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head.lower()
    return head.split(b" ")[1], json.loads(body)["code"]


@pytest.mark.parametrize("said", [b"GET /api/v1/counts HTTP/1.1\r\nhost: loc", b""], ids=["half a head", "nothing"])
def test_incomplete_request_is_answered_with_408(running: Running, said: bytes) -> None:
    with line_to(running.port) as line:
        line.sendall(said)
        running.patience.limit(head=0)
        assert problem_of(all_of(line)) == (b"408", "TOO_SLOW")


def test_slow_senders_delay_no_other_and_are_cut_off(running: Running) -> None:
    """Fifty of them. A letter now and then does not buy more time."""
    lines = [line_to(running.port) for _ in range(50)]
    for line in lines:
        line.sendall(b"GET /api/v1/tasks HTTP/1.1\r\nhost: local")
    _eventually(lambda: len(running.server.server_state.connections) == len(lines))
    with line_to(running.port) as other:
        other.sendall(COUNTS)
        assert b" 200 " in other.recv(65536)
    running.patience.limit(head=0.5)
    ended = threading.Event()
    dripping = threading.Thread(target=_drip, args=(lines[:5], ended))
    dripping.start()
    for line in lines:
        got = all_of(line)
        assert got == b"" or b" 408 " in got
    ended.set()
    dripping.join()
    for line in lines:
        line.close()


def _drip(lines: list[socket.socket], ended: threading.Event) -> None:
    while not ended.wait(0.05):
        for line in lines:
            with suppress(OSError):  # it is cut off already
                line.sendall(b"h")


def test_unreadable_request_gets_a_problem_document(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert problem_of(all_of(line)) == (b"400", "AMBIGUOUS_REQUEST")


def test_endless_head_is_refused_early(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"x-long: " + b"a" * (server_module.HEAD_MOST + 1))
        assert problem_of(all_of(line)) == (b"400", "AMBIGUOUS_REQUEST")


def test_slow_body_outlives_the_head_limit_until_its_own(running: Running, store: str) -> None:
    _add(store)
    with line_to(running.port) as line:
        line.sendall(CLAIM + b'content-length: 15\r\n\r\n{"agent"')
        connection = running.connection()
        _eventually(lambda: connection._in_body)
        running.patience.limit(head=0)
        running.looks_twice()
        line.setblocking(False)
        with pytest.raises(BlockingIOError):
            line.recv(1)
        line.settimeout(PATIENCE)
        running.patience.limit(body=0)
        assert problem_of(all_of(line)) == (b"408", "TOO_SLOW")
    with open_desk(store) as desk:
        assert desk.counts().claimable == 1


def test_a_body_that_comes_in_pieces_is_read_whole(port: int, store: str) -> None:
    _add(store)
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n")
        for letter in b'{"agent":"ada"}':
            line.sendall(bytes([letter]))
        assert b'"agent":"ada"' in _one(line)


def test_rest_of_a_refused_request_has_the_head_limit(running: Running) -> None:
    with line_to(running.port) as line:
        line.sendall(CLAIM + b"content-length: 1000000000\r\n\r\n")
        assert b" 413 " in line.recv(65536)
        running.patience.limit(head=0)
        assert all_of(line) == b"", "one answer to one request"


def test_client_that_reads_nothing_is_cut_off(running: Running) -> None:
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(PATIENCE)
        line.connect(("127.0.0.1", running.port))
        asked = 200
        line.sendall((b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * asked)
        connection = running.connection()
        _eventually(lambda: connection._stuck is not None)
        running.patience.limit(take=0)
        _eventually(lambda: not running.server.server_state.connections)
        got = all_of(line)
    assert 0 < got.count(b"HTTP/1.1 200") < asked


def test_pipelined_stream_outlives_the_head_limit(running: Running, store: str) -> None:
    events = b"GET /api/v1/events HTTP/1.1\r\n" + HOST + b"accept: text/event-stream\r\n\r\n"
    with line_to(running.port) as line:
        line.sendall(COUNTS + COUNTS + events)
        got = _until(line, b"event: hello")
        assert got.count(b"HTTP/1.1 200") == 3, "answered in order"
        running.patience.limit(head=0)
        running.looks_twice()
        _add(store)
        assert b'"verb": "add"' in _until(line, b'"verb"')


def test_nonsense_after_a_request_keeps_its_answer(port: int, store: str) -> None:
    _add(store)
    body = b'{"agent":"ada"}'
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n" + body + b"no request at all\r\n\r\n")
        got = all_of(line)
    assert got.count(b"HTTP/1.1") == 1, "nothing that could be taken for the answer to another"
    assert b'"agent":"ada"' in got
    assert b"connection: close" in got


def test_protocol_upgrade_is_refused_and_closed(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n" + COUNTS)
        got = all_of(line)
    assert got.count(b"HTTP/1.1") == 1
    assert b"connection: close" in got
    assert b'{"status":"ok"}' in got


def test_client_leaving_mid_request_is_no_error(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n{")
    with line_to(port) as line:
        line.sendall(COUNTS)
        assert b" 200 " in line.recv(65536)
    assert not caplog.records


def _add(store: str) -> None:
    with open_desk(store) as desk:
        desk.add([Draft("Task")])


def _one(line: socket.socket) -> bytes:
    head, _, body = _until(line, b"\r\n\r\n").partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += line.recv(65536)
    return body


def _until(line: socket.socket, words: bytes) -> bytes:
    got = b""
    while words not in got:
        part = line.recv(65536)
        assert part, got
        got += part
    return got
