"""The network between a client and Neo4j. Bolt: messages in chunks, each begins with its kind."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dibs.lab.torture.network.proxies import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = b"\x00\x02\xb0\x12\x00\x00"
_SUMMARIES = {0x70, 0x7E, 0x7F}  # SUCCESS, IGNORED, FAILURE: one ends the answer to each message


class BoltProxy(Proxy):
    def __init__(self, server: str) -> None:
        """`server` is a `bolt://` URL with a user and a password."""
        self._server = urlsplit(server)
        super().__init__(self._dial, _is_whole)

    def url(self, **options: object) -> str:
        """The server's URL by way of us, and more: `url(timeout=1)`."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"bolt://{self._server.username}:{self._server.password}@127.0.0.1:{self.port}?{asked}"

    def _dial(self) -> socket.socket:
        return socket.create_connection((self._server.hostname or "", self._server.port or 7687))


def _is_whole(request: bytes, answer: bytes) -> bool:
    """Whether the server has answered every message of a request."""
    return sum(kind in _SUMMARIES for kind in _kinds(answer)) >= len(list(_kinds(request)))


def _kinds(sent: bytes) -> Iterator[int]:
    """The kind of each whole message."""
    at, message = 0, b""
    while at + 2 <= len(sent):
        size = int.from_bytes(sent[at : at + 2], "big")
        if size == 0 and message:
            yield message[1]
            message = b""
        message += sent[at + 2 : at + 2 + size]
        at += 2 + size
