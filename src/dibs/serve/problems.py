"""Errors over HTTP: problem details (RFC 9457) with our code, the message, and one table of statuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import Response

from dibs.serve.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.errors import DibsError
    from dibs.core.task import Json

# code → status. What is not named has its parent's: see the tree in dibs.core.errors.
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
    "UNCONFIRMED": 503,
    "SERVICE_UNAVAILABLE": 503,
    "STORE_FULL": 507,
}
_OURS = 500  # whatever is left: the store is damaged, or the server has a mistake in it


def status_of(error: DibsError) -> int:
    if isinstance(error, Refusal):
        return error.status
    for kind in type(error).__mro__:
        if (status := STATUSES.get(getattr(kind, "code", ""))) is not None:
            return status
    return _OURS


def problem(error: DibsError) -> Response:
    """The answer that tells it. `detail` says what to do next."""
    status = status_of(error)
    told: dict[str, Json] = {
        "type": f"urn:dibs:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": status,
        "code": error.code,
        "detail": error.message,
    }
    for name in ("holder", "retry_after_ms"):
        if (value := getattr(error, name)) is not None:
            told[name] = value
    headers = dict(error.headers) if isinstance(error, Refusal) else {}
    if error.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-error.retry_after_ms // 1000))
    return Response(json.dumps(told), status, headers, "application/problem+json")
