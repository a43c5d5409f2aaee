"""What the graph calls things: the words people know who ran kurultai on Neo4j before, and back to ours.

Properties that have no name there keep the one they have in dibs.
"""

from __future__ import annotations

from dibs.core.task import Status

WORDS = {status: str(status) for status in Status} | {
    Status.READY: "pending",
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.CANCELED: "aborted",
}
_STATUSES = {word: status for status, word in WORDS.items()}

# The properties of a task that are times: written as such, read as text.
TIMES = (
    "created_at", "updated_at", "queued_at", "started_at", "completed_at", "not_before", "claimed_at", "expires_at",
    "next_check_at",
)  # fmt: skip

# Every property of a task that dibs gives a meaning; whatever else is on a node came with the task's `extra`.
OF_TASKS = frozenset({
    "desk", "sender_hash", "id", "title", "description", "status", "blocked_reason", "paused_from", "service_class",
    "user_priority_override", "priority_weight", "finished_by", "type", "deliverable_type", "steps", "spec_ref",
    "ref", "parent", "requires", "assigned_to", "retries", "max_retries", "attempt", "ended", "claim_attempt_id",
    "claimed_by", "run", "holder", "result", "artifacts", "unblock_action", "merged_into", "origin", "extra",
    "order_key", "place", "wakes_at", "blockers", "embedding", *TIMES,
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
