"""Taking a page through the lifecycle: with the holder's token under guard, without one as a person would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.errors import IncompleteSubtasks, LostLock, Unsupported
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder
from dibs.stores.notion import arbiter, guard
from dibs.stores.notion.claims import differences, overrule, standing
from dibs.stores.notion.pages import lease_span, sealed
from dibs.stores.notion.steps import Page, Trashed, persistently, plainly, task_of
from dibs.stores.port import Moved

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from dibs.core.lifecycle import Move
    from dibs.core.task import Task
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Changes, Seen, View

_SHOWN = 5


def move(db: Database, asked: Move) -> Moved:
    """Apply one move. Whoever holds a task that someone deletes has lost it."""
    db.own(asked.scope)
    if asked.token is not None:
        db.gateway.hush(asked.token)
    page = db.find_page(asked.id)
    judged = _Judged(db, asked._replace(late_ok=False))  # nobody could tell whether another was quicker
    try:
        task = persistently(db, lambda: _carry_out(db, Page(db, page), judged))
    except Trashed:
        if asked.token is None:
            raise
        raise LostLock(f"{asked.id} was deleted by someone while you held it. Stop working on it.") from None
    return Moved(task, repeated=judged.repeated)


def _carry_out(db: Database, page: Page, judged: _Judged) -> Task:
    db.gateway.reserve(2)
    first = page.look()
    judged.take_name_for_token(first)
    asked = judged.asked
    try:
        if asked.verb in {Verb.DONE, Verb.APPROVE} and _looked_at_children(db, page, judged, first):
            first = page.look()  # that took its time
        return _changed(db, page, asked, judged, first)
    except LostLock:
        if db.ledger is not None:
            arbiter.refuse_taken(db.ledger, first.view, asked, _run(db, asked))
        raise


def _changed(db: Database, page: Page, asked: Move, judged: _Judged, first: Seen) -> Task:
    """With the holder's proof under guard, or by the arbiter; else as a person would."""
    if asked.token is None or asked.force or _persons(task_of(first.view), asked.token):
        held = standing(db, first.view.id)
        task = page.run(plainly(judged), first)
        if task.status is first.view.status:
            return task
        overrule(db, task, held, asked.by)
        return task._replace(lease=None)
    if asked.verb is Verb.RENEW:
        return _renew(db, page, asked, first)
    if db.ledger is not None:
        return arbiter.finish(db.ledger, page, first, asked, _run(db, asked), judged)
    task = page.run(guard.finish(asked.token, _run(db, asked), judged, db.bounds), first)
    if task.lease is not None and task.lease.holder is Holder.HUMAN:
        raise LostLock(f"A person has taken {task.id} in the same moment. Stop working on it.", holder=task.lease.agent)
    return task


def _refuse_renamed(db: Database, view: View, asked: Move) -> None:
    """Where people have no other way to take a task than to put a name on it, the name decides. Case does not."""
    if "holder" in db.layout.properties or asked.by.agent is None or view.agent is None:
        return
    if asked.by.agent.casefold() != view.agent.casefold():
        raise LostLock(f"{view.id} is {view.agent}'s now. Nothing was changed; stop here.", holder=view.agent)


def _run(db: Database, asked: Move) -> str | None:
    """The run that must be the holder's own. Where ids can be chosen, the token is all the proof there is."""
    return asked.by.run if db.layout.assigns_ids else None


def _renew(db: Database, page: Page, asked: Move, first: Seen) -> Task:
    length = _length(db, task_of(first.view), asked)
    _refuse_renamed(db, first.view, asked)
    if db.ledger is not None:
        return arbiter.renew(db.ledger, page, first, asked, _run(db, asked), length)
    return page.run(guard.renew(asked.token or "", _run(db, asked), length, db.bounds, floored=db.layout.begins), first)


def _length(db: Database, task: Task, asked: Move) -> timedelta:
    own = lease_span(db.layout, task)
    return own if asked.lease is None or db.layout.begins else asked.lease


def _looked_at_children(db: Database, page: Page, judged: _Judged, first: Seen) -> bool:
    """A parent is not done before its children: by the page's own count, or by a look at each where it has none."""
    reading = page.reading
    if reading is None or reading.open_children == 0 or (reading.open_children is None and not reading.children):
        return False
    if not judged(first.view, first.now):
        return False
    if reading.open_children is not None:
        count = int(reading.open_children)
        raise IncompleteSubtasks(
            f"{reading.task.id} has {count} unfinished sub-task{'s' if count > 1 else ''}. Finish or cancel them first."
        )
    pages = reading.children
    if reading.more_children:
        pages = tuple(db.gateway.related(reading.page, reading.shape["children"].name))
    children = [db.read_page(child) for child in pages]
    still_open = [child.task.id for child in children if not child.task.finished and not child.trashed]
    lifecycle.refuse_unfinished(reading.task, still_open[:_SHOWN])
    return True


def _persons(task: Task, token: str) -> bool:
    """A person holds the task under this very token."""
    lease = task.lease
    return lease is not None and lease.holder is Holder.HUMAN and lease.token == sealed(token)


def _unsealed(task: Task, token: str | None) -> Task:
    """The task with the token put back in where only its digest was kept. What an agent left behind proves nothing."""
    if token is None:
        return task
    if task.spent_token == sealed(token):
        task = task._replace(spent_token=token)
    lease = task.lease
    if lease is None or lease.holder is not Holder.HUMAN:
        return task
    return task._replace(lease=lease._replace(token=token if _persons(task, token) else ""))


def _sealed(task: Task) -> Task:
    """The way back: a person's token is not for the page."""
    lease = task.lease
    if lease is None or lease.holder is not Holder.HUMAN or not lease.token:
        return task
    return task._replace(lease=lease._replace(token=sealed(lease.token)))


class _Judged:
    """What a move makes of a page as it is, by the rules of the lifecycle."""

    def __init__(self, db: Database, asked: Move) -> None:
        self._db, self.asked = db, asked
        self.repeated = False

    def take_name_for_token(self, seen: Seen) -> None:
        """Where the holder's name is proof, its token is looked up, so that the change is guarded all the same."""
        asked, lease = self.asked, task_of(seen.view).lease
        named = asked.named and asked.token is None and not asked.force
        if named and lease is not None and lease.agent == asked.by.agent and lease.live(seen.now):
            token = lease.token if lease.holder is Holder.AGENT else None
            self.asked = asked._replace(token=token or None)

    def __call__(self, view: View, now: datetime) -> Changes:
        asked, before = self.asked, task_of(view)
        before = _unsealed(before, asked.token)
        self._refuse_stranger(view, before, now)
        after = lifecycle.moved(before, asked, now)
        if after is before:
            self.repeated = True
            return {}
        self._refuse_loss(after)
        return differences(before, _sealed(after))

    def _refuse_stranger(self, view: View, before: Task, now: datetime) -> None:
        """The guard's own reasons come first: they know more than the lifecycle about people, runs and margins."""
        asked, token = self.asked, self.asked.token
        if token is None or asked.force or before.spent_token == token or _persons(task_of(view), token):
            return
        if self._db.ledger is None:
            refused = guard.lost(view, token, _run(self._db, asked), now, self._db.bounds)
            if refused is not None:
                raise refused
        _refuse_renamed(self._db, view, asked)

    def _refuse_loss(self, after: Task) -> None:
        """Nothing that was brought along may get lost for want of a property."""
        if self._db.layout.rest:
            return
        if self.asked.restates:
            raise Unsupported(
                f"This store cannot do that: the layout '{self._db.layout.name}' has no place for what else was said."
            )
        if self.asked.result is not None and after.result is not None:
            raise Unsupported(
                f"This store cannot do that: the layout '{self._db.layout.name}' has no property for a result."
            )
