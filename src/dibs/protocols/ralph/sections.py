"""A task as ralph shows it: the fields of a Markdown-KV section, in their order."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from dibs.core.task import Input, Json, Link, LinkKind, Status, Task
from dibs.core.times import time_text
from dibs.protocols.ralph.policy import RALPH


class Section(NamedTuple):
    """`reason` and `result` come last: they are shown only where one task is looked at."""

    id: str
    title: str
    description: str = ""
    priority: float = 2
    status: str = "open"
    category: str | None = None
    spec: str | None = None
    ref: str | None = None
    assignee: str | None = None
    lease_expires_at: str | None = None
    retry_count: int = 0
    deps: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    blocker_results: tuple[tuple[str, Json], ...] = ()
    reason: str | None = None
    result: Json = None

    def as_json(self) -> dict[str, Json]:
        return {**self._asdict(), "blocker_results": dict(self.blocker_results)}


def section_of(task: Task, deps: Iterable[str] = (), inputs: Iterable[Input] = ()) -> Section:
    lease = task.lease
    return Section(
        id=task.id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        status=RALPH.say(task.status),
        category=task.category,
        spec=task.spec_ref,
        ref=task.ref or None,
        assignee=assignee_of(task),
        lease_expires_at=time_text(lease.expires_at) if lease is not None and lease.expires_at else None,
        retry_count=task.retries,
        deps=tuple(deps),
        steps=task.steps,
        blocker_results=tuple((given.id, given.result) for given in inputs),
    )


def in_landscape(section: Section, task: Task, now: datetime) -> Section:
    """As an agent that looks for work sees it: an abandoned task is open, and nobody's."""
    if task.held(now):
        return section
    return section._replace(status=RALPH.say(Status.READY), assignee=None, lease_expires_at=None)


def assignee_of(task: Task) -> str | None:
    """Who has it; of a task that is done, who did it."""
    if task.lease is not None:
        return task.lease.agent
    return task.finished_by if task.status is Status.DONE else None


def deps_among(links: Iterable[Link]) -> dict[str, list[str]]:
    """What each task is blocked by."""
    found: dict[str, list[str]] = {}
    for link in links:
        if link.kind is LinkKind.BLOCKS:
            found.setdefault(link.task, []).append(link.on)
    return found
