"""Access: callers and their rights, tokens, rate limits, and the checks of each request's origin.

Without a secret, the server listens on loopback only, and refuses requests that a foreign host name or a page of
another site led here. With a secret, every caller presents a token: a JSON Web Token, HS256 only, signed with it.
A refused token is always refused with the same message, so that an attacker learns nothing from it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dibs.core import checks
from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.sender import is_sender_hash
from dibs.serve.problems import Forbidden, Refusal, TooManyRequests, Unauthenticated, WrongHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta


class Right(StrEnum):
    """A right that a token grants. Rights are independent; admin includes all."""

    READ = "read"
    CLAIM = "claim"
    PLAN = "plan"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)


class Caller(NamedTuple):
    """An agent, a sender (by hash), or a user of this machine. `scopes` None means any."""

    agent: str | None = None
    sender: str | None = None
    rights: frozenset[Right] = ALL_RIGHTS
    scopes: frozenset[str] | None = None

    @property
    def at_this_machine(self) -> bool:
        return self.agent is None and self.sender is None

    @property
    def name(self) -> str:
        """Unique for each caller: an agent and a sender never share one."""
        return f"{self.agent or ''}\0{self.sender or ''}"

    def may(self, right: Right) -> bool:
        return right in self.rights or Right.ADMIN in self.rights

    def scope(self, named: str | None, usual: str) -> str:
        """The scope named, or the default. Raise Forbidden if the token is not for it."""
        scope = named or self.sender or usual
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden("This token is not for that scope.")
        return checks.scope(scope)


LOCAL = Caller()


# Tokens

SECRET, SECRET_FILE = "DIBS_SERVE_SECRET", "DIBS_SERVE_SECRET_FILE"
_SHORTEST = 32  # bytes
_ALGORITHM = "HS256"
_US = "dibs"
_LONGEST = 400  # days
_CLAIMS = ("iss", "aud", "iat", "nbf", "exp")


def secret_of(environment: Mapping[str, str]) -> bytes | None:
    """The secret from the environment or from the file it names; None if there is none."""
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


def make_token(caller: Caller, secret: bytes, now: datetime, lasts: timedelta) -> str:
    """A token for this caller, valid from now until `lasts` is over."""
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
    """The caller that a token names. Raise Unauthenticated if the token is invalid or not valid now."""
    import jwt

    try:
        options: Any = {"require": list(_CLAIMS), "enforce_minimum_key_length": False}  # checked when it was read
        claims = jwt.decode(token, secret, [_ALGORITHM], options, audience=_US, issuer=_US)
        return _caller(claims)
    except (jwt.PyJWTError, InvalidInput, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise token_refused() from None


def _caller(claims: Mapping[str, Any]) -> Caller:
    rights = frozenset(Right(word) for word in claims["can"])
    agent, sender, scopes = claims.get("agent"), claims.get("sender"), claims.get("scopes")
    if sender is not None:
        if agent is not None or not is_sender_hash(sender):
            raise ValueError
        return Caller(None, sender, rights - {Right.ADMIN, Right.CLAIM}, frozenset({sender}))
    known = None if scopes is None else frozenset(map(checks.scope, scopes))
    return Caller(checks.name_of("agent", claims["agent"]), None, rights, known)


def token_refused() -> Unauthenticated:
    return Unauthenticated(
        "A token is needed here, and none that is good was given. 'dibs token' makes one; send it as "
        "'Authorization: Bearer …'."
    )


# Rate limits and origins

_KNOWN = 10_000  # callers remembered; the least recent one is forgotten


class RateLimit:
    """A token bucket for each caller: `rate` requests a second, and `burst` at once. A rate of 0 means no limit."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how much was left, and when

    def take(self, who: str) -> None:
        if not self._rate:
            return
        now = self._clock()
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._left[who] = (max(left - 1, 0.0) if left >= 1 else left), now
        if len(self._left) > _KNOWN:
            self._left.popitem(last=False)
        if left < 1:
            wait = max(1, round((1 - left) / self._rate * 1000))
            raise TooManyRequests("You ask too often. Wait a moment, then go on more slowly.", retry_after_ms=wait)


_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_NEAR = frozenset({"same-origin", "none"})
_BEARER = "bearer "
_STRANGERS = (5.0, 50.0)  # a second, and at once, from one address without a good token


def require_secret(host: str, secret: bytes | None) -> None:
    """Raise Misconfigured if the server would listen beyond loopback without a secret."""
    if secret is None and not ip_address(host.partition("%")[0]).is_loopback:
        raise Misconfigured(
            f"On {host} others can ask too, so there have to be tokens: set {SECRET} (or {SECRET_FILE}) to what "
            "'openssl rand -hex 32' prints, and make tokens with 'dibs token'. Or leave --host away."
        )


class AccessControl:
    """Decides which requests are let in. `rate` is the limit per second of each token; 0 means no limit at all."""

    def __init__(self, secret: bytes | None, rate: float) -> None:
        self.secret = secret
        self._callers = RateLimit(rate, 2 * rate)
        self._strangers = RateLimit(*(_STRANGERS if rate else (0.0, 0.0)))

    @property
    def locked(self) -> bool:
        return self.secret is not None

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse requests that a page of another site made a browser send."""
        host = headers.get("host", "")
        if not self.locked and not _is_here(host):
            raise WrongHost("This server answers to localhost and 127.0.0.1 only. Ask it by one of these names.")
        if headers.get("sec-fetch-site", "none") not in _NEAR:
            raise Forbidden("A page of another site cannot ask here.")
        origin = headers.get("origin")
        if origin is not None and method not in _READS and urlsplit(origin).netloc.lower() != host.lower():
            raise Forbidden("A page of another site cannot ask here.")

    def admit(self, headers: Mapping[str, str], address: str) -> Caller:
        if self.secret is None:
            return LOCAL
        given = headers.get("authorization", "")
        try:
            if given[: len(_BEARER)].lower() != _BEARER:
                raise token_refused()
            caller = caller_of(given[len(_BEARER) :].strip(), self.secret)
        except Refusal:
            self._strangers.take(address)
            raise
        self._callers.take(caller.name)
        return caller


@lru_cache(64)  # a client says it with each request
def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
