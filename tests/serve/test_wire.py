"""What happens on a connection: patience and its end, requests behind each other, and clients who go."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.serve import protocol
from dibs.serve.doors import Doors
from dibs.serve.server import listen, make_server
from dibs.stores.opening import open_store
from serve.place import new_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD, BODY, TAKE = 1.0, 4.0, 2.0  # seconds, instead of ten and more; a body has more than a head and the look at it
LOOK = 2.5  # the server looks every second, and this machine may be busy
HOST = b"host: localhost\r\n"
CLAIM = b"POST /api/v1/claims HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
COUNTS = b"GET /api/v1/counts HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return new_store(tmp_path)


@pytest.fixture
def port(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server in this process, with less patience."""
    for name, seconds in (("HEAD_SECONDS", HEAD), ("BODY_SECONDS", BODY), ("TAKE_SECONDS", TAKE)):
        monkeypatch.setattr(protocol, name, seconds)
    listening = listen("127.0.0.1", 0)
    number: int = listening.getsockname()[1]
    started = threading.Event()
    server = make_server(lambda: open_store(store), "default", Doors(None, 0), started.set)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    assert started.wait(20)
    yield number
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def line_to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


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
def test_who_does_not_say_what_they_want_is_told_that_the_time_is_over(port: int, said: bytes) -> None:
    with line_to(port) as line:
        line.sendall(said)
        assert problem_of(all_of(line)) == (b"408", "TOO_SLOW")


def test_what_cannot_be_read_is_told_in_the_same_way_as_all_else(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert problem_of(all_of(line)) == (b"400", "AMBIGUOUS_REQUEST")


def test_a_head_without_end_is_refused_before_its_time_is_over(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"x-long: " + b"a" * (protocol.HEAD_MOST + 1))
        assert problem_of(all_of(line)) == (b"400", "AMBIGUOUS_REQUEST")


def test_a_body_has_more_time_than_a_head_and_not_for_ever(port: int, store: str) -> None:
    _add(store)
    began = time.monotonic()
    with line_to(port) as line:
        line.sendall(CLAIM + b'content-length: 15\r\n\r\n{"agent"')
        assert problem_of(all_of(line)) == (b"408", "TOO_SLOW")
    assert time.monotonic() - began >= BODY
    with open_store(store) as opened:
        assert opened.counts("default").claimable == 1


def test_a_body_that_comes_in_pieces_is_read_whole(port: int, store: str) -> None:
    _add(store)
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n")
        for letter in b'{"agent":"ada"}':
            line.sendall(bytes([letter]))
        assert b'"agent":"ada"' in _one(line)


def test_who_goes_on_after_the_answer_is_passed_over_and_then_cut_off(port: int) -> None:
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 1000000000\r\n\r\n")
        assert b" 413 " in line.recv(65536)
        began = time.monotonic()
        assert all_of(line) == b"", "one answer to one request"
        assert time.monotonic() - began < HEAD + LOOK + 5


def test_who_takes_nothing_is_cut_off(port: int) -> None:
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", port))
        line.settimeout(20)
        asked = 200
        line.sendall((b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * asked)
        time.sleep(TAKE + LOOK)
        got = all_of(line)
    assert 0 < got.count(b"HTTP/1.1 200") < asked


def test_requests_behind_each_other_are_answered_in_order_and_the_last_may_listen_long(port: int, store: str) -> None:
    events = b"GET /api/v1/events HTTP/1.1\r\n" + HOST + b"accept: text/event-stream\r\n\r\n"
    with line_to(port) as line:
        line.sendall(COUNTS + COUNTS + events)
        got = _until(line, b"event: hello")
        assert got.count(b"HTTP/1.1 200") == 3
        time.sleep(HEAD + LOOK)
        _add(store)
        assert b'"verb": "add"' in _until(line, b'"verb"')


def test_nonsense_behind_a_request_costs_that_one_no_answer(port: int, store: str) -> None:
    _add(store)
    body = b'{"agent":"ada"}'
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n" + body + b"no request at all\r\n\r\n")
        got = all_of(line)
    assert got.count(b"HTTP/1.1") == 1, "nothing that could be taken for the answer to another"
    assert b'"agent":"ada"' in got
    assert b"connection: close" in got


def test_who_wants_to_go_on_in_another_protocol_is_answered_in_this_one_and_left(port: int) -> None:
    with line_to(port) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n" + COUNTS)
        got = all_of(line)
    assert got.count(b"HTTP/1.1") == 1
    assert b"connection: close" in got
    assert b'{"status":"ok"}' in got


def test_who_goes_in_the_middle_of_a_request_is_no_mistake(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with line_to(port) as line:
        line.sendall(CLAIM + b"content-length: 15\r\n\r\n{")
    with line_to(port) as line:
        line.sendall(COUNTS)
        assert b" 200 " in line.recv(65536)
    assert not caplog.records


def _add(store: str) -> None:
    with open_store(store) as opened:
        Desk(opened).add([Draft("Task")])


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
