"""Which agent does which kind of work: roles and actions, as data.

A file says what kind of work it is by `action:` in its front matter. A cloud agent prepares, a local one also acts;
what is sensitive, a cloud agent only drafts, for a person to approve.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from dibs.core.task import Task


class Role(StrEnum):
    CLOUD = "CLOUD"
    LOCAL = "LOCAL"


_PREPARING = frozenset({"triage", "draft", "schedule", "monitor"})
SENSITIVE = frozenset({"approve", "send", "post", "whatsapp", "banking", "execute"})
ALLOWED: Mapping[Role, frozenset[str]] = {Role.CLOUD: _PREPARING, Role.LOCAL: _PREPARING | SENSITIVE}

ANY = "*"
APPROVE = "approve"
UNNAMED = "triage"  # what a file asks for that names no action
ACTION_OF_DRAFT: Mapping[str, str] = {
    "email_send": "send",
    "social_post": "post",
    "payment": "banking",
    "invoice_post": "execute",
}
_DRAFT_OF_ACTION = {action: kind for kind, action in ACTION_OF_DRAFT.items()}

# Keys of the front matter, beside those of the store.
ACTION = "action"
DRAFT_ID, DRAFT_TYPE, DRAFT_OF = "draft_id", "draft_type", "draft_of"
APPROVAL, EXPIRES = "approval_status", "expires_at"
PENDING, APPROVED, REJECTED, EXPIRED = "pending", "approved", "rejected", "expired"


class Way(StrEnum):
    """What an agent does with a task: carry it out, draft it for approval, or leave it to others."""

    ACT = "act"
    DRAFT = "draft"
    LEAVE = "leave"


class Duties(NamedTuple):
    """What one agent may do."""

    role: Role
    allowed: frozenset[str]
    sensitive: frozenset[str]

    def way(self, task: Task) -> Way:
        action = action_of(task)
        if DRAFT_OF in task.extra:
            return Way.LEAVE  # a draft waits for a person, wherever it lies
        if self.may(action):
            return Way.ACT
        if self.role is Role.CLOUD and action in self.sensitive and task.extra.get(APPROVAL) != APPROVED:
            return Way.DRAFT
        return Way.LEAVE

    def may(self, action: str) -> bool:
        return ANY in self.allowed or action in self.allowed


def action_of(task: Task) -> str:
    """The kind of work; a type of draft stands for the action that carries it out."""
    said = task.extra.get(ACTION)
    action = str(said).strip().lower() if said is not None else ""
    return ACTION_OF_DRAFT.get(action, action) or UNNAMED


def draft_type(task: Task) -> str:
    """What kind of draft a task calls for: its own word, or the one for its action."""
    said = str(task.extra.get(DRAFT_TYPE) or task.extra.get(ACTION))
    if said in ACTION_OF_DRAFT:
        return said
    action = action_of(task)
    return _DRAFT_OF_ACTION.get(action, action)
