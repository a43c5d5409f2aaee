"""Notion's own clock, by which all agree however wrong their own clocks are: every answer says what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FRESH = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ticks() -> float:
    """Seconds that pass also while the machine sleeps, where it can tell: a nap must not look like a quick answer."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def host_clock() -> datetime:
    """The machine's clock, for want of a better one."""
    return _EPOCH + timedelta(0, 0, time.time_ns() // 1000)


class ServerClock:
    """The time of the latest answer, and what has passed here since."""

    def __init__(self, ticks: Callable[[], float] = ticks) -> None:
        self._ticks = ticks
        self._said: datetime | None = None
        self._heard = 0.0

    def learn(self, date: str | None) -> None:
        """Take in an answer's `Date`; one that cannot be read teaches nothing."""
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
        """Notion's time; before the first answer, the machine's."""
        return host_clock() if self._said is None else self._said + self._since()

    def _since(self) -> timedelta:
        return timedelta(seconds=self._ticks() - self._heard)
