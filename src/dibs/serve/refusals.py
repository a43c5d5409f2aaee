"""What a server refuses before a desk is asked: errors that only HTTP knows. All others are in `dibs.core.errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dibs.core.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Refusal(DibsError):
    """`status` is what HTTP calls it, `headers` go along with the answer."""

    status = 400
    headers: Mapping[str, str] = {}


class Ambiguous(Refusal):
    """What one server reads in one way and another in another; nobody listens to what comes after it."""

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
        error = cls(f"Here one can only {methods}.")
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
