"""An agent's hands on the desk: each domain by its own desk, and a note of every file that was touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.task import Actor, Edit, Status
from dibs.desk import Desk
from dibs.protocols.vault.files import path_of
from dibs.protocols.vault.policy import VAULT

if TYPE_CHECKING:
    from dibs.core.lifecycle import Verb
    from dibs.core.task import Draft, Json, Task
    from dibs.stores.port import Store


class Hands:
    """What one agent does in a vault. `touched` are the paths that a clone has to publish."""

    def __init__(self, store: Store, agent: str, run: str | None = None) -> None:
        self.store = store
        self.by = Actor(agent, run)
        self.touched: list[str] = []

    def desk(self, scope: str) -> Desk:
        return Desk(self.store, scope=scope, policy=VAULT, by=self.by)

    def add(self, scope: str, draft: Draft) -> Task:
        (task,) = self.desk(scope).add([draft])
        self.touched.append(path_of(task))
        return task

    def move(self, task: Task, verb: Verb, **brings: Any) -> Task:
        moved = self.desk(task.scope).move(verb, task.id, **brings)
        self.touched += [path_of(task), path_of(moved.task)]
        for drawn in (*moved.escalated, *moved.canceled):
            after = self.store.get(task.scope, drawn)
            self.touched += [path_of(after._replace(status=Status.READY, lease=None)), path_of(after)]
        return moved.task

    def mark(self, task: Task, **extra: Json) -> Task:
        """Say something in the front matter."""
        self.touched.append(path_of(task))
        return self.desk(task.scope).edit(task.id, Edit(extra={**task.extra, **extra}))

    def let_go(self) -> list[str]:
        """The paths touched since the last time, each once."""
        touched, self.touched = list(dict.fromkeys(self.touched)), []
        return touched
