"""What a server refuses before a desk is asked: errors that only HTTP knows. All others are in `dibs.core.errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class Refusal(Exception):
    """`code` is stable, `status` is what HTTP calls it, `headers` go along with the answer."""

    code = "REFUSED"
    status = 400
    headers: ClassVar[dict[str, str]] = {}
    holder: str | None = None

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms


class Unauthenticated(Refusal):
    code = "UNAUTHENTICATED"
    status = 401
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": 'Bearer realm="dibs"'}


class Forbidden(Refusal):
    code = "FORBIDDEN"
    status = 403


class MethodNotAllowed(Refusal):
    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, allowed: Iterable[str]) -> None:
        methods = ", ".join(sorted(allowed))
        super().__init__(f"Here one can only {methods}.")
        self.headers = {"Allow": methods}  # type: ignore[misc]  # of this answer alone


class TooSlow(Refusal):
    code = "TOO_SLOW"
    status = 408


class TooLarge(Refusal):
    code = "TOO_LARGE"
    status = 413


class WrongType(Refusal):
    code = "WRONG_TYPE"
    status = 415


class WrongHost(Refusal):
    code = "WRONG_HOST"
    status = 421


class WrongKey(Refusal):
    """An idempotency key that was used for another request before."""

    code = "WRONG_KEY"
    status = 422


class TooManyRequests(Refusal):
    code = "TOO_MANY_REQUESTS"
    status = 429
