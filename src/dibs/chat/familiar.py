"""What the sender's open tasks are about: their vectors are kept with them, and made where there are none yet.

Vectors only help to think: whatever happens to them, no message and no task depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.analysis import Known
from dibs.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.chat.embed import Embedder, Vector
    from dibs.chat.room import Room
    from dibs.core.task import Task

MADE_BY = "chat_embedder"  # the setting that tells whose vectors they are: those of two cannot be compared


def known_tasks(room: Room, tasks: Sequence[Task], embedder: Embedder) -> list[Known]:
    kept = room.tasks.vectors() if room.tasks.settings().get(MADE_BY) == embedder.name else {}
    bare = [task for task in tasks if task.id not in kept]
    made = dict(zip((task.id for task in bare), embedder.embed([task.title for task in bare]), strict=True))
    keep(room, made, embedder)
    vectors = {**kept, **made}
    return [Known(task.id, task.title, tuple(vectors[task.id]), task.deliverable) for task in tasks]


def keep(room: Room, vectors: Mapping[str, Vector], embedder: Embedder) -> None:
    telling = {task: vector for task, vector in vectors.items() if any(vector)}
    if not telling:
        return
    try:
        room.tasks.keep_vectors(telling)
    except NotFound:  # one of them was pruned meanwhile; the others are made again next time
        return
    if room.tasks.settings().get(MADE_BY) != embedder.name:
        room.tasks.configure({MADE_BY: embedder.name})
