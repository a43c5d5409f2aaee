"""Scores, into the Agent Task Log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.streams import complain
from dibs.core.errors import DibsError
from dibs.protocols.mesh.books import task_log
from dibs.protocols.mesh.scoring import scored

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.protocols.mesh.scoring import Scores


def record_score(desk: Desk, task: Task, scores: Scores, notes: str | None) -> float | None:
    """What was earned, or None where nothing was written: the work is done either way, and that stands."""
    if not scores.good:
        return None
    entry = scored(task, scores, notes)
    try:
        task_log(desk).write(entry, task.id)
    except DibsError as error:
        complain("dibs", f"not in the Agent Task Log: {task.id} ({error.message})")
        return None
    earned = entry["Points Earned"]
    return earned if isinstance(earned, float | int) else None
