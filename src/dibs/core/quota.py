"""How much may be taken in within a span of time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from dibs.core.duration import in_words
from dibs.core.errors import OverQuota


class Quota(NamedTuple):
    """So many new tasks in any such span, and no more."""

    most: int
    within: timedelta


def refuse_more(quota: Quota, added: Sequence[datetime], wanted: int, now: datetime) -> None:
    """`added` are the times at which tasks were taken in during the last span, oldest first."""
    room = max(0, quota.most - len(added))
    if wanted <= room:
        return
    left = max(timedelta(0), added[0] + quota.within - now) if added else quota.within
    raise OverQuota(
        f"At most {quota.most} tasks are taken in within {in_words(quota.within)}; there is room for {room} now, and "
        f"for more in {in_words(left)}.",
        room=room,
        retry_after_ms=left // timedelta(milliseconds=1) + 1,
    )
