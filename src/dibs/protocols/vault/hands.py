"""An agent's hands on the desk: each domain by its own desk, and a note of every file that was touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.task import Edit, Status
from dibs.protocols.vault.files import path_of

if TYPE_CHECKING:
    from dibs.core.lifecycle import Verb
    from dibs.core.task import Draft, Json, Task
    from dibs.desk import Desk


class Hands:
    """One agent's work in a vault, at a desk of its own. `touched` are the paths that a clone has to publish."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.touched: list[str] = []

    @property
    def agent(self) -> str:
        return self.desk.by.agent or ""

    def add(self, scope: str, draft: Draft) -> Task:
        (task,) = self.desk.at(scope).add([draft])
        self.touched.append(path_of(task))
        return task

    def move(self, task: Task, verb: Verb, **brings: Any) -> Task:
        desk = self.desk.at(task.scope)
        moved = desk.move(verb, task.id, **brings)
        self.touched += [path_of(task), path_of(moved.task)]
        for drawn in (*moved.escalated, *moved.canceled):
            after = desk.get(drawn)
            self.touched += [path_of(after._replace(status=Status.READY, lease=None)), path_of(after)]
        return moved.task

    def mark(self, task: Task, **extra: Json) -> Task:
        """Say something in the front matter."""
        self.touched.append(path_of(task))
        return self.desk.at(task.scope).edit(task.id, Edit(extra={**task.extra, **extra}))

    def let_go(self) -> list[str]:
        """The paths touched since the last time, each once."""
        touched, self.touched = list(dict.fromkeys(self.touched)), []
        return touched
