"""A listener for Notion's webhooks: proof that it is Notion, then which page. What happened to it is read anew.

A webhook may come late, twice, in any order, or not at all. So it only rings the bell, and nothing is believed of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from dibs.stores.notion.pages import bare, is_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

HOST = "127.0.0.1"
HEADER = "X-Notion-Signature"
_LONGEST = 1_000_000  # bytes; Notion's are small
_PATIENCE = 10.0  # seconds for which somebody may dawdle over a request


def signature(body: bytes, token: str) -> str:
    return "sha256=" + hmac.new(token.encode(), body, hashlib.sha256).hexdigest()


def page_in(body: bytes, signed: str | None, token: str) -> str | None:
    """The page that a webhook is about, if Notion signed it; None where it is about none. PermissionError if not."""
    if not token or signed is None or not hmac.compare_digest(signature(body, token).encode(), signed.encode()):
        raise PermissionError
    said = _json(body)
    entity = said.get("entity")
    if not isinstance(entity, dict) or entity.get("type") != "page" or not is_page(str(entity.get("id"))):
        return None
    return bare(str(entity["id"]))


def offered_token(body: bytes) -> str | None:
    """What Notion sends first of all, for a person to enter there; nothing is signed yet."""
    said = _json(body).get("verification_token")
    return said if isinstance(said, str) and said else None


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


class Listener:
    """On loopback, behind whatever the world reaches. Without a token yet, it waits for the one that Notion offers."""

    def __init__(self, port: int, token: str, ring: Callable[[str], None], offered: Callable[[str], None]) -> None:
        self._server = ThreadingHTTPServer((HOST, port), _handler(token, ring, offered))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="notion-webhook", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE)


def _handler(token: str, ring: Callable[[str], None], offered: Callable[[str], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit() and int(length) <= _LONGEST):
                self._answer(413)
                return
            body = self.rfile.read(int(length))
            if not token and (said := offered_token(body)):
                offered(said)
                self._answer(200)
                return
            try:
                page = page_in(body, self.headers.get(HEADER), token)
            except PermissionError:
                self._answer(401)
                return
            if page is not None:
                ring(page)
            self._answer(200)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name for it
            """What others send does not go into any log."""

    return Handler
