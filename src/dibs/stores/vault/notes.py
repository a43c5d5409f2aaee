"""What is added below a task when it is claimed and when an attempt ends, as the claim-by-move contract has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.stores.vault.places import FOLDER_OF

if TYPE_CHECKING:
    from dibs.core.task import Task

_SUCCESS = frozenset({Status.DONE, Status.REVIEW})


def claim_note(held: Task) -> str:
    lease = held.lease
    if lease is None:
        return ""
    return (
        f"# Claimed Task: {held.id}\n\n"
        f"**Claimed By**: {_line(lease.agent)}\n"
        f"**Claimed At**: {time_text(lease.claimed_at)}\n"
        f"**Status**: processing\n\n"
        "## Progress\n\n"
        "<!-- Agent adds progress notes here -->\n"
    )


def completion_note(before: Task, after: Task) -> str:
    """Nothing for a move that ends no attempt."""
    lease = before.lease
    if lease is None or after.lease is not None:
        return ""
    seconds = (after.updated_at - lease.claimed_at).total_seconds()
    reason = f"**Reason**: {_line(after.reason)}\n" if after.reason else ""
    return (
        "## Completion\n\n"
        f"**Completed At**: {time_text(after.updated_at)}\n"
        f"**Duration**: {seconds:g}\n"
        f"**Result**: {'success' if after.status in _SUCCESS else 'failure'}\n"
        f"{reason}"
        f"**Next State**: {FOLDER_OF[after.status]}\n"
    )


def _line(text: str) -> str:
    return " ".join(text.split())
