"""Access: callers and their rights, tokens and their revocation, rate limits, and the checks of each request's origin.

Without a secret, the server listens on loopback only, and refuses requests that a foreign host name or a page of
another site led here. With a secret, every caller presents a token: a JSON Web Token, HS256 only, signed with it.
A refused token is always refused with the same message, so that an attacker learns nothing from it.

The store lists the tokens made for it, as settings of an internal scope. Each server reads that list every second, and
judges no request by a list older than `_OLDEST` seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, Misconfigured, NotFound, StoreUnavailable, Unsupported
from dibs.core.events import TOKEN_MARK, without_token
from dibs.core.sender import is_sender_hash
from dibs.core.task import TOKENS
from dibs.core.times import time_from, time_text
from dibs.serve.problems import Forbidden, Refusal, TooManyRequests, Unauthenticated, WrongHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dibs.core.task import Draft, Json, Link
    from dibs.desk import Desk


class Right(StrEnum):
    """A right that a token grants. Rights are independent; admin includes all."""

    READ = "read"
    CLAIM = "claim"
    PLAN = "plan"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)

# The rights of each role that a token can be made for.
ROLES = {
    "viewer": frozenset({Right.READ}),
    "worker": frozenset({Right.READ, Right.CLAIM}),
    "planner": frozenset({Right.READ, Right.CLAIM, Right.PLAN}),
}


_GRANTED_BY = {
    Right.READ: "'dibs token create --for viewer'",
    Right.CLAIM: "'dibs token create --for worker'",
    Right.PLAN: "'dibs token create --for planner'",
    Right.ADMIN: "'dibs token create --can admin'",
}


def lacks(right: Right, what: str = "This") -> Forbidden:
    """The refusal of a caller that does not have a right. `what` needs it."""
    return Forbidden(
        f"{what} needs the right '{right}', which this token does not have. {_GRANTED_BY[right]} makes one that has it."
    )


class Caller(NamedTuple):
    """An agent, a sender (by hash), or a user of this machine. `scopes` None means any."""

    agent: str | None = None
    sender: str | None = None
    rights: frozenset[Right] = ALL_RIGHTS
    scopes: frozenset[str] | None = None
    token_id: str | None = None

    @property
    def at_this_machine(self) -> bool:
        return self.agent is None and self.sender is None

    @property
    def name(self) -> str:
        """Unique for each caller: an agent and a sender never share one."""
        return f"{self.agent or ''}\0{self.sender or ''}"

    @property
    def run(self) -> str | None:
        """The run of events whose request names none: the token."""
        return self.run_of(None)

    def run_of(self, named: str | None) -> str | None:
        """The run that a request names with the id of its token, so that events show both."""
        if self.token_id is None:
            return named
        mark = f"{TOKEN_MARK}{self.token_id}"
        named = None if named is None else without_token(named)
        return mark if named is None else checks.name_of("run", f"{named}-{mark}")

    def may(self, right: Right) -> bool:
        return right in self.rights or Right.ADMIN in self.rights

    def scope(self, named: str | None, usual: str) -> str:
        """The scope named, or the default. Raise Forbidden if the token is not for it."""
        scope = named or self.sender or usual
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden("This token is not valid for that scope.")
        return checks.scope(scope)


LOCAL = Caller()


def check_follow_ups(drafts: Iterable[Draft], links: Iterable[Link]) -> None:
    """Refuse tasks that change the plan: a follow-up must not delay or overtake another task."""
    new = {draft.id for draft in drafts}
    if any(draft.parent is not None or draft.override or draft.assigned_to is not None for draft in drafts):
        raise Forbidden(
            "This token may add follow-up tasks without parent, override and assigned_to. A planner sets these."
        )
    if any(link.task not in new for link in links):
        raise Forbidden("This token may add links that make a new task wait, and no others. A planner adds the rest.")


# Tokens

SECRET, SECRET_FILE = "DIBS_SERVE_SECRET", "DIBS_SERVE_SECRET_FILE"
PREVIOUS, PREVIOUS_FILE = "DIBS_SERVE_SECRET_PREVIOUS", "DIBS_SERVE_SECRET_PREVIOUS_FILE"
_SHORTEST = 32  # bytes
_ALGORITHM = "HS256"
_US = "dibs"
_LONGEST = 400  # days
_CLAIMS = ("iss", "aud", "iat", "nbf", "exp", "jti")
_TOKEN_ID = 12  # letters and digits; an id is never given twice


def secrets_of(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The secret that signs tokens, then the previous one, whose tokens are still valid. Empty if neither is set."""
    current = _secret(environment.get("DIBS_SERVE_SECRET"), SECRET) or _secret_in(
        environment.get("DIBS_SERVE_SECRET_FILE"), SECRET_FILE
    )
    previous = _secret(environment.get("DIBS_SERVE_SECRET_PREVIOUS"), PREVIOUS) or _secret_in(
        environment.get("DIBS_SERVE_SECRET_PREVIOUS_FILE"), PREVIOUS_FILE
    )
    if current is None and previous is not None:
        raise Misconfigured(f"{PREVIOUS} is set, and {SECRET} is not. Set {SECRET} to the secret that signs now.")
    return tuple(dict.fromkeys(secret for secret in (current, previous) if secret is not None))


def _secret(text: str | None, variable: str) -> bytes | None:
    given = (text or "").encode(errors="surrogateescape")
    if given and len(given) < _SHORTEST:
        raise Misconfigured(
            f"{variable} is too short: it takes {_SHORTEST} bytes or more, such as 'openssl rand -hex 32' prints."
        )
    return given or None


def _secret_in(path: str | None, variable: str) -> bytes | None:
    """The secret in the file that a variable names."""
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            given = file.read(4096).strip()
    except OSError as error:
        raise Misconfigured(f"The file that {variable} names cannot be read: {error.strerror}.") from None
    if not given:
        raise Misconfigured(f"The file that {variable} names is empty. 'openssl rand -hex 32' prints a secret.")
    return _secret(given.decode(errors="surrogateescape"), variable)


def key_of(secret: bytes) -> str:
    """A short name of a secret, to distinguish tokens of the old secret from those of the new one."""
    return hashlib.sha256(b"dibs token key\0" + secret).hexdigest()[:8]


def make_token(caller: Caller, secret: bytes, now: datetime, lasts: timedelta) -> str:
    """A token for this caller, valid from `now` for `lasts`."""
    import jwt

    from dibs.desk import mint_id

    if not 0 < lasts.total_seconds() <= _LONGEST * 86_400:
        raise InvalidInput(f"A token is valid for one second to {_LONGEST} days. Make a new one when it expires.")
    begin = int(now.timestamp())
    claims: dict[str, Any] = {
        "iss": _US,
        "aud": _US,
        "iat": begin,
        "nbf": begin,
        "exp": begin + int(lasts.total_seconds()),
        "jti": caller.token_id or mint_id(_TOKEN_ID),
        "can": sorted(caller.rights),
    }
    named = {"agent": caller.agent, "sender": caller.sender}
    claims |= {name: value for name, value in named.items() if value is not None}
    if caller.scopes is not None:
        claims["scopes"] = sorted(caller.scopes)
    return jwt.encode(claims, secret, _ALGORITHM)


def verified(token: str, *secrets: bytes) -> tuple[Caller, float]:
    """The caller that a token names, and when it expires, in seconds since 1970.

    Raise Unauthenticated if the token is invalid or not valid now.
    """
    import jwt

    options: Any = {"require": list(_CLAIMS), "enforce_minimum_key_length": False}  # checked when it was read
    for secret in secrets:
        try:
            claims = jwt.decode(token, secret, [_ALGORITHM], options, audience=_US, issuer=_US)
            return _caller(claims), float(claims["exp"])
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, InvalidInput, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            break
    raise token_refused()


def _caller(claims: Mapping[str, Any]) -> Caller:
    rights = frozenset(Right(word) for word in claims["can"])
    token_id = checks.name_of("token", claims["jti"])
    agent, sender, scopes = claims.get("agent"), claims.get("sender"), claims.get("scopes")
    if sender is not None:
        if agent is not None or not is_sender_hash(sender):
            raise ValueError
        return Caller(None, sender, rights - {Right.ADMIN, Right.CLAIM}, frozenset({sender}), token_id)
    known = None if scopes is None else frozenset(map(checks.scope, scopes))
    return Caller(checks.name_of("agent", claims["agent"]), None, rights, known, token_id)


def token_refused() -> Unauthenticated:
    return Unauthenticated(
        "A valid token is needed here. 'dibs token create' makes one; send it as 'Authorization: Bearer …'."
    )


def host_time() -> datetime:
    """Now, to the second. A server compares the times of a token with its own clock, not with the store's."""
    return datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - there may be no store to ask


# The list of tokens


class TokenRecord(NamedTuple):
    """A token in the store's list. The token itself is not in it. `key` names the secret that signed it."""

    id: str
    caller: Caller
    key: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    @property
    def revoked(self) -> bool:
        return self.revoked_at is not None

    def json(self) -> dict[str, Json]:
        caller = self.caller
        return {
            "id": self.id,
            "agent": caller.agent,
            "sender_hash": caller.sender,
            "scopes": None if caller.scopes is None else sorted(caller.scopes),
            "rights": sorted(caller.rights),
            "created_at": time_text(self.created_at),
            "expires_at": time_text(self.expires_at),
            "revoked": self.revoked,
            "revoked_at": None if self.revoked_at is None else time_text(self.revoked_at),
            "key": self.key,
        }


def _record(token_id: str, said: Any) -> TokenRecord:
    scopes = None if said["scopes"] is None else frozenset(said["scopes"])
    caller = Caller(said["agent"], said["sender_hash"], frozenset(map(Right, said["rights"])), scopes, token_id)
    revoked_at = None if said["revoked_at"] is None else time_from(said["revoked_at"])
    times = time_from(said["created_at"]), time_from(said["expires_at"])
    return TokenRecord(token_id, caller, said["key"], *times, revoked_at)


_KEEP_EXPIRED = timedelta(days=30)
_UNLISTED = (
    "This store keeps no settings, so it cannot list tokens or revoke single ones. Make tokens that expire soon, or "
    f"change {SECRET}: that ends all tokens."
)


def create_token(desk: Desk, caller: Caller, secret: bytes, lasts: timedelta) -> tuple[str, TokenRecord]:
    """Make a token and list it in the store, so that it can be revoked."""
    from dibs.desk import mint_id

    now = host_time()
    caller = caller._replace(token_id=caller.token_id or mint_id(_TOKEN_ID))
    token = make_token(caller, secret, now, lasts)
    record = TokenRecord(str(caller.token_id), caller, key_of(secret), now, now + lasts)
    if desk.has_settings:
        tokens = _token_desk(desk)
        old = [each.id for each in listed_tokens(desk) if each.expires_at + _KEEP_EXPIRED < now]
        tokens.configure({**dict.fromkeys(old), record.id: record.json()})
    return token, record


def listed_tokens(desk: Desk) -> list[TokenRecord]:
    """The tokens made for this store, the newest last. Raise Unsupported if the store cannot list them."""
    if not desk.has_settings:
        raise Unsupported(_UNLISTED)
    found = (_record(name, said) for name, said in _token_desk(desk).settings().items())
    return sorted(found, key=lambda record: (record.created_at, record.id))


def revoke_tokens(desk: Desk, ids: Iterable[str]) -> list[TokenRecord]:
    """Revoke tokens for good, all or none. Revoking a token twice is no error."""
    known = {record.id: record for record in listed_tokens(desk)}
    now = host_time()
    revoked = []
    for token_id in dict.fromkeys(ids):
        if token_id not in known:
            raise NotFound(f"There is no token '{token_id[:40]}' in this store. 'dibs token list' lists them.")
        record = known[token_id]
        revoked.append(record if record.revoked else record._replace(revoked_at=now))
    _token_desk(desk).configure({record.id: record.json() for record in revoked})
    return revoked


def _token_desk(desk: Desk) -> Desk:
    return desk.at(TOKENS, internal=True)


_EVERY = 1.0  # seconds between two readings of the list
_OLDEST = 4.0  # seconds; with an older list, a request waits for a new one
_PATIENCE = 10.0  # seconds that it waits
_log = logging.getLogger("dibs.serve")


class Revocations:
    """The revoked tokens, read from the store by a thread. All methods but the thread's run on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._revoked: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._news = asyncio.Event()
        self._requests: dict[str, set[asyncio.Task[object]]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, open_desk: Callable[[], Desk]) -> None:
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(open_desk, loop), name="tokens", daemon=True)
        self._thread.start()

    def __contains__(self, token_id: str | None) -> bool:
        return token_id in self._revoked

    async def current(self) -> None:
        """Wait until the list is recent. Raise StoreUnavailable if the store does not answer."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while self._clock() - self._read_at > _OLDEST:
                    await self._news.wait()
        except TimeoutError:
            raise StoreUnavailable(
                "The store does not say which tokens are revoked. Try again in a moment.", retry_after_ms=1000
            ) from None

    @contextmanager
    def watching(self, token_id: str) -> Iterator[None]:
        """Cancel the request of this task when its token is revoked."""
        task: Any = asyncio.current_task()
        running = self._requests.setdefault(token_id, set())
        running.add(task)
        try:
            yield
        finally:
            running.discard(task)
            if not running:
                self._requests.pop(token_id, None)

    def update(self, revoked: frozenset[str], read_at: float) -> None:
        """Take a list that was read from `read_at` on."""
        self._revoked, self._read_at = revoked, read_at
        before, self._news = self._news, asyncio.Event()
        before.set()
        for token_id in revoked & self._requests.keys():
            for task in self._requests[token_id]:
                task.cancel()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    # On the thread

    def _run(self, open_desk: Callable[[], Desk], loop: asyncio.AbstractEventLoop) -> None:
        desk: Desk | None = None
        troubled = False
        while not self._stop.is_set():
            began = self._clock()
            try:
                desk = desk or open_desk()
                revoked = frozenset(each.id for each in listed_tokens(desk) if each.revoked)
                loop.call_soon_threadsafe(self.update, revoked, began)
                troubled = False
            except Unsupported:
                loop.call_soon_threadsafe(self.update, frozenset(), float("inf"))
                break
            except (DibsError, KeyError, TypeError, ValueError) as error:
                if not troubled:
                    _log.warning("the list of tokens cannot be read: %s", getattr(error, "message", repr(error)))
                troubled = True
                if desk is not None:
                    desk.close()
                    desk = None
            self._stop.wait(_EVERY)
        if desk is not None:
            desk.close()


# Rate limits and origins

_KNOWN = 10_000  # callers remembered; the least recent one is forgotten
_KNOWN_TOKENS = 1000


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
            raise TooManyRequests(
                "You send too many requests. Wait a moment, then send fewer per second.", retry_after_ms=wait
            )


_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_NEAR = frozenset({"same-origin", "none"})
_BEARER = "bearer "
_STRANGERS = (5.0, 50.0)  # a second, and at once, from one address without a valid token


def require_secret(host: str, secrets: Sequence[bytes]) -> None:
    """Raise Misconfigured if the server would listen beyond loopback without a secret."""
    if not secrets and not ip_address(host.partition("%")[0]).is_loopback:
        raise Misconfigured(
            f"Other machines can reach {host}, so callers need tokens. Set {SECRET} (or {SECRET_FILE}) to the output "
            "of 'openssl rand -hex 32' and make tokens with 'dibs token create'. Or omit --host."
        )


class AccessControl:
    """Decides which requests are let in. `rate` is the limit per second of each token; 0 means no limit at all.

    The first secret signs new tokens; tokens of the others are still valid.
    """

    def __init__(self, secrets: Sequence[bytes], rate: float) -> None:
        self.secret = secrets[0] if secrets else None
        self.revoked = Revocations()
        self.secrets = tuple(secrets)
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()  # tokens verified before, and their ends
        self._callers = RateLimit(rate, 2 * rate)
        self._strangers = RateLimit(*(_STRANGERS if rate else (0.0, 0.0)))

    @property
    def locked(self) -> bool:
        return self.secret is not None

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse requests that a page of another site made the browser send."""
        host = headers.get("host", "")
        if not self.locked and not _is_here(host):
            raise WrongHost("This server answers only as localhost and 127.0.0.1. Use one of these names.")
        if headers.get("sec-fetch-site", "none") not in _NEAR:
            raise Forbidden("Pages of other sites cannot use this server.")
        origin = headers.get("origin")
        if origin is not None and method not in _READS and urlsplit(origin).netloc.lower() != host.lower():
            raise Forbidden("Pages of other sites cannot use this server.")

    async def admit(self, headers: Mapping[str, str], address: str) -> Caller:
        if self.secret is None:
            return LOCAL
        given = headers.get("authorization", "")
        try:
            if given[: len(_BEARER)].lower() != _BEARER:
                raise token_refused()
            caller = self._caller(given[len(_BEARER) :].strip())
            await self.revoked.current()
            if caller.token_id in self.revoked:
                raise token_refused()
        except Refusal:
            self._strangers.take(address)
            raise
        self._callers.take(caller.name)
        return caller

    def _caller(self, token: str) -> Caller:
        """The caller that a token names. The signature is checked once, the expiry each time."""
        now = host_time().timestamp()
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = verified(token, *self.secrets)
            if len(self._known) > _KNOWN_TOKENS:
                self._known.popitem(last=False)
        caller, expires_at = known
        if expires_at <= now:
            raise token_refused()
        return caller


@lru_cache(64)  # each request names it
def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
