"""claim, progress: having a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.fleet.idle import nothing_ready
from dibs.fleet.minder.words import clock
from dibs.serve.mcp.models import Claimed, Kept
from dibs.serve.mcp.rendering import mine, row

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.serve.mcp.arguments import Claim, Progress
    from dibs.serve.mcp.sessions import Session


def claim(desk: Desk, session: Session, asked: Claim) -> Claimed:
    who, asked_at = session.who, clock()
    if asked.task is not None:
        session.insist_new(asked.task)
    refs = () if asked.task is None else (asked.task,)
    claimed = desk.claim(who.agent, refs=refs, lease=who.lease, run=who.run, can=who.can, only=asked.only)
    if not claimed:
        return Claimed(note=nothing_ready(desk.counts(), desk.now(), asked.only).message)
    session.take(claimed[0], asked_at)
    return Claimed(claimed=mine(desk, claimed[0], who.lease))


def progress(desk: Desk, session: Session, asked: Progress) -> Kept:
    """That it is still held is asked of the store, so that the answer can be relied on."""
    meant, asked_at = session.meant(desk, asked.task, asked.token), clock()
    with session.checking(meant):
        task = desk.renew(meant.task, meant.token, lease=session.who.lease)
    session.adopt(meant, task, asked_at)
    if asked.note:
        desk.comment(task.id, asked.note)
    minutes = round(session.who.lease.total_seconds() / 60, 2)
    return Kept(task=row(task, desk.now()), minutes=minutes)
