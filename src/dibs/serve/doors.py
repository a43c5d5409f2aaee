"""Who is let in.

Without a secret, only this machine is: the server listens on loopback alone, and answers nobody who was led here by a
name of another's, or sent here by a page of another's. With a secret, whoever shows a good token, from wherever.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dibs.core.errors import Misconfigured
from dibs.serve.access import SECRET, SECRET_FILE, caller_of, refused
from dibs.serve.callers import LOCAL, Caller
from dibs.serve.limits import Limit
from dibs.serve.refusals import Forbidden, Refusal, WrongHost

if TYPE_CHECKING:
    from collections.abc import Mapping

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_NEAR = frozenset({"same-origin", "none"})
_BEARER = "bearer "
_STRANGERS = (5.0, 50.0)  # a second, and at once, from one address without a good token


def refuse_open_door(host: str, secret: bytes | None) -> None:
    """Nobody listens to the world without a secret."""
    if secret is None and not ip_address(host.partition("%")[0]).is_loopback:
        raise Misconfigured(
            f"On {host} others can ask too, so there have to be tokens: set {SECRET} (or {SECRET_FILE}) to what "
            "'openssl rand -hex 32' prints, and make tokens with 'dibs token'. Or leave --host away."
        )


class Doors:
    """`rate` is how many requests a second each caller with a token may make; 0 means any number, by anybody."""

    def __init__(self, secret: bytes | None, rate: float) -> None:
        self.secret = secret
        self._callers = Limit(rate, 2 * rate)
        self._strangers = Limit(*(_STRANGERS if rate else (0.0, 0.0)))

    @property
    def locked(self) -> bool:
        return self.secret is not None

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """No page of another site makes a browser ask in its name."""
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
                raise refused()
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
