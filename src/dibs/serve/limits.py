"""How often somebody may ask: a bucket for each, that fills again with time."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from dibs.serve.refusals import TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Callable

_KNOWN = 10_000  # callers that are remembered; who asked least recently is forgotten


class Limit:
    """`rate` requests a second each, and `burst` at once; a rate of 0 means any number."""

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
