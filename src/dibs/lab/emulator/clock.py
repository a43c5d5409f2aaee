"""The emulator's time, which a test can move, and how the API writes it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def host_clock() -> datetime:
    return _EPOCH + timedelta(0, 0, time.time_ns() // 1000)


class Clock:
    """A clock that runs, or stands still if its base does, and what has been added to it."""

    def __init__(self, base: Callable[[], datetime] | None = None) -> None:
        self._base = base or host_clock
        self._ahead = timedelta()
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        return self._base().astimezone(UTC) + self._ahead

    def advance(self, seconds: float) -> datetime:
        with self._lock:
            self._ahead += timedelta(seconds=seconds)
        return self()


def floored(moment: datetime) -> datetime:
    """To the minute: pages, data sources and comments tell no seconds."""
    return moment.replace(second=0, microsecond=0)


def stamp(moment: datetime) -> str:
    """A page's time as the API writes it: `2026-01-31T12:05:00.000Z`."""
    return f"{moment:%Y-%m-%dT%H:%M}:00.000Z"


def http_date(moment: datetime) -> str:
    """The `Date` header, in English whatever the host speaks."""
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02} {month} {moment.year} {moment:%H:%M:%S} GMT"
