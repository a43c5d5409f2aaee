"""Claiming pages: who may have one, in which order, and the comment that an odd one gets."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.errors import DibsError, Held, IllegalMove, NotFound, Refused
from dibs.core.task import Claimed, Holder, Status
from dibs.stores.notion import arbiter, guard
from dibs.stores.notion.pages import lease_span, order_of, sealed
from dibs.stores.notion.steps import Page, persistently, plainly, task_of, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Actor, Lease, Task
    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Ask, Changes, View
    from dibs.stores.notion.pages import Reading

_log = logging.getLogger("dibs.notion")
_LOOKED_AT = 20  # pages, before there is said to be nothing
_LATE = timedelta(minutes=2)  # as old as a list may be
_FEW = 3  # contenders that an agent reckons with that has lost a task to another one


class Exhausted(IllegalMove):
    """Nobody may have it any more, but nobody has said so yet."""


def peek(db: Database, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """What could be claimed, in order; with `held`, what is held as well; with `unable`, whatever it takes."""
    found = sorted(db.with_status(Status.READY, Status.ACTIVE), key=order_of)
    now = db.heard()
    if unable:
        request = request._replace(can=frozenset(need for reading in found for need in reading.task.requires))
    free = [reading for reading in found if refusal(db, reading, request, now) is None]
    free = _confirmed(db, free, request) if limit == 1 and not db.newcomer else free[:limit]
    db.remember(*free[:1])  # whoever looks for the next one will ask for it by its id
    taken = [reading for reading in found if held and reading.task.held(now)]
    return [reading.task for reading in (*free, *taken)]


def _confirmed(db: Database, free: list[Reading], request: ClaimRequest) -> list[Reading]:
    """The first of them that is free on its own page. Lists may be two minutes old, and would send everybody who asks
    for one task to what another has long taken. A newcomer does without: it has spent a request on the database."""
    for listed in free[:_LOOKED_AT]:
        try:
            reading = db.read_page(listed.page)
        except NotFound:
            continue
        if not reading.trashed and refusal(db, reading, request, db.heard()) is None:
            return [reading]
    return []


def refusal(db: Database, reading: Reading, request: ClaimRequest, now: datetime) -> DibsError | None:
    """Why this page cannot be had now: for what it says, or because its last holder may still be at it."""
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
    """Where an arbiter keeps the leases, they end when they end."""
    return None if db.ledger is not None else guard.too_early(view, now, db.bounds)


def _length(db: Database, task: Task, asked: timedelta) -> timedelta:
    return lease_span(db.layout, task) if db.layout.begins else asked


def claim_named(db: Database, request: ClaimRequest) -> list[Claimed]:
    """All the named tasks or none: what was claimed before one that cannot be had is given back."""
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
    """The first tasks of the order that can be had. A list may be old; each page is read before it is written.

    While other agents claim, too, they spread over the top of the order: all of them at its head would be one claim and
    many conflicts.
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
                    db.sleep(random.uniform(0, db.bounds.settle / 5))  # noqa: S311 - else the losers meet again
    return claimed


def contending(found: Iterable[Reading], agent: str, now: datetime) -> int:
    """How many claims of other agents the pages show of late."""
    return sum(
        reading.task.status is Status.ACTIVE
        and reading.task.lease is not None
        and reading.task.lease.holder is Holder.AGENT
        and reading.task.lease.agent != agent
        and reading.task.updated_at >= now - _LATE
        for reading in found
    )


def chosen(free: list[Reading], token: str, contenders: int) -> Reading:
    """The head of the order; with contenders, one of the first few, each agent for itself (a rendezvous hash)."""
    near = free[: 1 + 2 * contenders]
    return near[0] if len(near) == 1 else min(near, key=lambda reading: sealed(f"{token} {reading.page}"))


def held_under(db: Database, request: ClaimRequest) -> list[Claimed]:
    """What this very request has claimed before."""
    now = db.now()
    held = [reading.task for reading in db.with_status(Status.ACTIVE) if reading.task.held(now)]
    return [Claimed(task) for task in held if task.lease is not None and task.lease.token in request.tokens]


def take(db: Database, page: str, request: ClaimRequest, token: str, task_id: str | None = None) -> Claimed:
    """One page, guarded; a person's word needs no guard. `task_id` says that a list has shown it to be free."""
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
    """What is not free by its look need not be asked for. What says itself how long it is leased is read first."""
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
    """What a claim writes: where only the agreed properties exist, nothing but those.

    Of a person's token only the digest is written: so the token of an agent, left behind on a page that a person
    takes in Notion itself, can never pass for that person's.
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
    """The lease that a person is about to end, where an arbiter keeps it."""
    return None if db.ledger is None else db.ledger.row(task).lease


def overrule(db: Database, task: Task, held: Lease | None, by: Actor) -> None:
    """What a person has decided, the arbiter is told: what was held before does not count any more."""
    if db.ledger is not None:
        db.ledger.overrule(task.id, held, task.status, by)


def _oddities(reading: Reading | None, now: datetime) -> Iterable[str]:
    """What a person should know about the state in which a task was found."""
    if reading is None:
        return
    yield from reading.doubts
    if reading.task.lease is None and reading.lock_expires is not None and reading.lock_expires > now:
        yield "nobody had claimed it, but it was locked until some time to come"


def give_up(db: Database, reading: Reading) -> None:
    """An expired lease with no retry left is escalated, where the database has a place for retries."""
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
    """The fields that a change is about; the digest of a spent token is all that is kept of it."""
    spent = after.spent_token
    if spent is not None and spent != before.spent_token:
        after = after._replace(spent_token=sealed(spent))
    changed = {name: new for name, old, new in zip(after._fields, before, after, strict=True) if old != new}
    return {**changed, "status": after.status, "lease": after.lease}


def give_back(db: Database, task: Task) -> None:
    """Undo a claim of a moment ago; if that fails, its lease ends by itself."""
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
