"""Counting from what a store keeps an index of: what is at rest, what is open, and what time will open."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from dibs.core.task import Status
from dibs.stores.reports import Counts


class Timed(NamedTuple):
    """Tasks of one status that are leased or put off: how many in all, how many of them wait for others as well, are
    due but not yet woken by a claim, or are not due; and the next time that passes."""

    number: int = 0
    gated: int = 0
    due: int = 0
    later: int = 0
    next_due: datetime | None = None


def counted(
    resting: Mapping[str, int], opened: int, woken: int, timed: Mapping[str, Timed], total: int | None = None
) -> Counts:
    """`opened` can be claimed; `woken` of these are leases that have expired. A ready task at rest waits for others.

    `total` is for who has no index of what is done: that is what is left of all.
    """
    leased, put_off = timed.get(Status.ACTIVE, Timed()), timed.get(Status.READY, Timed())
    by_status = {status: resting.get(status, 0) for status in Status}
    if total is not None:
        by_status[Status.DONE] = total - sum(resting.values()) - opened - sum(each.number for each in timed.values())
    by_status[Status.ACTIVE] += leased.number + woken
    by_status[Status.READY] += put_off.number + opened - woken
    return Counts(
        by_status,
        waiting=resting.get(Status.READY, 0) + put_off.gated,
        claimable=opened + leased.due + put_off.due,
        expired=woken + leased.due,
        later=put_off.later,
        next_due=min((each.next_due for each in timed.values() if each.next_due is not None), default=None),
    )
