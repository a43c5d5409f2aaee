"""The rules of the Task Claim Protocol, as data."""

from datetime import timedelta

from dibs.core.policy import Policy
from dibs.core.task import Status

TIMEOUT_MINUTES = 30  # of a task that does not say how long a claim on it counts
TIMEOUT = "claim_timeout_minutes"  # where it says so

MESH = Policy(
    name="mesh",
    lease=timedelta(minutes=TIMEOUT_MINUTES),
    short_ids=False,  # the id of a page is no beginning of another
    words={
        Status.READY: "OPEN",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.DONE: "COMPLETED",
        Status.CANCELED: "CANCELLED",
        # What the protocol itself never makes of a task, but other users of the same store may.
        Status.BACKLOG: "BACKLOG",
        Status.PAUSED: "PAUSED",
        Status.REVIEW: "REVIEW",
        Status.ESCALATED: "ESCALATED",
    },
    aliases={"CANCELED": Status.CANCELED, "DONE": Status.DONE},
)

AGENTS = ("Sandman", "Oracle")  # unless MESH_AGENTS names others
