"""Claim, renew and end tasks on pages: the order, the refusals, and the values written."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.errors import DibsError, Held, IllegalMove, IncompleteSubtasks, LostLock, NotFound, Refused, Unsupported
from dibs.core.lifecycle import Verb
from dibs.core.task import Claimed, Holder, Status
from dibs.stores.notion import arbiter, guard
from dibs.stores.notion.pages import lease_span, order_of, sealed
from dibs.stores.notion.steps import Page, Trashed, persistently, plainly, task_of, view_of
from dibs.stores.port import Moved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.task import Actor, Lease, Task
    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Ask, Changes, Seen, View
    from dibs.stores.notion.pages import Reading


_log = logging.getLogger("dibs.notion")
_LOOKED_AT = 20  # pages read before the answer is that none is free
_LATE = timedelta(minutes=2)  # the largest lag of a list
_FEW = 3  # contenders assumed after a lost claim


class Exhausted(IllegalMove):
    """The lease is over and no retry is left, but the task is not escalated yet."""


def peek(db: Database, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """Return claimable tasks in order; with `held` also held ones, with `unable` also those that need other
    capabilities.
    """
    found = sorted(db.with_status(Status.READY, Status.ACTIVE), key=order_of)
    now = db.heard()
    if unable:
        request = request._replace(can=frozenset(need for reading in found for need in reading.task.requires))
    free = [reading for reading in found if refusal(db, reading, request, now) is None]
    free = _confirmed(db, free, request) if limit == 1 and not db.newcomer else free[:limit]
    db.remember(*free[:1])  # the next look asks for it by its id
    taken = [reading for reading in found if held and reading.task.held(now)]
    return [reading.task for reading in (*free, *taken)]


def _confirmed(db: Database, free: list[Reading], request: ClaimRequest) -> list[Reading]:
    """Return the first listed page that is free when read directly.

    Lists may lag two minutes and would send every asker to a task that is already taken. A new process skips this: it
    has already spent a request on the database.
    """
    for listed in free[:_LOOKED_AT]:
        try:
            reading = db.read_page(listed.page)
        except NotFound:
            continue
        if not reading.trashed and refusal(db, reading, request, db.heard()) is None:
            return [reading]
    return []


def refusal(db: Database, reading: Reading, request: ClaimRequest, now: datetime) -> DibsError | None:
    """Why this page cannot be claimed now: its state, or the margin after its last lease."""
    return _refusal(db, view_of(reading), request, now)


def _refusal(db: Database, view: View, request: ClaimRequest, now: datetime) -> DibsError | None:
    task = task_of(view)
    refused = lifecycle.refusal(task, request, now)
    if refused is not None or request.takes_over:
        return refused
    if lifecycle.exhausted(task, now) is not None:
        return Exhausted(f"The lease on {task.id} is over and no retry is left; a person has to decide about it.")
    return None if request.holder is Holder.HUMAN else _too_early(db, view, now)


def _too_early(db: Database, view: View, now: datetime) -> DibsError | None:
    """With an arbiter, leases end exactly; no margin is needed."""
    return None if db.ledger is not None else guard.too_early(view, now, db.bounds)


def _length(db: Database, task: Task, asked: timedelta | None) -> timedelta:
    return lease_span(db.layout, task) if asked is None or db.layout.begins else asked


def claim_named(db: Database, request: ClaimRequest) -> list[Claimed]:
    """Claim all the named tasks or none: if one is refused, release those claimed before it."""
    db.own(request.scope)
    pages = [db.find_page(ref) for ref in request.ids]
    if len(pages) > 1:
        for ref in request.ids:
            _refuse(refusal(db, db.read(ref), request, db.heard()))
    claimed: list[Claimed] = []
    try:
        for page, token in zip(pages, request.tokens, strict=True):
            claimed.append(take(db, page, request, token))
    except DibsError as error:
        if isinstance(error, Exhausted):
            give_up(db, db.read_page(page))
        for one in claimed:
            give_back(db, one.task)
        raise
    return claimed


def claim_next(db: Database, request: ClaimRequest) -> list[Claimed]:
    """Claim the first free tasks of the order; each page is read before it is written, because lists lag.

    While other agents claim too, agents spread over the top of the order. Otherwise all would write the first page, and
    all but one would lose.
    """
    db.own(request.scope)
    found = sorted(db.with_status(Status.READY, Status.ACTIVE), key=order_of)
    for reading in found:
        give_up(db, reading)
    free = [reading for reading in found if refusal(db, reading, request, db.heard()) is None]
    contenders = contending(found, request.agent, db.heard())
    claimed: list[Claimed] = []
    while free and len(claimed) < len(request.tokens):
        token = request.tokens[len(claimed)]
        reading = chosen(free, token, contenders)
        free.remove(reading)
        try:
            claimed.append(take(db, reading.page, request, token, reading.task.id))
        except (Refused, NotFound) as error:
            if isinstance(error, Held):
                contenders = max(_FEW, contenders)
                if db.ledger is None:
                    db.sleep(random.uniform(0, db.bounds.settle / 5))  # noqa: S311 - else the losers collide again
    return claimed


def contending(found: Iterable[Reading], agent: str, now: datetime) -> int:
    """Count the recent claims of other agents on these pages."""
    return sum(
        reading.task.status is Status.ACTIVE
        and reading.task.lease is not None
        and reading.task.lease.holder is Holder.AGENT
        and reading.task.lease.agent != agent
        and reading.task.updated_at >= now - _LATE
        for reading in found
    )


def chosen(free: list[Reading], token: str, contenders: int) -> Reading:
    """Return the first page, or with contenders one of the first few, by a rendezvous hash of the token."""
    near = free[: 1 + 2 * contenders]
    return near[0] if len(near) == 1 else min(near, key=lambda reading: sealed(f"{token} {reading.page}"))


def held_under(db: Database, request: ClaimRequest) -> list[Claimed]:
    """Return the tasks already claimed under this request's tokens."""
    now = db.now()
    held = [reading.task for reading in db.with_status(Status.ACTIVE) if reading.task.held(now)]
    return [Claimed(task) for task in held if task.lease is not None and task.lease.token in request.tokens]


def take(db: Database, page: str, request: ClaimRequest, token: str, task_id: str | None = None) -> Claimed:
    """Claim one page: guarded, arbitrated, or plainly for a person. `task_id` is known if a list showed the page as
    free.
    """
    db.gateway.hush(token)
    target = Page(db, page)
    odd: list[str] = []

    def ask(view: View, now: datetime) -> Changes:
        _refuse(_refusal(db, view, request, now))
        odd.extend(_oddities(target.reading, now))
        return _claim(db, task_of(view), request, token, now)

    if request.holder is Holder.HUMAN:
        task = persistently(db, lambda: _by_hand(db, target, request, ask))
        task = task._replace(lease=task.lease and task.lease._replace(token=token))
    elif db.ledger is not None:
        task = _arbitrated(db, db.ledger, target, task_id, request, token, ask)
    else:
        task = _guarded(db, target, token, ask)
    if odd:
        target.remark(f"dibs claimed this task in an inconsistent state: {'; '.join(odd)}.")
    return Claimed(task)


def _by_hand(db: Database, page: Page, request: ClaimRequest, ask: Ask) -> Task:
    seen = page.look()
    held = standing(db, seen.view.id)
    task = page.run(plainly(ask), seen)
    overrule(db, task, held, request.by)
    return task


def _arbitrated(
    db: Database, ledger: Ledger, page: Page, task_id: str | None, request: ClaimRequest, token: str, ask: Ask
) -> Task:
    """Claim through the arbiter; read a page first that is not known to be free, or states its own lease length."""
    if task_id is None or db.layout.begins:
        seen = page.look()
        ask(seen.view, ledger.now())
        task_id = seen.view.id
        request = request._replace(lease=_length(db, task_of(seen.view), request.lease))
    return arbiter.claim(db, ledger, page, task_id, request, token, ask)


def _guarded(db: Database, page: Page, token: str, ask: Ask) -> Task:
    db.gateway.reserve(2)
    return page.run(guard.claim(token, ask, db.bounds), suspicious=True)


def _claim(db: Database, task: Task, request: ClaimRequest, token: str, now: datetime) -> Changes:
    """Return the fields that a claim writes; without a property for the rest, only the agreed ones.

    Of a person's token only the digest is written. So an agent's token that is left on a page which a person takes in
    Notion never passes for that person's.
    """
    held = lifecycle.claimed(task, request, token, now)
    lease = held.lease
    if lease is not None and request.holder is Holder.HUMAN:
        held = held._replace(lease=lease._replace(token=sealed(token)))
    elif lease is not None:
        length = _length(db, task, request.lease)
        end = guard.lease_end(now, length, floored=db.layout.begins) if db.ledger is None else now + length
        began = end - length if db.layout.begins else now
        held = held._replace(lease=lease._replace(expires_at=end, claimed_at=began))
    names = held._fields if db.layout.rest else ("status", "lease", "started_at")
    changed = {name: getattr(held, name) for name in names if getattr(held, name) != getattr(task, name)}
    return {**changed, "status": held.status, "lease": held.lease}


def standing(db: Database, task: str) -> Lease | None:
    """Return the arbiter's lease that a person is about to end."""
    return None if db.ledger is None else db.ledger.row(task).lease


def overrule(db: Database, task: Task, held: Lease | None, by: Actor) -> None:
    """End the arbiter's lease, which a person's change has overruled."""
    if db.ledger is not None:
        db.ledger.overrule(task.id, held, task.status, by)


def _oddities(reading: Reading | None, now: datetime) -> Iterable[str]:
    """List inconsistencies in the task's state that a person should know about."""
    if reading is None:
        return
    yield from reading.doubts
    if reading.task.lease is None and reading.lock_expires is not None and reading.lock_expires > now:
        yield "it had no claim, but a lock that had not expired"


def give_up(db: Database, reading: Reading) -> None:
    """Escalate a task whose lease expired with no retry left, if the layout stores retries."""
    given_up = lifecycle.exhausted(reading.task, db.heard())
    if given_up is None or Status.ESCALATED not in db.layout.words:
        return

    def ask(view: View, now: datetime) -> Changes:
        after = lifecycle.exhausted(task_of(view), now)
        if after is None or _too_early(db, view, now):
            return {}
        return differences(task_of(view), after)

    Page(db, reading.page).run(plainly(ask))


def differences(before: Task, after: Task) -> Changes:
    """Return the changed fields; of a spent token only the digest is kept."""
    spent = after.spent_token
    if spent is not None and spent != before.spent_token:
        after = after._replace(spent_token=sealed(spent))
    changed = {name: new for name, old, new in zip(after._fields, before, after, strict=True) if old != new}
    return {**changed, "status": after.status, "lease": after.lease}


def give_back(db: Database, task: Task) -> None:
    """Undo a claim made a moment ago; if that fails, its lease expires."""
    lease = task.lease
    assert lease is not None  # it was claimed
    by_person = lease.holder is Holder.HUMAN
    token = None if by_person else lease.token
    move = lifecycle.Move(lifecycle.Verb.RELEASE, task.id, task.scope, token=token, force=by_person)

    def ask(view: View, now: datetime) -> Changes:
        before = task_of(view)
        return differences(before, lifecycle.moved(before, move, now))

    page = Page(db, db.find_page(task.id))
    try:
        if by_person:
            page.run(plainly(ask))
        elif db.ledger is not None:
            arbiter.finish(db.ledger, page, page.look(), move, None, ask)
        else:
            page.run(guard.finish(lease.token, None, ask, db.bounds))
    except DibsError as error:
        _log.warning("%s could not be given back: %s", task.id, error.message)


def _refuse(error: DibsError | None) -> None:
    if error is not None:
        raise error


_SHOWN = 5


def move(db: Database, asked: Move) -> Moved:
    """Apply one move. If a person has deleted the page, the holder has lost it."""
    db.own(asked.scope)
    if asked.token is not None:
        db.gateway.hush(asked.token)
    page = db.find_page(asked.id)
    judged = _Judged(db, asked._replace(late_ok=False))  # nothing shows whether another agent was quicker
    try:
        task = persistently(db, lambda: _carry_out(db, Page(db, page), judged))
    except Trashed:
        if asked.token is None:
            raise
        raise LostLock(f"{asked.id} was deleted while you held it. Stop working on it.") from None
    return Moved(task, repeated=judged.repeated)


def _carry_out(db: Database, page: Page, judged: _Judged) -> Task:
    db.gateway.reserve(2)
    first = page.look()
    judged.take_name_for_token(first)
    asked = judged.asked
    try:
        if asked.verb in {Verb.DONE, Verb.APPROVE, Verb.CLOSE} and _looked_at_children(db, page, judged, first):
            first = page.look()  # reading took time
        return _changed(db, page, asked, judged, first)
    except LostLock:
        if db.ledger is not None:
            arbiter.refuse_taken(db.ledger, first.view, asked, _run(db, asked))
        raise


def _changed(db: Database, page: Page, asked: Move, judged: _Judged, first: Seen) -> Task:
    """Change the page: guarded for a holder, through the arbiter, or plainly for a person."""
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
    """Refuse if the name on the page changed, in layouts where people take a task by putting their name on it."""
    if "holder" in db.layout.properties or asked.by.agent is None or view.agent is None:
        return
    if asked.by.agent.casefold() != view.agent.casefold():
        raise LostLock(f"{view.id} is {view.agent}'s now. Nothing was changed; stop here.", holder=view.agent)


def _run(db: Database, asked: Move) -> str | None:
    """The run to check. Where ids can be chosen, the token alone is the proof."""
    return asked.by.run if db.layout.assigns_ids else None


def _renew(db: Database, page: Page, asked: Move, first: Seen) -> Task:
    length = _length(db, task_of(first.view), asked.lease)
    _refuse_renamed(db, first.view, asked)
    if db.ledger is not None:
        return arbiter.renew(db.ledger, page, first, asked, _run(db, asked), length)
    return page.run(guard.renew(asked.token or "", _run(db, asked), length, db.bounds, floored=db.layout.begins), first)


def _looked_at_children(db: Database, page: Page, judged: _Judged, first: Seen) -> bool:
    """Refuse to finish a parent before its children: by the page's own count, else by reading each child."""
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
    """Whether a person holds the task under this very token."""
    lease = task.lease
    return lease is not None and lease.holder is Holder.HUMAN and lease.token == sealed(token)


def _unsealed(task: Task, token: str | None) -> Task:
    """Put the token back where only its digest is stored. A token that an agent left behind proves nothing."""
    if token is None:
        return task
    if task.spent_token == sealed(token):
        task = task._replace(spent_token=token)
    lease = task.lease
    if lease is None or lease.holder is not Holder.HUMAN:
        return task
    return task._replace(lease=lease._replace(token=token if _persons(task, token) else ""))


def _sealed(task: Task) -> Task:
    """Replace a person's token by its digest before it is written to the page."""
    lease = task.lease
    if lease is None or lease.holder is not Holder.HUMAN or not lease.token:
        return task
    return task._replace(lease=lease._replace(token=sealed(lease.token)))


class _Judged:
    """Apply a move to a page's task by the rules of the lifecycle."""

    def __init__(self, db: Database, asked: Move) -> None:
        self._db, self.asked = db, asked
        self.repeated = False

    def take_name_for_token(self, seen: Seen) -> None:
        """Look up the token for a layout whose proof is the holder's name, so that the change is guarded too."""
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
        """Let the guard's reasons come first: it knows more about people, runs and margins than the lifecycle."""
        asked, token = self.asked, self.asked.token
        if token is None or asked.force or before.spent_token == token or _persons(task_of(view), token):
            return
        if self._db.ledger is None:
            refused = guard.lost(view, token, _run(self._db, asked), now, self._db.bounds)
            if refused is not None:
                raise refused
        _refuse_renamed(self._db, view, asked)

    def _refuse_loss(self, after: Task) -> None:
        """Refuse a move that brings a value for which the database has no property."""
        if self._db.layout.rest:
            return
        if self.asked.restates:
            raise Unsupported(
                f"This store cannot do that: the layout '{self._db.layout.name}' has no property for that value."
            )
        if self.asked.result is not None and after.result is not None:
            raise Unsupported(
                f"This store cannot do that: the layout '{self._db.layout.name}' has no property for a result."
            )
