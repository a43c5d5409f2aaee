"""Ports for tests that need one where no server answers, or one for a server that is started later."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that refuses connections. It stays bound, so no other process can use it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        yield port


def reserved_port() -> socket.socket:
    """A bound socket: until it is closed, only servers can use its port, and no connection or other test gets it."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))  # it never listens, so that a server can
    return reserved
