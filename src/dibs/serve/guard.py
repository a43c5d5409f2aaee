"""What stands before everything else: who is let in, what every answer carries, and errors that become answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.serve.callers import LOCAL
from dibs.serve.problems import problem
from dibs.serve.table import MethodNotAllowed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("dibs.serve")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
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
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        try:
            scope["dibs.caller"] = LOCAL
            await self._app(scope, receive, send_guarded)
        except DibsError as error:
            if begun:
                raise
            await _problem(error)(scope, receive, send_guarded)
        except Exception:
            _log.exception("a mistake in the server")
            if begun:
                raise
            await problem(DibsError("The server made a mistake; its log tells more."))(scope, receive, send_guarded)


def _problem(error: DibsError) -> ASGIApp:
    answer = problem(error)
    if isinstance(error, MethodNotAllowed):
        answer.headers["Allow"] = ", ".join(error.allowed)
    return answer
