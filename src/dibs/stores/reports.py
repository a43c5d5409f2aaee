"""What a store answers besides tasks: counts, similar tasks, findings of a check, and lines of an export.

Apart from the port, because a cold claim needs none of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.task import Status, Task

if TYPE_CHECKING:
    from dibs.core.events import Event
    from dibs.core.settings import Setting
    from dibs.core.task import Link


class Counts(NamedTuple):
    """How many tasks there are of each status, and what is behind the word ready.

    `waiting` for prerequisites, `later` because they are not due, `claimable` now, `expired` leases among those; and
    when time alone will next change that.
    """

    by_status: Mapping[Status, int]
    waiting: int
    claimable: int
    expired: int
    later: int = 0
    next_due: datetime | None = None


class Neighbour(NamedTuple):
    """A task that is like what was asked for: the cosine, from -1 to 1. What was found by its words has none."""

    task: Task
    score: float | None


class Neighbours(NamedTuple):
    """The tasks most like something, the likest first, then by id; and whether by their vectors or by their words."""

    found: tuple[Neighbour, ...]
    by: Literal["vector", "text"]


class Finding(NamedTuple):
    """Something a check found. `fixable` findings are put right by a check that may fix."""

    problem: str
    subject: str
    fixable: bool
    fixed: bool = False


class HealthCheck(NamedTuple):
    """One item of a store's report on itself: what was checked, and what to do if it is not ok."""

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
            "imported. 'dibs doctor --deep' tells whether the store was sound before."
        )
