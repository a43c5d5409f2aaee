"""Why there is nothing to claim."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import NothingReady
from dibs.core.fields import EVERY
from dibs.core.task import Status

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.fields import Filter
    from dibs.stores.reports import Counts

_SET_ASIDE = (Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.BACKLOG)


def nothing_ready(counts: Counts, now: datetime, only: Filter = EVERY) -> NothingReady:
    """Say why there is nothing, and when to ask again."""
    if counts.claimable and only is not EVERY:
        return NothingReady(f"None of the tasks that you could claim now has {only}.")
    if counts.claimable:
        return NothingReady("What is ready asks for capabilities you did not name (--can), or is not assigned to you.")
    held = counts.by_status[Status.ACTIVE] - counts.expired
    reasons = [
        f"{number} {why}"
        for number, why in (
            (held, "being worked on"),
            (counts.waiting, "waiting for others"),
            (counts.later, "not due yet"),
            *((counts.by_status[status], status.value) for status in _SET_ASIDE),
        )
        if number
    ]
    if not reasons:
        return NothingReady("There is nothing to do; 'dibs list' shows what there is.")
    wait = None
    if counts.next_due is not None:
        wait = max(0, (counts.next_due - now) // timedelta(milliseconds=1))
    return NothingReady(f"Nothing can be claimed now: {', '.join(reasons)}.", retry_after_ms=wait)
