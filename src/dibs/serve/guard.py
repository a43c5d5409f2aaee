"""What stands before everything else: who is let in, what every answer carries, and errors that become answers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from dibs.core.errors import DibsError
from dibs.serve.problems import problem, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from dibs.serve.doors import Doors
    from dibs.serve.metrics import Metrics

_log = logging.getLogger("dibs.serve")
_AUDITED = frozenset({401, 403, 421, 429})

_MISTAKE = "The server made a mistake; its log tells more."
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    def __init__(self, app: ASGIApp, doors: Doors, metrics: Metrics) -> None:
        self._app = app
        self._doors = doors
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = _Answering(send)
        began = time.monotonic()
        try:
            await self._let_in(scope, receive, answering)
        except ClientDisconnect:  # nobody is left to be answered
            return
        except DibsError as error:
            self._note(scope, error)
            await answering.instead(problem(error), scope, receive)
        except Exception:  # noqa: BLE001 - the log has it, and the client an answer
            _log.exception("a mistake in the server")
            await answering.instead(problem(DibsError(_MISTAKE)), scope, receive)
        finally:
            seconds = None if scope.get("dibs.live") else time.monotonic() - began
            route = scope.get("dibs.route", "other")
            self._metrics.answered(route, _known(scope["method"]), answering.status, seconds)

    async def _let_in(self, scope: Scope, receive: Receive, answering: _Answering) -> None:
        headers = scope["dibs.headers"] = _first_of_each(scope["headers"])
        self._doors.check_origin(scope["method"], headers)
        if not public(scope["path"]):
            scope["dibs.caller"] = self._doors.admit(headers, (scope.get("client") or ("?",))[0])
        await self._app(scope, receive, answering)

    def _note(self, scope: Scope, error: DibsError) -> None:
        """Who was refused what, for whoever watches; never what they showed."""
        if (status := status_of(error)) in _AUDITED:
            caller = scope.get("dibs.caller")
            who = (caller.agent or caller.sender or "this machine") if caller else "nobody known"
            address = (scope.get("client") or ("?",))[0]
            asked = f"{_known(scope['method'])} {scope['path'][:200]!r}"
            _log.warning("refused %s %s: %s from %s, as %s", status, error.code, asked, address, who)
        self._metrics.refused(error.code)


def _first_of_each(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(headers)}


def public(path: str) -> bool:
    """What holds nothing of the store: the board's own files, and whether the server lives."""
    return path == "/health" or not path.startswith(_KEPT)


_KEPT = ("/api", "/mcp", "/metrics", "/health", "/openapi.json")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _known(method: str) -> str:
    """A client may make up methods; nobody wants to count each."""
    return method if method in _METHODS else "other"


class _Answering:
    """Adds what every answer carries, and knows whether one has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *HEADERS]}
        await self._send(message)

    async def instead(self, answer: Response, scope: Scope, receive: Receive) -> None:
        """Once an answer has begun, all that is left is to break it off."""
        if self.status:
            raise ConnectionAbortedError("an answer was broken off")
        await answer(scope, receive, self)
