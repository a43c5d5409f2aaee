"""ralph's rules, as data."""

from datetime import timedelta

from dibs.core.policy import CanceledBlocker, OwnerProof, Policy
from dibs.core.task import Status

NOT_FOUND = 2  # no such task, or none that may be claimed
FAILED = 1

_FAILURES = (
    "ERROR INVALID_INPUT PLAN_INVALID REFUSED HELD WAITING NOT_FOR_YOU OVER_QUOTA OVER_LIMIT CHANGED ILLEGAL_MOVE "
    "LOST_LOCK BROKEN_RULE CYCLE INCOMPLETE_SUBTASKS ALREADY_EXISTS SERVICE_UNAVAILABLE "
    "STORE_ERROR NO_STORE STORE_BUSY STORE_READ_ONLY STORE_FULL STORE_CORRUPT SCHEMA_TOO_NEW STORE_UNAVAILABLE "
    "UNCONFIRMED MISCONFIGURED CLI_MISSING UNSUPPORTED"
)

RALPH = Policy(
    name="ralph",
    lease=timedelta(seconds=600),
    canceled_blocker=CanceledBlocker.RESOLVES,
    owner_proof=OwnerProof.NAME,
    late_holder_ok=True,
    short_ids=False,  # a planner names its tasks; t-1 must never be taken for t-10
    words={
        Status.READY: "open",
        Status.ACTIVE: "active",
        Status.DONE: "done",
        Status.CANCELED: "deleted",
        # What ralph itself never makes of a task, but other users of the same store may.
        Status.BACKLOG: "backlog",
        Status.BLOCKED: "blocked",
        Status.PAUSED: "paused",
        Status.REVIEW: "review",
        Status.ESCALATED: "escalated",
    },
    exit_statuses=dict.fromkeys(_FAILURES.split(), FAILED)
    | dict.fromkeys(("NOT_FOUND", "AMBIGUOUS_ID", "NOTHING_READY"), NOT_FOUND),
)
