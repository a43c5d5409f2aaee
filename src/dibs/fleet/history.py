"""What the record tells: all of it, a page at a time, or how earlier attempts at a task have failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import StoreError
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.scopes import is_internal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.events import Event
    from dibs.core.task import Task
    from dibs.desk import Desk

_PAGE = 1000
_READ = 50  # events of a task, to learn how earlier attempts ended


def history(desk: Desk, *, anywhere: bool = False) -> Iterator[Event]:
    """All events of the scope, or of all the users' scopes, oldest first."""
    after = 0
    while page := desk.events(after=after, limit=_PAGE, anywhere=anywhere):
        yield from (event for event in page if not (anywhere and is_internal(event.scope)))
        after = page[-1].seq


def failures(desk: Desk, task: Task) -> list[str]:
    """How earlier attempts at a task that was just claimed have failed, as far as it is on record."""
    if task.attempt == 1 or not desk.capabilities.history:
        return []
    try:
        events = desk.events(ref=task.id, last=_READ)
    except StoreError:
        return []  # good to know, and no more than that
    failed = (event for event in events if event.verb == Verb.FAIL and event.outcome is Outcome.OK)
    return [event.reason for event in failed if event.reason]
