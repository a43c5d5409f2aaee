"""Proxies in front of several servers: Caddy as `deploy/` sets it up, or one of our own that follows the same rules."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Protocol

from docs.pages import ROOT
from support.remote import message_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_INTERVAL = 1.0
_PATIENCE = 60.0


class Balancer(Protocol):
    port: int

    def end(self) -> None: ...


def start_balancer(servers: Sequence[int], folder: Path) -> Balancer:
    """Caddy where it is installed."""
    caddy = os.environ.get("DIBS_TEST_CADDY") or shutil.which("caddy")
    return Caddy(caddy, servers, folder) if caddy else OwnBalancer(servers)


def free_ports(number: int) -> list[int]:
    """Ports that were free a moment ago."""
    bound = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(each.getsockname()[1]) for each in bound]
    for each in bound:
        each.close()
    return ports


class Caddy:
    """The shipped Caddyfile, without TLS and on ports of this machine."""

    def __init__(self, program: str, servers: Sequence[int], folder: Path) -> None:
        self.port, inside = free_ports(2)
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

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)


class OwnBalancer:
    """Sends requests to the healthy servers by rotation, and to the next one if a server does not accept it."""

    def __init__(self, servers: Sequence[int]) -> None:
        self._servers = list(servers)
        self._healthy = list(servers)
        self._turn = 0
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._watch)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL):
            self._healthy = [port for port in self._servers if _healthy(port)]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            while request := message_of(client):
                with self._connected() as server:
                    server.sendall(request)
                    answer = message_of(server)
                client.sendall(answer.replace(b"\r\nconnection: close", b""))

    def _connected(self) -> socket.socket:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self._turn += 1
            healthy = self._healthy
            for place in range(len(healthy)):
                with suppress(OSError):
                    return socket.create_connection(("127.0.0.1", healthy[(self._turn + place) % len(healthy)]))
            time.sleep(0.1)
        raise TimeoutError("no server accepts connections")


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
