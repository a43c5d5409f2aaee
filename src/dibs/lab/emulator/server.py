"""A listener on loopback with a thread for each connection, which ends when it is told to."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.lab.emulator.wire import converse

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.emulator.wire import Answer, Request

HOST = "127.0.0.1"
_BACKLOG = 256
_PATIENCE = 5.0


class Server:
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
        """Nobody is answered any more when this returns."""
        self._stopping.set()
        if self._thread.is_alive():
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                pass  # wakes the thread that waits for connections
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
                continue  # it was gone before it was here
            thread = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            with self._lock:
                self._open[connection] = thread
            thread.start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):  # a client may hang up at any time
                if not self._stopping.is_set():
                    converse(connection, self._answer)
        finally:
            with self._lock:
                self._open.pop(connection, None)
