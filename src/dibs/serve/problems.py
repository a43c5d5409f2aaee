"""Errors over HTTP: those that only HTTP knows, and problem details (RFC 9457) with one table of statuses.

All other errors are in `dibs.core.errors`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from dibs.core.errors import DibsError
from dibs.stores.http.wire import error_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.responses import Response

    from dibs.core.task import Json


class Refusal(DibsError):
    """An error that only HTTP knows, with its status and headers."""

    status = 400
    headers: Mapping[str, str] = {}


class Ambiguous(Refusal):
    """A request that two servers might read differently. The connection is closed after it."""

    code = "AMBIGUOUS_REQUEST"
    status = 400
    headers: Mapping[str, str] = {"Connection": "close"}


class Unauthenticated(Refusal):
    code = "UNAUTHENTICATED"
    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": 'Bearer realm="dibs"'}


class Forbidden(Refusal):
    code = "FORBIDDEN"
    status = 403


class MethodNotAllowed(Refusal):
    code = "METHOD_NOT_ALLOWED"
    status = 405

    @classmethod
    def but(cls, allowed: Iterable[str]) -> Self:
        methods = ", ".join(sorted(allowed))
        error = cls(f"This address takes only {methods}.")
        error.headers = {"Allow": methods}
        return error


class TooSlow(Refusal):
    code = "TOO_SLOW"
    status = 408
    headers: Mapping[str, str] = {"Connection": "close"}


class TooLarge(Refusal):
    code = "TOO_LARGE"
    status = 413


class WrongType(Refusal):
    code = "WRONG_TYPE"
    status = 415


class WrongHost(Refusal):
    code = "WRONG_HOST"
    status = 421
    headers: Mapping[str, str] = {"Connection": "close"}


class WrongKey(Refusal):
    """An idempotency key that was used for another request before."""

    code = "WRONG_KEY"
    status = 422


class TooManyRequests(Refusal):
    code = "TOO_MANY_REQUESTS"
    status = 429


# code → status. Other errors have the status of their parent class in dibs.core.errors.
STATUSES: Mapping[str, int] = {
    "INVALID_INPUT": 400,
    "PLAN_INVALID": 400,
    "NOT_FOR_YOU": 403,
    "NOT_FOUND": 404,
    "AMBIGUOUS_ID": 404,
    "REFUSED": 409,
    "NOTHING_READY": 409,
    "HELD": 409,
    "WAITING": 409,
    "ILLEGAL_MOVE": 409,
    "CHANGED": 409,
    "OVER_LIMIT": 409,
    "LOST_LOCK": 409,
    "BROKEN_RULE": 409,
    "CYCLE": 409,
    "INCOMPLETE_SUBTASKS": 409,
    "ALREADY_EXISTS": 409,
    "OVER_QUOTA": 429,
    "MISCONFIGURED": 501,
    "UNSUPPORTED": 501,
    "STORE_BUSY": 503,
    "STORE_UNAVAILABLE": 503,
    "STORE_REPLACED": 503,
    "UNCONFIRMED": 503,
    "SERVICE_UNAVAILABLE": 503,
    "STORE_FULL": 507,
}
_OURS = 500  # all others: a damaged store, or a bug


def status_of(error: DibsError) -> int:
    if isinstance(error, Refusal):
        return error.status
    for kind in type(error).__mro__:
        if (status := STATUSES.get(getattr(kind, "code", ""))) is not None:
            return status
    return _OURS


def problem(error: DibsError, told_of: Callable[[DibsError], Mapping[str, Json]] = error_json) -> Response:
    """The answer to a request that failed. `detail` says what happened and what to do next."""
    from starlette.responses import Response  # `dibs token create` imports this module without starlette

    status = status_of(error)
    told: dict[str, Json] = {
        "type": f"urn:dibs:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": status,
        "code": error.code,
        "detail": error.message,
    }
    told |= told_of(error)
    headers = dict(error.headers) if isinstance(error, Refusal) else {}
    if error.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-error.retry_after_ms // 1000))
    return Response(json.dumps(told), status, headers, "application/problem+json")
