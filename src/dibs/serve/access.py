"""Tokens: who somebody is and what they may do, signed with the server's secret. JSON Web Tokens, HS256 and no other.

Whatever is wrong with a token, the answer is the same: it helps nobody to learn what was nearly right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core import checks
from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.sender import is_sender_hash
from dibs.serve.callers import Caller, Right
from dibs.serve.refusals import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

SECRET, SECRET_FILE = "DIBS_SERVE_SECRET", "DIBS_SERVE_SECRET_FILE"
_SHORTEST = 32  # bytes
_ALGORITHM = "HS256"
_US = "dibs"
_LONGEST = 400  # days
_CLAIMS = ("iss", "aud", "iat", "nbf", "exp")


def secret_of(environment: Mapping[str, str]) -> bytes | None:
    """The secret as the environment has it or names its file; None where there is none."""
    given = environment.get("DIBS_SERVE_SECRET", "").encode(errors="surrogateescape")
    if not given and (path := environment.get("DIBS_SERVE_SECRET_FILE")):
        try:
            with open(path, "rb") as file:
                given = file.read(4096).strip()
        except OSError as error:
            raise Misconfigured(f"The file that {SECRET_FILE} names cannot be read: {error.strerror}.") from None
        if not given:
            raise Misconfigured(f"The file that {SECRET_FILE} names is empty. 'openssl rand -hex 32' prints a secret.")
    if not given:
        return None
    if len(given) < _SHORTEST:
        raise Misconfigured(
            f"{SECRET} is too short: it takes {_SHORTEST} bytes or more, such as 'openssl rand -hex 32' prints."
        )
    return given


def made(caller: Caller, secret: bytes, now: datetime, lasts: timedelta) -> str:
    """A token for this caller, good from now on for so long."""
    import jwt

    if not 0 < lasts.total_seconds() <= _LONGEST * 86_400:
        raise InvalidInput(f"A token lasts from a second to {_LONGEST} days; make a new one when it is over.")
    begin = int(now.timestamp())
    claims: dict[str, Any] = {
        "iss": _US,
        "aud": _US,
        "iat": begin,
        "nbf": begin,
        "exp": begin + int(lasts.total_seconds()),
        "can": sorted(caller.rights),
    }
    named = {"agent": caller.agent, "sender": caller.sender}
    claims |= {name: value for name, value in named.items() if value is not None}
    if caller.scopes is not None:
        claims["scopes"] = sorted(caller.scopes)
    return jwt.encode(claims, secret, _ALGORITHM)


def caller_of(token: str, secret: bytes) -> Caller:
    """Whose token this is; Unauthenticated if it is nobody's, or not good at this time."""
    import jwt

    try:
        options: Any = {"require": list(_CLAIMS), "enforce_minimum_key_length": False}  # checked when it was read
        claims = jwt.decode(token, secret, [_ALGORITHM], options, audience=_US, issuer=_US)
        return _caller(claims)
    except (jwt.PyJWTError, InvalidInput, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise refused() from None


def _caller(claims: Mapping[str, Any]) -> Caller:
    rights = frozenset(Right(word) for word in claims["can"])
    agent, sender, scopes = claims.get("agent"), claims.get("sender"), claims.get("scopes")
    if sender is not None:
        if agent is not None or not is_sender_hash(sender):
            raise ValueError
        return Caller(None, sender, rights - {Right.ADMIN, Right.CLAIM}, frozenset({sender}))
    known = None if scopes is None else frozenset(map(checks.scope, scopes))
    return Caller(checks.name_of("agent", claims["agent"]), None, rights, known)


def refused() -> Unauthenticated:
    return Unauthenticated(
        "A token is needed here, and none that is good was given. 'dibs token' makes one; send it as "
        "'Authorization: Bearer …'."
    )
