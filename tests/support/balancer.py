"""Proxies in front of several servers: Caddy as `deploy/` sets it up, or one of our own that follows the same rules."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Protocol

from docs.pages import ROOT
from support.ports import reserved_port
from support.remote import message_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_INTERVAL = 1.0
_PATIENCE = 120.0


class Balancer(Protocol):
    port: int

    def leave(self, server: int) -> None:
        """Return when it sends no more requests to this draining server."""

    def find(self, server: int) -> None:
        """Return when it sends requests to this server again."""

    def end(self) -> None: ...


def start_balancer(servers: Sequence[int], folder: Path) -> Balancer:
    """Caddy where it is installed."""
    caddy = os.environ.get("DIBS_TEST_CADDY") or shutil.which("caddy")
    return Caddy(caddy, servers, folder) if caddy else OwnBalancer(servers)


class Caddy:
    """The shipped Caddyfile, without TLS and on ports of this machine."""

    def __init__(self, program: str, servers: Sequence[int], folder: Path) -> None:
        self._reserved = [reserved_port() for _ in range(2)]
        self.port, inside = (int(each.getsockname()[1]) for each in self._reserved)
        environment = {
            **os.environ,
            "SITE": f"http://127.0.0.1:{self.port}",
            "INSIDE": f"http://127.0.0.1:{inside}",
            "SERVERS": " ".join(f"127.0.0.1:{port}" for port in servers),
            "HOME": str(folder),
        }
        config = str(ROOT / "deploy" / "container" / "Caddyfile")
        self._process = subprocess.Popen(
            [program, "run", "--adapter", "caddyfile", "--config", config], env=environment, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _PATIENCE
        while not _healthy(self.port):
            assert time.monotonic() < deadline, "Caddy did not start"
            time.sleep(0.1)

    def leave(self, server: int) -> None:  # noqa: ARG002 - another kind needs it
        time.sleep(4 * _INTERVAL)  # it reports no change of its list

    find = leave

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        for each in self._reserved:
            each.close()


class OwnBalancer:
    """Sends requests to the healthy servers by rotation, and to the next one if a server does not accept it."""

    def __init__(self, servers: Sequence[int]) -> None:
        self._servers = list(servers)
        self._changed = threading.Condition()
        self._healthy = list(servers)
        self._under_way: Counter[int | None] = Counter()  # requests at each server
        self._turn = 0
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._watch)]
        for thread in self._threads:
            thread.start()

    def leave(self, server: int) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: server not in self._healthy and not self._under_way[server], _PATIENCE
            ), "the server does not report that it drains"

    def find(self, server: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: server in self._healthy, _PATIENCE), "the server is not healthy"

    def end(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL):
            healthy = [port for port in self._servers if _healthy(port)]
            with self._changed:
                self._healthy = healthy
                self._changed.notify_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            while request := message_of(client):
                client.sendall(self._answered(request).replace(b"\r\nconnection: close", b""))

    def _answered(self, request: bytes) -> bytes:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with self._chosen() as port, _connected(port) as server:
                if server is not None:
                    server.sendall(request)
                    return message_of(server)
            time.sleep(0.02)
        raise TimeoutError("no server accepts connections")

    @contextmanager
    def _chosen(self) -> Iterator[int | None]:
        with self._changed:
            self._turn += 1
            port = self._healthy[self._turn % len(self._healthy)] if self._healthy else None
            self._under_way[port] += 1
        try:
            yield port
        finally:
            with self._changed:
                self._under_way[port] -= 1
                self._changed.notify_all()


@contextmanager
def _connected(port: int | None) -> Iterator[socket.socket | None]:
    """A connection to this server, or None if it accepts none."""
    try:
        server = None if port is None else socket.create_connection(("127.0.0.1", port))
    except OSError:
        server = None
    with server or nullcontext():
        yield server


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
