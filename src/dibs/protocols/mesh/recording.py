"""Rating, into the Agent Task Log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.streams import complain
from dibs.core.errors import DibsError
from dibs.core.scores import POINTS
from dibs.protocols.mesh.books import task_log
from dibs.protocols.mesh.scoring import scored

if TYPE_CHECKING:
    from dibs.core.scores import Rating
    from dibs.core.task import Task
    from dibs.desk import Desk


def record_score(desk: Desk, task: Task, rating: Rating, notes: str | None) -> float | None:
    """What was earned, or None where nothing was written: the work is done either way, and that stands."""
    if not rating.good:
        return None
    entry = scored(task, rating, notes)
    try:
        task_log(desk).write(entry, task.id)
    except DibsError as error:
        complain("dibs", f"not in the Agent Task Log: {task.id} ({error.message})")
        return None
    earned = entry[POINTS]
    return earned if isinstance(earned, float | int) else None
