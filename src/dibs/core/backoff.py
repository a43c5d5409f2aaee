"""How long a failed task rests before it is tried again."""

from __future__ import annotations

from datetime import timedelta

FIRST = timedelta(seconds=10)
_LONGEST = timedelta(hours=1)
_DOUBLINGS = 16  # a second has long become an hour by then


def backoff(retries: int, first: timedelta = FIRST) -> timedelta:
    """Twice as long after each failure as after the one before, up to an hour."""
    doubled: timedelta = first * 2 ** min(retries, _DOUBLINGS)
    return min(doubled, max(first, _LONGEST))
