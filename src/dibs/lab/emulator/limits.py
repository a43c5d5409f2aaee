"""How much a client may ask: so many requests in sixty seconds by each token, and bodies of limited size."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from dibs.lab.emulator.errors import ApiError, invalid

WINDOW = timedelta(seconds=60)
PAYLOAD = 500 * 1024


class RateLimit:
    """A fixed window for each bot: it opens with the first request and is spent at any pace."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[datetime, int]] = {}

    def count(self, bot_id: str, now: datetime, limit: int | None) -> None:
        if limit is None:
            return
        opened, used = self._windows.get(bot_id, (now, 0))
        if now >= opened + WINDOW:
            opened, used = now, 0
        if used >= limit:
            left = (opened + WINDOW - now).total_seconds()
            raise ApiError.known("rate_limited", retry_after=max(1, math.ceil(left)))
        self._windows[bot_id] = (opened, used + 1)


def check_payload(size: int) -> None:
    if size > PAYLOAD:
        raise invalid(f"body failed validation: body size should be ≤ `{PAYLOAD}` bytes, instead was `{size}`.")
