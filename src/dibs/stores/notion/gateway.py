"""The port to Notion for all transports, with its errors, its clock and its request limiter.

Notion counts the requests of an integration over all its clients, and answers 429 after 180 in a minute. Processes on
one host that name the same limiter file share one pace: each books the next free moment in the file and sleeps until
then. A process that dies wastes at most one moment.
"""

from __future__ import annotations

import fcntl
import os
import ssl
import struct
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from dibs.core.errors import DibsError, Misconfigured, NotFound, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_FRESH = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ticks() -> float:
    """Return seconds of a clock that also runs during sleep, so that a nap never looks like a quick answer."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def host_clock() -> datetime:
    """Return this machine's time, for transports that report none."""
    return _EPOCH + timedelta(0, 0, time.time_ns() // 1000)


class ServerClock:
    """Notion's time: that of the latest answer, plus the time passed here since."""

    def __init__(self, ticks: Callable[[], float] = ticks) -> None:
        self._ticks = ticks
        self._said: datetime | None = None
        self._heard = 0.0

    def learn(self, date: str | None) -> None:
        """Learn the time from an answer's `Date` header; an unreadable one is ignored."""
        from email.utils import parsedate_to_datetime

        try:
            said = parsedate_to_datetime(date or "")
        except ValueError:
            return
        self._said = said if said.tzinfo else said.replace(tzinfo=UTC)
        self._heard = self._ticks()

    @property
    def fresh(self) -> bool:
        return self._said is not None and self._since() < _FRESH

    def now(self) -> datetime:
        """Return Notion's time; before the first answer, this machine's."""
        return host_clock() if self._said is None else self._said + self._since()

    def _since(self) -> timedelta:
        return timedelta(seconds=self._ticks() - self._heard)


PER_MINUTE = 180
BURST = 4  # a claim's first requests, sent at once after a quiet time

_FORM = struct.Struct("<8sdd")  # a mark; until when requests are booked; until when all must be silent
_MARK = b"dibspace"
_LONGEST = 300.0  # seconds; a later time in the file is left over from before a restart
_LOCK_PATIENCE = 5.0
_LOCK_NAP = 0.002


class Limiter:
    """At most `per_minute` requests in any minute, over all processes that share the file."""

    def __init__(
        self,
        path: str,
        *,
        per_minute: int = PER_MINUTE,
        patience: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if per_minute < 3 * BURST:
            raise Misconfigured(f"A pace of {per_minute} requests a minute is too slow to claim anything.")
        self._path = path
        # Requests take time to arrive, so one minute at Notion may hold a few more than one minute here.
        self._spacing = 60 / (per_minute - 2 * BURST)
        self._patience = min(patience, _LONGEST)
        self._clock = clock
        self._sleep = sleep

    def reserve(self, count: int = 1) -> None:
        """Wait until `count` requests may be sent in a row."""
        assert 0 < count <= BURST
        while True:
            start = self._book(count)
            wait = start - self._clock()
            if wait <= 0:
                return
            self._sleep(wait)
            if not self._silenced():
                return

    def hold(self, seconds: float) -> None:
        """Stop all requests for so long, as Notion's Retry-After demands."""
        with self._turn() as (file, now):
            paid, silent = _read(file, now, self._path)
            silent = max(silent, now + min(seconds, _LONGEST))
            _write(file, max(paid, silent), silent)

    def _book(self, count: int) -> float:
        """Book the first moment at which `count` requests fit."""
        with self._turn() as (file, now):
            paid, silent = _read(file, now, self._path)
            start = max(now, silent, paid - (BURST - count) * self._spacing)
            if start - now > self._patience:
                raise StoreBusy(
                    f"Notion's pace is used up for the next {start - now:.0f} s by the agents that share {self._path}. "
                    "Try again then, or run fewer of them.",
                    retry_after_ms=int(1000 * (start - now)),
                )
            _write(file, max(start, paid) + count * self._spacing, silent)
        return start

    def _silenced(self) -> bool:
        """Whether Notion has demanded silence while this process slept; the booking is then void."""
        with self._turn() as (file, now):
            _, silent = _read(file, now, self._path)
            return silent > now

    @contextmanager
    def _turn(self) -> Iterator[tuple[int, float]]:
        """Lock the file. It is opened each time, because a descriptor kept over a fork would share its lock."""
        file = _open(self._path)
        try:
            self._lock(file)
            yield file, self._clock()
        finally:
            os.close(file)

    def _lock(self, file: int) -> None:
        for _ in range(int(_LOCK_PATIENCE / _LOCK_NAP)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._sleep(_LOCK_NAP)
            else:
                return
        raise StoreBusy(
            f"Another process has kept {self._path} locked for {_LOCK_PATIENCE:g} s. Try again.",
            retry_after_ms=1000,
        )


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"The limiter's file {path} cannot be opened: {error.strerror}. Name one in a folder that you may write to."
        ) from None


def _read(file: int, now: float, path: str) -> tuple[float, float]:
    """Return until when requests are booked, and until when all must be silent."""
    content = os.pread(file, _FORM.size + 1, 0)
    if not content.strip(b"\0"):
        return now, now
    if len(content) != _FORM.size or not content.startswith(_MARK):
        raise Misconfigured(f"{path} is not a limiter's file; it was not changed. Name another one.")
    _, paid, silent = _FORM.unpack(content)
    return (_sensible(paid, now), _sensible(silent, now))


def _sensible(moment: float, now: float) -> float:
    return moment if now < moment <= now + 2 * _LONGEST else now


def _write(file: int, paid: float, silent: float) -> None:
    os.pwrite(file, _FORM.pack(_MARK, paid, silent), 0)


_TURN = 2.0  # seconds in which reserved requests may be sent; later ones could collide with other bookings

Answer: TypeAlias = "dict[str, Any]"  # a JSON object


class Unanswered(StoreUnavailable):
    """A write was sent without a usable answer: it may have been made, or be made later."""


class Conflict(StoreBusy):
    """Notion refused a write because of another write to the same page."""


class Mistaken(Misconfigured):
    """Notion rejected the request: it names a missing property, or one of another type."""


class Pace:
    """Send requests at the pace of the host's limiter, if there is one."""

    def __init__(self, limiter: Limiter | None) -> None:
        self._limiter = limiter
        self._reserved, self._until = 0, 0.0

    def reserve(self, requests: int) -> None:
        """Wait until so many requests can be sent in a row. An earlier reservation is void."""
        if self._limiter is not None:
            self._limiter.reserve(requests)
            self._reserved, self._until = requests, ticks() + _TURN

    def take(self) -> None:
        """Wait for the turn of one request."""
        if self._reserved and ticks() < self._until:
            self._reserved -= 1
        elif self._limiter is not None:
            self._limiter.reserve(1)

    def silence(self, seconds: float | None) -> None:
        """Pass on Notion's demand for silence."""
        if seconds and self._limiter is not None:
            self._limiter.hold(seconds)


class Gateway(Protocol):
    """A transport to Notion. Failed reads are repeated unless they are `hasty`; writes never are."""

    address: str

    def me(self) -> Answer:
        """Return the integration's own user."""
        ...

    def user(self, user: str) -> Answer:
        """Return a user, a person or an integration."""
        ...

    def source_of(self, database: str) -> str:
        """Return the id under which a database's pages are queried."""
        ...

    def schema(self, source: str) -> Answer:
        """Return a database's properties by name."""
        ...

    def query(self, source: str, body: Mapping[str, Any]) -> Answer:
        """Return one page of a query's results."""
        ...

    def page(self, page: str, *, hasty: bool = False) -> Answer: ...

    def related(self, page: str, property_id: str) -> list[str]:
        """Return all pages of a relation, beyond the first 25 that a page shows."""
        ...

    def update(self, page: str, properties: Mapping[str, Any], *, by: float | None = None) -> Answer:
        """Change a page with one request, which is not sent after `by` on the clock of `ticks`."""
        ...

    def trash(self, page: str) -> None: ...

    def create(self, source: str, properties: Mapping[str, Any]) -> Answer: ...

    def comment(self, page: str, text: str) -> None: ...

    def comments(self, page: str) -> list[str]:
        """Return the texts of a page's open comments."""
        ...

    def reserve(self, requests: int) -> None:
        """Wait until so many requests can be sent without a pause."""
        ...

    def now(self) -> datetime:
        """Return the time by Notion's clock."""
        ...

    def heard(self) -> datetime:
        """Return the time of the latest answer, without a request."""
        ...

    def hush(self, *secrets: str) -> None:
        """Keep these secrets out of all errors."""
        ...

    def close(self) -> None: ...


class Trouble(StrEnum):
    UNREACHABLE = "unreachable"  # no connection: nothing was sent
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"  # the connection ended before the answer
    GARBAGE = "garbage"
    LATE = "late"  # too late to send
    ANSWER = "answer"  # Notion refused


class Failure(NamedTuple):
    """A failed request, without any of the values that it sent."""

    trouble: Trouble
    status: int = 0
    code: str = ""
    message: str = ""
    retry_after: float | None = None

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Classify an error of the client; other errors are raised again."""
        import httpx
        from notion_client.errors import HTTPResponseError, InvalidPathParameterError, RequestTimeoutError

        if isinstance(error, HTTPResponseError):
            return _refused(error)
        if isinstance(error, RequestTimeoutError):
            return cls(Trouble.TIMEOUT)
        if isinstance(error, InvalidPathParameterError | httpx.InvalidURL):
            return cls(Trouble.ANSWER, 404)
        if isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
            return cls(Trouble.TLS if _is_tls(error) else Trouble.UNREACHABLE, message=str(error)[:200])
        if isinstance(error, httpx.HTTPError):
            return cls(Trouble.BROKEN)
        if isinstance(error, ValueError):
            return cls(Trouble.GARBAGE)  # the answer is not JSON
        raise error


def _refused(error: Any) -> Failure:
    code = getattr(error.code, "value", error.code)
    waits = error.headers.get("retry-after", "")
    retry_after = float(waits) if waits.isascii() and waits.isdigit() else None
    return Failure(Trouble.ANSWER, error.status, str(code), str(error)[:500], retry_after)


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return "SSL" in str(error) or "CERTIFICATE" in str(error).upper()


def may_pass(failure: Failure) -> bool:
    """Whether the same request may succeed in a moment."""
    if failure.trouble is Trouble.ANSWER:
        return failure.status in {409, 429} or failure.status >= 500  # noqa: PLR2004 - HTTP's own numbers
    return failure.trouble in {Trouble.TIMEOUT, Trouble.BROKEN, Trouble.GARBAGE}


def told(failure: Failure, path: str, address: str, secrets: Iterable[str], *, sent: bool) -> DibsError:
    """Return the error to raise, without secrets. A write that was sent may have been made, whatever the answer."""
    error = _translated(failure, path, address)
    if sent and isinstance(error, StoreUnavailable) and failure.trouble is not Trouble.UNREACHABLE:
        error = Unanswered(error.message)
    for secret in secrets:
        error.message = error.message.replace(secret, "…")
    error.args = (error.message,)
    return error


def _translated(failure: Failure, path: str, address: str) -> DibsError:
    """Return the error for a failure: what happened, and what to do next."""
    match failure.trouble:
        case Trouble.UNREACHABLE:
            return StoreUnavailable(f"Notion cannot be reached at {address}: {failure.message or 'no connection'}.")
        case Trouble.TLS:
            return StoreUnavailable(
                f"The connection to {address} is not safe: its certificate was not accepted ({failure.message})."
            )
        case Trouble.LATE:
            return StoreBusy("The change could not be sent in time, so it was not made. Try again in a moment.")
        case Trouble.TIMEOUT:
            return StoreUnavailable("Notion did not answer in time. Try again in a moment.")
        case Trouble.BROKEN:
            return StoreUnavailable("The connection to Notion ended before its answer. Try again in a moment.")
        case Trouble.GARBAGE:
            return StoreUnavailable(
                f"The answer of {address} is not one of Notion's. Try again; is NOTION_API_BASE_URL right?"
            )
    return _said_no(failure, path)


def _said_no(failure: Failure, path: str) -> DibsError:
    said = f" Notion says: {failure.message}" if failure.message else ""
    match failure.status:
        case 401:
            return Misconfigured("Notion does not accept NOTION_TOKEN. Copy it again from the integration's settings.")
        case 403:
            return Misconfigured(
                f"The integration may not do that.{said} Switch the capability on in the integration's settings."
            )
        case 404 if path.startswith("pages/"):
            return NotFound("This page does not exist, or it is not shared with the integration.")
        case 400 if path.startswith("pages/") and "not a page" in failure.message:
            return NotFound("That id does not belong to a page.")
        case 400 if path.startswith("databases/"):
            return Misconfigured(f"That id does not belong to a database.{said}")
        case 404:
            return Misconfigured(
                "This Notion database does not exist, or it is not shared with the integration. Check its id; then "
                "open it in Notion and add the integration under ••• → Connections."
            )
        case 400:
            return Mistaken(f"Notion did not take the request.{said}")
        case 409:
            return Conflict("Notion was busy with the same page. Try again in a moment.")
        case 429:
            wait = failure.retry_after or 1.0
            return StoreBusy(
                f"Notion asks to slow down; try again in {wait:g} seconds. A limiter that all agents share avoids it.",
                retry_after_ms=int(1000 * wait),
            )
    return StoreUnavailable(f"Notion failed with an internal error (status {failure.status}). Try again in a moment.")
