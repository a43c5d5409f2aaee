"""Other answers of a store: counts, similar tasks, findings of a check, and lines of an export.

They are not part of the port, because a cold claim needs none of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from dibs.core.errors import InvalidInput, NothingReady
from dibs.core.fields import EVERY, Filter
from dibs.core.task import Status, Task

if TYPE_CHECKING:
    from dibs.core.events import Event
    from dibs.core.settings import Setting
    from dibs.core.task import Link


class Counts(NamedTuple):
    """The number of tasks by status, and of ready tasks by condition.

    `waiting` tasks have unfinished prerequisites, `later` tasks are not due yet, `claimable` tasks can be claimed now;
    `expired` of them have an expired lease. `next_due` is when time next makes a task claimable.
    """

    by_status: Mapping[Status, int]
    waiting: int
    claimable: int
    expired: int
    later: int = 0
    next_due: datetime | None = None


_SET_ASIDE = (Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.BACKLOG)


def nothing_ready(counts: Counts, now: datetime, only: Filter = EVERY) -> NothingReady:
    """The error for a claim that found no task: why, and when to try again."""
    if counts.claimable and only is not EVERY:
        return NothingReady(f"No claimable task has {only}.")
    if counts.claimable:
        return NothingReady("The ready tasks require capabilities you did not name (--can), or are assigned to others.")
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
        return NothingReady("There are no open tasks here; 'dibs list --all' lists finished ones.")
    wait = None
    if counts.next_due is not None:
        wait = max(0, (counts.next_due - now) // timedelta(milliseconds=1))
    return NothingReady(f"Nothing can be claimed now: {', '.join(reasons)}.", retry_after_ms=wait)


class Neighbour(NamedTuple):
    """A similar task with its cosine, from -1 to 1. A task found by its words has no score."""

    task: Task
    score: float | None


class Neighbours(NamedTuple):
    """The most similar tasks, best first, then by id; and whether vectors or words were compared."""

    found: tuple[Neighbour, ...]
    by: Literal["vector", "text"]


class Finding(NamedTuple):
    """A problem that a check found. `fix` repairs the `fixable` ones."""

    problem: str
    subject: str
    fixable: bool
    fixed: bool = False


class HealthCheck(NamedTuple):
    """One checked item of a store's report, and the next step if it is not ok."""

    name: str
    ok: bool
    message: str


class Record(NamedTuple):
    """One line of an export: a task, a link, a setting or an event, with the scope it belongs to."""

    scope: str
    item: "Task | Link | Setting | Event"


def refuse_unsound(findings: Sequence[Finding]) -> None:
    """Refuse an import after which the store would not be sound, before it is committed."""
    if findings:
        found = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise InvalidInput(
            f"After this import the store would not be sound: {found.subject}: {found.problem}{more}. Nothing was "
            "imported. Run 'dibs doctor --deep' to see whether the store was sound before."
        )


class Timed(NamedTuple):
    """Leased or deferred tasks of one status: all, those with unfinished prerequisites, those due, those not due."""

    number: int = 0
    gated: int = 0
    due: int = 0
    later: int = 0
    next_due: datetime | None = None


def counted(
    resting: Mapping[str, int], opened: int, woken: int, timed: Mapping[str, Timed], total: int | None = None
) -> Counts:
    """Counts from a store's indexes: `opened` tasks are claimable, `woken` of them with an expired lease.

    A store without an index of done tasks gives the `total`.
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
