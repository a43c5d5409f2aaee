"""The pace of requests, shared by all processes of this host that name the same file.

Notion counts the requests of an integration, whoever sends them: after 180 in a minute it answers 429. So whoever is
about to send takes the next free moment from a file and sleeps until then. The file is locked only for as long as it
takes to write a number into it. A process that dies leaves at most a moment that nobody uses.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import Misconfigured, StoreBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PER_MINUTE = 180
BURST = 4  # what a claim begins with goes out at once, if it has been quiet before

_FORM = struct.Struct("<8sdd")  # a mark, when all is paid for, until when all are silent
_MARK = b"dibspace"
_LONGEST = 300.0  # no booking and no silence reaches further: such a number is left over from before a restart
_LOCK_PATIENCE = 5.0
_LOCK_NAP = 0.002


class Limiter:
    """At most `per_minute` requests in any minute, sent by however many processes."""

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
        # Answers and requests take their time, so a minute of Notion's may hold a little more than one of ours.
        self._spacing = 60 / (per_minute - 2 * BURST)
        self._patience = min(patience, _LONGEST)
        self._clock = clock
        self._sleep = sleep

    def reserve(self, count: int = 1) -> None:
        """Wait until `count` requests may go out one right after the other."""
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
        """Notion has asked for silence (Retry-After): nobody sends anything until then."""
        with self._turn() as (file, now):
            paid, silent = _read(file, now, self._path)
            silent = max(silent, now + min(seconds, _LONGEST))
            _write(file, max(paid, silent), silent)

    def _book(self, count: int) -> float:
        """Take the first moment at which `count` requests are paid for."""
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
        """Whether Notion has asked for silence while we slept: then what we had booked is void."""
        with self._turn() as (file, now):
            _, silent = _read(file, now, self._path)
            return silent > now

    @contextmanager
    def _turn(self) -> Iterator[tuple[int, float]]:
        """The file, locked. It is opened each time: a descriptor kept over a fork would lock nobody out."""
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
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise Misconfigured(
            f"The limiter's file {path} cannot be opened: {error.strerror}. Name one in a folder that you may write to."
        ) from None


def _read(file: int, now: float, path: str) -> tuple[float, float]:
    """When all requests so far are paid for, and until when there is silence."""
    content = os.pread(file, _FORM.size + 1, 0)
    if not content.strip(b"\0"):
        return now, now
    if len(content) != _FORM.size or not content.startswith(_MARK):
        raise Misconfigured(f"{path} is not a limiter's file; it was left as it is. Name another one.")
    _, paid, silent = _FORM.unpack(content)
    return (_sensible(paid, now), _sensible(silent, now))


def _sensible(moment: float, now: float) -> float:
    return moment if now < moment <= now + 2 * _LONGEST else now


def _write(file: int, paid: float, silent: float) -> None:
    os.pwrite(file, _FORM.pack(_MARK, paid, silent), 0)
