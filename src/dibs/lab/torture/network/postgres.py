"""The network between a client and PostgreSQL."""

from __future__ import annotations

import socket
import struct
from urllib.parse import urlencode

from psycopg2.extensions import parse_dsn

from dibs.lab.torture.network.proxies import Proxy


class PostgresProxy(Proxy):
    def __init__(self, server: str) -> None:
        self._server = {name: str(value) for name, value in parse_dsn(server).items()}
        super().__init__(self._dial, _is_whole)

    def url(self, **options: object) -> str:
        """The server's URL by way of us, and more: `url(timeout=1)`."""
        here = {"hostaddr": "127.0.0.1"}  # the host's name stays, for its certificate
        if self._server.get("host", "/").startswith("/"):
            here = {"host": "127.0.0.1", "sslmode": "disable"}
        return f"postgresql:///?{urlencode(self._server | here | {'port': self.port} | options)}"

    def _dial(self) -> socket.socket:
        host = self._server.get("hostaddr") or self._server.get("host", "localhost")
        port = self._server.get("port", "5432")
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server


def _is_whole(_request: bytes, answer: bytes) -> bool:
    """Whether the server has said that it is done: a message is a letter, its length, and so many bytes."""
    at = 0
    while at + 5 <= len(answer):
        if answer[at : at + 1] == b"Z":
            return True
        at += 1 + int(struct.unpack_from("!I", answer, at + 1)[0])
    return False
