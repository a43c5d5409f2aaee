"""ntask's rules, as data."""

from collections.abc import Mapping
from datetime import timedelta

from dibs.core.policy import CanceledBlocker, Policy
from dibs.core.task import Status

SUCCESS, CONFLICT, MISCONFIGURED, LOST_LOCK, API_ERROR = 0, 2, 3, 4, 5

EXITS: Mapping[str, int] = {
    "CONFLICT": CONFLICT,
    "MISCONFIGURED": MISCONFIGURED,
    "CLI_MISSING": MISCONFIGURED,
    "INCOMPLETE_SUBTASKS": MISCONFIGURED,
    "LOST_LOCK": LOST_LOCK,
    "API_ERROR": API_ERROR,
}

# What ntask calls each of our errors: API_ERROR is to be tried again, MISCONFIGURED to be put right by a person.
CODES: Mapping[str, str] = {
    "ERROR": "API_ERROR",
    **dict.fromkeys(
        ("REFUSED", "NOTHING_READY", "HELD", "WAITING", "NOT_FOR_YOU", "OVER_QUOTA", "OVER_LIMIT", "CHANGED"),
        "CONFLICT",
    ),
    "LOST_LOCK": "LOST_LOCK",
    "INCOMPLETE_SUBTASKS": "INCOMPLETE_SUBTASKS",
    "CLI_MISSING": "CLI_MISSING",
    **dict.fromkeys(("STORE_ERROR", "STORE_BUSY", "STORE_FULL", "STORE_UNAVAILABLE", "UNCONFIRMED"), "API_ERROR"),
    "SERVICE_UNAVAILABLE": "API_ERROR",
    **dict.fromkeys(("INVALID_INPUT", "PLAN_INVALID", "NOT_FOUND", "AMBIGUOUS_ID", "ILLEGAL_MOVE"), "MISCONFIGURED"),
    **dict.fromkeys(("BROKEN_RULE", "CYCLE", "ALREADY_EXISTS", "MISCONFIGURED", "UNSUPPORTED"), "MISCONFIGURED"),
    **dict.fromkeys(("NO_STORE", "STORE_READ_ONLY", "STORE_CORRUPT", "SCHEMA_TOO_NEW"), "MISCONFIGURED"),
    "STORE_REPLACED": "MISCONFIGURED",
}

NTASK = Policy(
    name="ntask",
    lease=timedelta(minutes=20),
    canceled_blocker=CanceledBlocker.RESOLVES,  # as a canceled sub-task is none that its parent has to wait for
    requeue_on_change=True,  # the oldest-edited comes first
    short_ids=False,  # 4 is TASK-4, and never TASK-42
    words={
        Status.BACKLOG: "BACKLOG",
        Status.READY: "READY",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.REVIEW: "REVIEW",
        Status.DONE: "DONE",
        Status.CANCELED: "CANCELED",
        # What ntask itself never makes of a task, but other users of the same store may.
        Status.PAUSED: "PAUSED",
        Status.ESCALATED: "ESCALATED",
    },
    aliases={"CANCELLED": Status.CANCELED},
    exit_statuses={code: EXITS[ours] for code, ours in CODES.items()},
)

DEFAULT_PRIORITY = 5


def to_core(priority: float) -> float:
    """ntask: the higher number comes first. The core: the lower one."""
    return -priority if priority else priority


from_core = to_core
