"""what_next, show, find: looking without touching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import TERMINAL, Status
from dibs.fleet.idle import nothing_ready
from dibs.serve.desks import page_of
from dibs.serve.mcp.models import Found, Lookout, Shown
from dibs.serve.mcp.rendering import brief, rows
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.serve.mcp.arguments import Find, Show, WhatNext
    from dibs.serve.mcp.sessions import Session

_OPEN = tuple(status for status in Status if status not in TERMINAL)


def what_next(desk: Desk, session: Session, asked: WhatNext) -> Lookout:
    now = desk.now()
    ready = desk.ready(limit=asked.limit, agent=session.who.agent, can=session.who.can)
    counts = desk.counts()
    numbers = {str(status): number for status, number in counts.by_status.items() if number}
    return Lookout(
        holding=rows(_held(desk, session), now),
        ready=rows(ready, now),
        counts={**numbers, "claimable": counts.claimable, "waiting": counts.waiting},
        note=None if ready else nothing_ready(counts, now).message,
    )


def _held(desk: Desk, session: Session) -> list[Task]:
    """As they stand now; that one was lost meanwhile is for the keeper to tell."""
    found = [(hold.task, desk.get(hold.task.id)) for hold in session.holds]
    return [now for then, now in found if now.lease is not None and now.attempt == then.attempt]


def show(desk: Desk, _session: Session, asked: Show) -> Shown:
    task = brief(desk, desk.get(asked.task), asked.offset)
    more = f"The description goes on: show with offset={task.more_at}." if task.more_at is not None else None
    return Shown(task=task, note=more)


def find(desk: Desk, session: Session, asked: Find) -> Found:
    holder = session.who.agent if asked.mine else None
    query = Query(desk.scope, tuple(asked.status) or _OPEN, agent=holder, text=asked.text, only=asked.only)
    page = page_of(desk, query, asked.limit, asked.cursor)
    return Found(tasks=rows(page.tasks, desk.now()), next=page.next)
