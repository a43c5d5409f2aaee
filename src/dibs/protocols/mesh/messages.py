"""What goes into the Mesh Communication Log."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from dibs.console.streams import complain
from dibs.core.errors import DibsError
from dibs.protocols.mesh.books import Entry, communication_log
from dibs.protocols.mesh.tasks import timeout_of

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk

CLAIM_ATTEMPT = "claim_attempt"
CONFLICT = "conflict"


class State(StrEnum):
    """How a message stands."""

    SENT = "Sent"
    RECEIVED = "Received"
    TIMEOUT = "Timeout"
    BLOCKED = "Blocked"
    RESOLVED = "Resolved"


def message(
    desk: "Desk",
    event: str,
    source: str,
    state: State,
    *,
    target: str | None = None,
    task: "Task | None" = None,
    named: str | None = None,
    resolution: str | None = None,
    timeout: float | None = None,
) -> Entry:
    """`named` is the task where nobody could read it."""
    minutes = timeout_of(task) / timedelta(minutes=1) if task is not None and timeout is None else timeout
    return {
        "Event": event,
        "Source Agent": source,
        "Target Agent": target,
        "Status": str(state),
        "Timeout (min)": minutes,
        "Blocked Task": task.id if task is not None else named,
        "Resolution": resolution,
        "Timestamp": desk.now(),
        "Retry Count": task.attempt if task is not None else None,
    }


def try_to_log(desk: "Desk", entry: Entry, task: "Task | None") -> None:
    """A log that cannot be written is no reason not to work, but one to speak of."""
    try:
        communication_log(desk).write(entry, None if task is None else task.id)
    except DibsError as error:
        complain("dibs", f"not in the Mesh Communication Log: {entry['Event']} ({error.message})")
