"""What the graph calls things: the words people know who ran kurultai on Neo4j before, and back to ours.

Properties that have no name there keep the one they have in dibs.
"""

from __future__ import annotations

from dibs.core.fields import FIELDS, Kind, names_of
from dibs.core.task import Status

WORDS = {status: str(status) for status in Status} | {
    Status.READY: "pending",
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.CANCELED: "aborted",
}
_STATUSES = {word: status for status, word in WORDS.items()}

# Fields of a task whose property has another name.
PROPERTIES = {
    "scope": "sender_hash",
    "reason": "blocked_reason",
    "override": "user_priority_override",
    "priority": "priority_weight",
    "finished_at": "completed_at",
    "category": "type",
    "deliverable": "deliverable_type",
    "spent_token": "claim_attempt_id",
}

# The properties of a task that are times: written as such, read as text.
TIMES = (*(PROPERTIES.get(name, name) for name in names_of([Kind.TIME])), "claimed_at", "expires_at")

# Every property of a task that dibs gives a meaning; whatever else is on a node came with the task's `extra`.
OF_TASKS = frozenset({
    *(PROPERTIES.get(field.name, field.name) for field in FIELDS if field.name != "lease"), *TIMES,
    "desk", "claimed_by", "run", "holder", "order_key", "place", "wakes_at", "embedding",
})  # fmt: skip

OF_EVENTS = frozenset({
    "desk", "seq", "timestamp", "sender_hash", "task_id", "verb", "outcome", "agent_id", "run", "attempt", "source",
    "target", "reason", "detail", "mark", "dispatched_at",
})  # fmt: skip

# Events that the document has a node of its own for, by verb.
LABELS = {
    "claim": "TaskDispatch",
    "edit": "PriorityAudit",
    "sync": "SyncEvent",
    "sync_change": "SyncChange",
    "sync_notice": "SyncNotification",
}

# Of these, what the detail says stands on the node.
SPREAD = frozenset({"sync", "sync_change", "sync_notice"})


def status_from(word: str) -> Status:
    return _STATUSES[word]


def weight_of(priority: float) -> float:
    """A weight is the greater the sooner a task is wanted, a priority the smaller. There is no -0.0."""
    return 0.0 - priority


def priority_from(weight: float) -> float:
    priority = 0.0 - weight
    return int(priority) if priority.is_integer() else priority
