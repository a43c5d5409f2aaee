"""A server in this process, so that tests can give its store their clock, and stores that go through it."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.desk import Desk
from dibs.serve.access import AccessControl
from dibs.serve.server import listen, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.stores.port import Store


class RemoteServer:
    """A real server on loopback in a thread, from when it listens until it is ended."""

    def __init__(self, open_store: Callable[[], Store], secrets: Sequence[bytes] = ()) -> None:
        self._listening = listen("127.0.0.1", 0)
        started = threading.Event()
        self._server = make_server(lambda: Desk(open_store()), "default", AccessControl(secrets, 0), started.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listening]}, name="server", daemon=True
        )
        self._thread.start()
        assert started.wait(120), "the server did not start"
        self.port: int = self._listening.getsockname()[1]

    @property
    def url(self) -> str:
        """For a busy machine: a client waits for long before it gives up."""
        return f"http://127.0.0.1:{self.port}?timeout=90"

    def end(self) -> None:
        self._server.end()
        self._thread.join(120)
        self._listening.close()
        assert not self._thread.is_alive(), "the server did not end"


class BadNetwork:
    """A proxy on loopback between clients and a server, which fails on request."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.next_target = 0  # the one from the next lost answer on
        self.meanwhile: Callable[[], object] = lambda: None  # for lost answers
        self.lose_answers = 0  # so many answers are dropped, with their connections
        self.duplicate = False  # every request is sent twice, the second time on a new connection
        self.cut = False
        self.troubled = False  # it loses, delays and duplicates some requests and answers
        self._dice = random.Random(1)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._again: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name="network", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Return when every duplicate was answered."""
        for thread in self._again:
            thread.join(120)

    def break_connections(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.break_connections()
        self._thread.join(120)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.cut:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self.target)) as server:
            self._open.add(server)
            while request := message_of(client):
                if self.cut:
                    return
                if self.duplicate:
                    self._again.append(threading.Thread(target=self._send_again, args=(request,), daemon=True))
                    self._again[-1].start()
                if self._unlucky(0.02):  # the request is lost
                    return
                if self._unlucky(0.02):
                    self._again.append(threading.Thread(target=self._send_again, args=(request,), daemon=True))
                    self._again[-1].start()
                if self._unlucky(0.1):
                    time.sleep(self._dice.random() / 20)
                server.sendall(request)
                answer = message_of(server)
                if self._unlucky(0.02):  # the answer is lost
                    return
                if b"\r\ncontent-length:" not in answer.lower():
                    _relay(answer, server, client)
                    return
                if self.lose_answers:
                    self.lose_answers -= 1
                    self.target, self.next_target = self.next_target or self.target, 0
                    self.meanwhile()
                    return
                client.sendall(answer)

    def _unlucky(self, often: float) -> bool:
        return self.troubled and self._dice.random() < often

    def _send_again(self, request: bytes) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            server.sendall(request)
            message_of(server)


def _relay(answer: bytes, server: socket.socket, client: socket.socket) -> None:
    """Pass a stream on until it is over."""
    while answer:
        client.sendall(answer)
        answer = server.recv(65536)


def message_of(line: socket.socket) -> bytes:
    """One request or answer with a Content-Length."""
    got = b""
    while b"\r\n\r\n" not in got:
        part = line.recv(65536)
        if not part:
            return b""
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [int(row.partition(b":")[2]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:")]
    while lengths and len(body) < lengths[0]:
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body


class UnixSocket:
    """Passes connections to a unix socket on to a server: a way out of a network namespace."""

    def __init__(self, path: str, port: int) -> None:
        self._port = port
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(path)
        self._listening.listen()
        self._thread = threading.Thread(target=self._accept, name="unix socket", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(120)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
