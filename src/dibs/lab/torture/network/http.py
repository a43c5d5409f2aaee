"""The network between a client and an HTTP server."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from dibs.lab.torture.network.proxies import Proxy

_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)


class HttpProxy(Proxy):
    def __init__(self, server: str) -> None:
        """`server` is an `http://` address; what is encrypted knows whom it talks to."""
        self._server = urlsplit(server)
        super().__init__(self._dial, _is_whole)

    @property
    def url(self) -> str:
        """The server's address by way of us."""
        return f"http://127.0.0.1:{self.port}{self._server.path}"

    def _dial(self) -> socket.socket:
        return socket.create_connection((self._server.hostname or "", self._server.port or 80))


def _is_whole(_request: bytes, answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])
