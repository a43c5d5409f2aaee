"""What one agent asks of a desk: an overview of its tasks, and to take back its last change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.port import Query, refuse

if TYPE_CHECKING:
    from dibs.core.events import Event
    from dibs.core.task import Json, Task
    from dibs.core.undo import Reversal
    from dibs.desk import Desk
    from dibs.stores.reports import Counts


class Overview(NamedTuple):
    """The tasks that concern one agent. `people` are the tasks that wait for a person's decision."""

    agent: str
    held: list[Task]
    ready: list[Task]
    blocked: list[Task]
    people: list[Task]
    counts: Counts


class Undone(NamedTuple):
    """The reversed change and its task. `note` says what could not be restored."""

    event: Event
    task: Task
    note: str = ""


def overview_of(desk: Desk, agent: str, *, limit: int = 10) -> Overview:
    """The tasks that an agent holds or can claim, and those that are blocked or wait for a person."""
    name = checks.name_of("agent", agent)
    held = desk.find(Query(desk.scope, (Status.ACTIVE,), agent=name))
    people = desk.find(Query(desk.scope, (Status.REVIEW, Status.ESCALATED)))
    blocked = desk.find(Query(desk.scope, (Status.BLOCKED,)))
    return Overview(name, held, desk.ready(limit=limit, agent=name), blocked, people, desk.counts())


def undo_last_change(desk: Desk, agent: str, *, token: str | None = None) -> Undone:
    """Take back the agent's last change. Raise Changed if another agent has built on it.

    The event log decides what the last change was, and the lifecycle whether it can be taken back.
    """
    from dibs.core import undo

    if not desk.capabilities.history:
        refuse("it keeps no events to undo by")
    log = desk.events()
    event = undo.last_change(log, checks.name_of("agent", agent))
    found = undo.reversal(event, [old for old in log if old.task == event.task and old.seq < event.seq])
    exact = desk.exact
    gated = exact.links(event.task) if found.frees and desk.capabilities.links else []
    undo.refuse_built_on(event, log, [link.task for link in gated if link.on == event.task])
    task = _reverse(exact, found, token)
    detail: dict[str, Json] = {"undoes": event.seq, "since": log[-1].seq, "change": event.verb}
    exact.record("undo", ref=event.task, detail=detail)
    return Undone(event, task, found.note)


def _reverse(desk: Desk, found: Reversal, token: str | None) -> Task:
    """Carry out what takes a change back."""
    task = found.event.task
    if found.edit is not None:
        return desk.edit(task, found.edit)
    if found.link is not None:
        desk.link([found.link])
    if found.unlink is not None:
        desk.unlink([found.unlink])
    for verb, restored in found.moves:
        desk.move(verb, task, token=token if verb is Verb.RELEASE else None, **restored)
    return desk.get(task)
