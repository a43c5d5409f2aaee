"""What the sender's open tasks are about: their vectors are kept with them, and made where there are none yet.

Vectors only help to think: whatever happens to them, no message and no task depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Known
from dibs.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.chat.analyst.embedders import Embedder, Vector
    from dibs.chat.room import Room
    from dibs.core.task import Task

MADE_BY = "chat_embedder"  # the setting that tells whose vectors they are: those of two cannot be compared


def known_tasks(room: Room, tasks: Sequence[Task], embedder: Embedder) -> list[Known]:
    """With the vectors of this embedder; those that had to be made are kept for the next time."""
    known, made = recalled(room, tasks, embedder)
    keep(room, made, embedder)
    return known


def recalled(room: Room, tasks: Sequence[Task], embedder: Embedder) -> tuple[list[Known], dict[str, Vector]]:
    """The same without writing anything, and the vectors that had to be made."""
    kept = room.tasks.vectors() if room.tasks.settings().get(MADE_BY) == embedder.name else {}
    bare = [task for task in tasks if task.id not in kept]
    made = dict(zip((task.id for task in bare), embedder.embed([task.title for task in bare]), strict=True))
    vectors = {**kept, **made}
    return [Known(task.id, task.title, tuple(vectors[task.id]), task.deliverable) for task in tasks], made


def unfamiliar(tasks: Sequence[Task]) -> list[Known]:
    """Without vectors: whoever thinks about them makes their own."""
    return [Known(task.id, task.title, (), task.deliverable) for task in tasks]


def keep(room: Room, vectors: Mapping[str, Vector], embedder: Embedder) -> None:
    telling = {task: vector for task, vector in vectors.items() if any(vector)}
    if not telling:
        return
    try:
        room.tasks.keep_vectors(telling)
    except (NotFound, InvalidInput):  # one was pruned meanwhile, or others keep longer ones here: made again next time
        return
    if room.tasks.settings().get(MADE_BY) != embedder.name:
        room.tasks.configure({MADE_BY: embedder.name})
