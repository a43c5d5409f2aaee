"""A connection to a server: its address, its token, and requests that survive a bad network.

A request is sent again until it is answered or `timeout=` is over. That is safe: reads change nothing, and every write
carries a key under which the server does it once.
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dibs.core.errors import InvalidInput, Misconfigured, StoreReplaced, StoreUnavailable
from dibs.core.messages import command, without_password
from dibs.stores.http.wire import AGAIN, KEY, STORE, error_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPResponse

    from dibs.core.errors import DibsError

Value = TypeVar("Value")

TOKEN, TOKEN_FILE = "DIBS_SERVER_TOKEN", "DIBS_SERVER_TOKEN_FILE"
TIMEOUT = 10.0  # seconds that an outage may last
_TRIES = 3  # within the timeout, if the server accepts a request and sends no answer
_SLOWEST_TRY = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_SILENCE = 30.0  # seconds of silence in a long answer; the server sends something every few seconds
_AGAIN = frozenset({"STORE_BUSY", "STORE_UNAVAILABLE", "TOO_MANY_REQUESTS", "TOO_SLOW"})
_OK = 200
_PORTS = 65_536


class Address(NamedTuple):
    """The address of a server. `path` is the prefix of a proxy; `socket` a unix socket instead of host and port."""

    secure: bool
    host: str
    port: int
    path: str
    timeout: float
    socket: str | None = None

    @property
    def url(self) -> str:
        """The URL for people, under which `dibs login` keeps a token."""
        if self.socket is not None:
            return f"http+unix://{self.socket}"
        usual = self.port == (443 if self.secure else 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}{'' if usual else f':{self.port}'}{self.path}"


def address_of(url: str) -> Address:
    """The address that a URL names: `https://desk.example.org`, `http://127.0.0.1:8420?timeout=30`."""
    from urllib.parse import parse_qsl, urlsplit

    try:
        said = urlsplit(url)
        port = said.port
        options = dict(parse_qsl(said.query, strict_parsing=True)) if said.query else {}
        timeout = float(options.pop("timeout", TIMEOUT))
    except ValueError:
        raise InvalidInput(_wrong(url)) from None
    if said.username is not None or said.password is not None:
        raise InvalidInput(f"The URL of a server holds no password. Set {TOKEN}, or run 'dibs login'.")
    if options or said.fragment or not 0 < timeout <= 86_400:  # noqa: PLR2004 - a day
        raise InvalidInput(_wrong(url))
    path = said.path.rstrip("/")
    if said.scheme == "http+unix":
        if said.netloc or not path:
            raise InvalidInput(_wrong(url))
        return Address(secure=False, host="localhost", port=80, path="", timeout=timeout, socket=path)
    if not said.hostname or not path.isascii() or port == 0:
        raise InvalidInput(_wrong(url))
    secure = said.scheme == "https"
    return Address(secure, said.hostname, port or (443 if secure else 80), path, timeout)


def _wrong(url: str) -> str:
    return (
        f"'{without_password(url)[:80]}' is not the URL of a server: write https://HOST, http://HOST:PORT or "
        "http+unix:///PATH, and if you want to, ?timeout=SECONDS."
    )


# Tokens


def token_for(address: Address) -> str | None:
    """The token to present: of the environment, else the one that `dibs login` has kept for this server."""
    if given := os.environ.get("DIBS_SERVER_TOKEN"):
        return _clean(given, TOKEN)
    if path := os.environ.get("DIBS_SERVER_TOKEN_FILE"):
        try:
            with open(path, encoding="utf-8") as file:
                return _clean(file.read(8192), TOKEN_FILE)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise Misconfigured(f"The file that {TOKEN_FILE} names cannot be read: {why}.") from None
    return kept_tokens().get(address.url)


def token_agent(url: str) -> str | None:
    """The agent that the token for this server names. Only the server can verify it."""
    token = token_for(address_of(url))
    if token is None or token.count(".") != 2:  # noqa: PLR2004 - head, claims, signature
        return None
    from base64 import urlsafe_b64decode

    claims = token.split(".")[1]
    try:
        named = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4))).get("agent")
    except (ValueError, AttributeError):
        return None
    return named if isinstance(named, str) else None


def _clean(given: str, variable: str) -> str:
    token = given.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Misconfigured(f"{variable} holds no token. 'dibs token create' on the server's machine makes one.")
    return token


def tokens_file() -> str:
    """The file in which `dibs login` keeps tokens, readable by its owner only."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "dibs", "tokens.json")


def kept_tokens() -> dict[str, str]:
    """The tokens that `dibs login` has kept, by the URL of their server."""
    path = tokens_file()
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is damaged"
        raise Misconfigured(f"{path} cannot be read: {why}. Remove it and run 'dibs login' again.") from None
    if not isinstance(kept, dict):
        raise Misconfigured(f"{path} is damaged. Remove it and run 'dibs login' again.")
    return {str(url): str(token) for url, token in kept.items()}


def keep_token(address: Address, token: str | None) -> bool:
    """Keep the token of a server, or forget it. Whether one was kept before."""
    path, kept = tokens_file(), kept_tokens()
    known = kept.pop(address.url, None) is not None
    if token is not None:
        kept[address.url] = _clean(token, "The text")
    elif not known:
        return False
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        beside = f"{path}.{os.getpid()}"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
        os.replace(beside, path)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}. Set {TOKEN} instead.") from None
    return known


# Requests


class Unreachable(Exception):
    """A request that got no answer. `sent` means that the server may have acted on it."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.why, self.sent = why, sent


class Connection:
    """One connection, opened at the first request and again after it broke."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address = address
        self._headers = {"Content-Type": "application/json", "User-Agent": "dibs"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._line: HTTPConnection | None = None
        self.again = False  # the last request may have been carried out before its answer was lost
        self.store: str | None = None  # the id of the store, once known

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def post(self, path: str, body: object, key: str | None) -> Any:
        """The answer to a request, which is repeated until the timeout."""
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
        return self._patiently(lambda patience: self._once("POST", path, sent, key, patience), key)

    def lines(self, path: str, body: object, key: str | None) -> Iterator[Any]:
        """The lines of a long answer. The request is repeated as long as no line has come."""
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
        answer = self._patiently(lambda _: self._begun("POST", path, sent, key, _SILENCE), key)
        try:
            while line := answer.readline():
                if line.strip():
                    yield json.loads(line)
        except (OSError, HTTPException, ValueError) as error:
            raise self._unavailable(_why(error), sent=True, write=key is not None) from None
        finally:
            self.close()

    def stream(self, path: str) -> HTTPResponse:
        """A stream of events, to be read line by line."""
        return self._patiently(lambda _: self._begun("GET", path, None, None, _SILENCE), None)

    def interrupt(self) -> None:
        """Make another thread's read of this connection end."""
        line = self._line
        sock = None if line is None else line.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(2)  # SHUT_RDWR

    def _patiently(self, ask: Callable[[float], Value], key: str | None) -> Value:
        limit = self.address.timeout
        deadline, pause, sent = time.monotonic() + limit, _FIRST_PAUSE, False
        self.again = False
        while True:
            refusal: DibsError | None = None
            try:
                return ask(max(_SLOWEST_TRY, limit / _TRIES))
            except Unreachable as error:
                why, sent = error.why, sent or error.sent
                self.again = sent
            except Busy as error:
                refusal, why = error.told, error.told.message
                pause = max(pause, (error.told.retry_after_ms or 0) / 1000)
            self.close()
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - so that a fleet does not retry in step
            if time.monotonic() + pause >= deadline:
                raise refusal or self._unavailable(why, sent=sent, write=key is not None)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes | None, key: str | None, patience: float) -> Any:
        answer = self._begun(method, path, body, key, patience)
        try:
            return json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(_why(error), sent=True) from None

    def _begun(self, method: str, path: str, body: bytes | None, key: str | None, patience: float) -> HTTPResponse:
        """The beginning of an answer with status 200. Raise the error of another status."""
        headers = self._headers
        if key is not None:
            headers = {**headers, KEY: key, **({AGAIN: "1"} if self.again else {})}
        if self.store is not None:
            headers = {**headers, STORE: self.store}
        sent = False
        try:
            line = self._line or self._connected(patience)
            if line.sock is not None:
                line.sock.settimeout(patience)
            line.request(method, self.address.path + path, body, headers)
            sent = True
            answer = line.getresponse()
            if answer.status == _OK:
                self._recognise(answer.getheader(STORE))
                return answer
            told = answer.read(1 << 20)
        except (OSError, HTTPException) as error:
            self.close()
            raise Unreachable(_why(error), sent=sent) from None
        raise self._refused(answer, told)

    def _connected(self, patience: float) -> HTTPConnection:
        address = self.address
        line: HTTPConnection
        if address.socket is not None:
            line = _UnixConnection(address.socket, patience)
        elif address.secure:
            from http.client import HTTPSConnection

            line = HTTPSConnection(address.host, address.port, timeout=patience)
        else:
            line = HTTPConnection(address.host, address.port, timeout=patience)
        line.connect()
        self._line = line
        return line

    def _recognise(self, store: str | None) -> None:
        """Raise StoreReplaced if the server has another store than the one that was opened."""
        if store is None:
            return
        if self.store is not None and store != self.store:
            raise StoreReplaced(
                f"The server at {self.address.url} has another store than before. Nothing more was written. Start "
                "again to use the new one."
            )
        self.store = store

    def _refused(self, answer: HTTPResponse, body: bytes) -> Exception:
        """The error of an answer with another status."""
        problem = answer.headers.get_content_type() == "application/problem+json"
        try:
            told = json.loads(body) if problem else None
        except ValueError:
            told = None
        if not isinstance(told, dict):
            if answer.status in {502, 503, 504, 429, 408}:  # a proxy without its server
                return Unreachable(f"HTTP {answer.status}", sent=answer.status == 504)  # noqa: PLR2004
            return Misconfigured(
                f"{self.address.url} answers, but not as a dibs server (HTTP {answer.status}). Check the URL."
            )
        if told.get("code") == "UNAUTHENTICATED":
            return self._no_token()
        error = error_from(told)
        return Busy(error) if error.code in _AGAIN else error

    def _no_token(self) -> Misconfigured:
        given = "it rejected the given one" if "Authorization" in self._headers else "none was given"
        login = command("dibs", "login", self.address.url)
        return Misconfigured(
            f"The server at {self.address.url} needs a token, and {given}. Set {TOKEN} or {TOKEN_FILE}, or run "
            f"'{login}'; 'dibs token create' on the server's machine makes one."
        )

    def _unavailable(self, why: str, *, sent: bool, write: bool) -> StoreUnavailable:
        unsure = " Whether the last request was carried out is not known." if sent and write else ""
        return StoreUnavailable(
            f"The server at {self.address.url} does not answer ({why}).{unsure} Check that it runs, then try again."
        )


class Busy(Exception):
    """The server is temporarily unable to answer."""

    def __init__(self, told: DibsError) -> None:
        super().__init__(told.message)
        self.told = told


class _UnixConnection(HTTPConnection):
    """A connection over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        import socket

        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
