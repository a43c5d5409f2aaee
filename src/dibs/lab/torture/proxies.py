"""Proxies between a client and PostgreSQL, Neo4j or an HTTP server that break the connection at a chosen point.

A proxy listens on loopback and forwards everything to the server. It recognises complete answers, so it can forward a
request, wait until the server has executed it, and then withhold the answer: committed, but without confirmation.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import threading
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from dibs.stores.port import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_TICK = 0.01
_CHUNK = 65536
_PATIENCE = 30.0
_ROOM_FOR_WORDS = 256


class Ending(Enum):
    """What the client notices of a broken connection: a reset at once, or nothing at all."""

    RESET = "reset"
    SILENCE = "silence"


class Trap:
    """Waits for a request with certain words in it. `sprung` is set when it has done its work."""

    def __init__(self, words: bytes, ending: Ending, *, answer: bool) -> None:
        self.words = words
        self.ending = ending
        self.answer = answer  # which part is lost: the answer or the request
        self.taken = False
        self.sprung = threading.Event()

    def wait(self) -> None:
        if not self.sprung.wait(_PATIENCE):
            raise TimeoutError(f"there was no request for {self.words!r}")


class Proxy(Closing):
    """A proxy for any number of connections to one server. Settings apply to present and future connections."""

    def __init__(self, dial: Callable[[], socket.socket], is_whole: Callable[[bytes, bytes], bool]) -> None:
        """`dial` connects to the server; `is_whole` says whether the answer to a request is complete."""
        self.dial = dial
        self.is_whole = is_whole
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._traps: list[Trap] = []
        self._lines: list[_ProxiedConnection] = []
        self._over = False
        self.silent = False
        self.refusing = False
        self.delay = 0.0  # seconds that every piece of an answer takes longer
        self.accepted = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def lose_answer(self, words: str | bytes, ending: Ending = Ending.RESET) -> Trap:
        """The next request with these words is carried out, and its answer never comes."""
        return self._lay(Trap(_bytes(words), ending, answer=True))

    def lose_request(self, words: str | bytes, ending: Ending = Ending.RESET) -> Trap:
        """The next request with these words does not get as far as the server."""
        return self._lay(Trap(_bytes(words), ending, answer=False))

    def cut(self) -> int:
        """Reset every connection there is; how many. New ones work."""
        lines = self._living()
        for line in lines:
            line.cut()
        return len(lines)

    def freeze(self) -> int:
        """Half-open: those there are stay open and nothing passes on them any more, ever. New ones work."""
        lines = self._living()
        for line in lines:
            line.frozen = True
        return len(lines)

    def black_hole(self) -> None:
        """Nothing passes on any connection. New ones are accepted, and that is all that happens."""
        self.silent = True
        self.freeze()

    def refuse(self) -> None:
        """Every connection is reset, also those to come."""
        self.refusing = True
        self.cut()

    def heal(self) -> None:
        """New connections work. Those that were frozen stay so."""
        self.silent = self.refusing = False
        self.delay = 0.0

    def close(self) -> None:
        self._over = True
        self.cut()
        self._thread.join(_PATIENCE)
        self._listener.close()

    def spring(self, said: bytes) -> Trap | None:
        """The trap that these words run into, if any; each is for one."""
        with self._lock:
            for trap in self._traps:
                if not trap.taken and trap.words in said:
                    trap.taken = True
                    return trap
        return None

    def _lay(self, trap: Trap) -> Trap:
        with self._lock:
            self._traps = [each for each in self._traps if not each.taken] + [trap]
        return trap

    def _living(self) -> list[_ProxiedConnection]:
        with self._lock:
            self._lines = [line for line in self._lines if line.is_alive()]
            return list(self._lines)

    def _accept(self) -> None:
        while not self._over:
            if not select.select([self._listener], [], [], _TICK)[0]:
                continue
            client, _ = self._listener.accept()
            self.accepted += 1
            if self.refusing:
                _reset(client)
                continue
            line = _ProxiedConnection(self, client)
            with self._lock:
                self._lines.append(line)
            line.frozen = self.silent
            line.start()


class _ProxiedConnection(threading.Thread):
    """One connection. Only its own thread touches its sockets, so that it can end them in the way it means to."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        super().__init__(daemon=True)
        self._proxy = proxy
        self._client = client
        self._said = b""
        self._request = b""
        self._answer = b""
        self._trap: Trap | None = None
        self._cut = threading.Event()
        self.frozen = False

    def cut(self) -> None:
        """Have it reset, and wait until it is."""
        self._cut.set()
        self.join(_PATIENCE)

    def run(self) -> None:
        try:
            with self._proxy.dial() as server:
                self._pass_on(server)
        except OSError:
            pass  # either end has gone; so does the other
        finally:
            _reset(self._client)

    def _pass_on(self, server: socket.socket) -> None:
        while not self._cut.is_set():
            if self.frozen:
                self._cut.wait(_TICK)
                continue
            ready = select.select([self._client, server], [], [], _TICK)[0]
            if self.frozen:
                continue
            if self._client in ready and not self._from_client(server):
                return
            if server in ready and not self._from_server(server):
                return

    def _from_client(self, server: socket.socket) -> bool:
        piece = self._client.recv(_CHUNK)
        if not piece:
            return False
        said = self._said + piece  # words may be torn apart on the way
        self._said = said[-_ROOM_FOR_WORDS:]
        if self._trap is None:
            self._trap = self._proxy.spring(said)
            self._request = piece
            if self._trap is not None and not self._trap.answer:
                return self._end(self._trap)
        server.sendall(piece)
        return True

    def _from_server(self, server: socket.socket) -> bool:
        piece = server.recv(_CHUNK)
        if not piece:
            return False
        if self._trap is not None:
            self._answer += piece
            return self._end(self._trap) if self._proxy.is_whole(self._request, self._answer) else True
        if self._proxy.delay and self._cut.wait(self._proxy.delay):
            return False
        self._client.sendall(piece)
        return True

    def _end(self, trap: Trap) -> bool:
        """Whether the connection stays open."""
        self.frozen = trap.ending is Ending.SILENCE
        if not self.frozen:
            _reset(self._client)
        trap.sprung.set()
        return self.frozen


def _bytes(words: str | bytes) -> bytes:
    return words.encode() if isinstance(words, str) else words


def _reset(client: socket.socket) -> None:
    """End it without a word of goodbye."""
    if client.fileno() < 0:
        return
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


BOLT_COMMIT = b"\x00\x02\xb0\x12\x00\x00"
_BOLT_SUMMARIES = {0x70, 0x7E, 0x7F}  # SUCCESS, IGNORED, FAILURE: one ends the answer to each message


class BoltProxy(Proxy):
    """For Neo4j. Bolt sends messages in chunks; each message begins with its kind."""

    def __init__(self, server: str) -> None:
        """`server` is a `bolt://` URL with a user and a password."""
        self._server = urlsplit(server)
        super().__init__(self._dial, _bolt_is_whole)

    def url(self, **options: object) -> str:
        """The server's URL by way of us, and more: `url(timeout=1)`."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"bolt://{self._server.username}:{self._server.password}@127.0.0.1:{self.port}?{asked}"

    def _dial(self) -> socket.socket:
        return socket.create_connection((self._server.hostname or "", self._server.port or 7687))


def _bolt_is_whole(request: bytes, answer: bytes) -> bool:
    """Whether the server has answered every message of a request."""
    return sum(kind in _BOLT_SUMMARIES for kind in _bolt_kinds(answer)) >= len(list(_bolt_kinds(request)))


def _bolt_kinds(sent: bytes) -> Iterator[int]:
    """The kind of each whole message."""
    at, message = 0, b""
    while at + 2 <= len(sent):
        size = int.from_bytes(sent[at : at + 2], "big")
        if size == 0 and message:
            yield message[1]
            message = b""
        message += sent[at + 2 : at + 2 + size]
        at += 2 + size


_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)


class HttpProxy(Proxy):
    def __init__(self, server: str) -> None:
        """`server` is an `http://` address; TLS would notice the proxy."""
        self._server = urlsplit(server)
        super().__init__(self._dial, _http_is_whole)

    @property
    def url(self) -> str:
        """The server's address by way of us."""
        return f"http://127.0.0.1:{self.port}{self._server.path}"

    def _dial(self) -> socket.socket:
        return socket.create_connection((self._server.hostname or "", self._server.port or 80))


def _http_is_whole(_request: bytes, answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])


class PostgresProxy(Proxy):
    def __init__(self, server: str) -> None:
        from psycopg2.extensions import parse_dsn

        self._server = {name: str(value) for name, value in parse_dsn(server).items()}
        super().__init__(self._dial, _postgres_is_whole)

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


def _postgres_is_whole(_request: bytes, answer: bytes) -> bool:
    """Whether the server has said that it is done: a message is a letter, its length, and so many bytes."""
    at = 0
    while at + 5 <= len(answer):
        if answer[at : at + 1] == b"Z":
            return True
        at += 1 + int(struct.unpack_from("!I", answer, at + 1)[0])
    return False
