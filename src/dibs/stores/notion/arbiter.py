"""Strict claims: another store decides who holds a page, and Notion shows it.

Each page that was ever claimed has a row in the arbiter: a task of the same id, in a scope of its own. The row's lease
is the lease, and its attempt the fence. Whether a page can be claimed, and what people do with it, stays Notion's to
decide. A claim asks the arbiter first, then writes the page; a finish writes the page first. A process that dies in
between leaves a page that differs from its row, and `repair` corrects it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import AlreadyExists, DibsError, Held, LostLock, Misconfigured, NotFound, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Edit, Holder, Json, Lease, Status, Task
from dibs.stores.notion.guard import Changes, Failed, Read, Seen, View, Write
from dibs.stores.notion.steps import PATIENCE, Page, expected, task_of, view_of
from dibs.stores.port import Query, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Ask, Steps
    from dibs.stores.notion.pages import Reading

_MINUTE = timedelta(minutes=1)
_LAST_WORD = timedelta(minutes=1)  # what a holder has left, at least, to write its last word to Notion
_LEFT, _UNHEARD = "left", "unheard"  # among a row's extra fields, which outlast claims
_OPEN = frozenset({None, Status.READY, Status.ACTIVE})


class Row(NamedTuple):
    """What the arbiter knows of a page.

    `left` is what the last attempt that said so left it as. `unheard` counts the releases that were sent to it and
    never answered: each may still arrive, and will look as if a person had put the task up again.
    """

    attempt: int
    lease: Lease | None
    live: bool
    left: Status | None
    unheard: int = 0


class Ledger:
    """The leases of one database's pages, kept in a store with strict claims."""

    def __init__(self, store: Store, database: str) -> None:
        if store.capabilities.exclusive != "strict":
            raise Misconfigured("An arbiter needs strict claims: use a SQLite or a PostgreSQL store.")
        self._store = store
        self.scope = f"notion/{database}"

    def now(self) -> datetime:
        """The time by which its leases end."""
        return self._store.now()

    def claim(self, task: str, request: ClaimRequest, token: str) -> Lease:
        """Lease the row to the asker; Held says who has it. Who asks again under the same token has it already."""
        asked = ClaimRequest(request.agent, (token,), self.scope, (task,), request.run, Holder.AGENT, request.lease)
        try:
            return self._claim(asked)
        except Held:
            lease = self.row(task).lease
            if lease is None or lease.token != token:
                raise
            return lease

    def renew(self, task: str, token: str, length: timedelta, by: Actor, keep: Mapping[str, Json] = {}) -> Lease:
        """Hold the row for that long from now on, or be told that it is lost."""
        return _lease(self._move(Move(Verb.RENEW, task, self.scope, by, token, lease=length, extra=keep)))

    def reopened(self, task: str, token: str, length: timedelta, by: Actor) -> Lease:
        """The holder has seen that a person put the task up again."""
        return self.renew(task, token, length, by, {_LEFT: Status.READY})

    def prove(self, task: str, token: str, by: Actor, *, opens: bool = False) -> Lease:
        """Before a last word: the row is held under this token, and stays so while that is written to Notion.

        One that `opens` the task is noted, in case that nobody hears whether it arrived.
        """
        return self._last_word(task, token, by, int(opens))

    def withdraw(self, task: str, token: str, by: Actor) -> None:
        """A last word that would have opened the task was not sent after all."""
        self._last_word(task, token, by, -1)

    def _last_word(self, task: str, token: str, by: Actor, more: int) -> Lease:
        row = self.row(task)
        until = None if row.lease is None else row.lease.expires_at
        left = _LAST_WORD if until is None else until - self.now()
        keep = {_UNHEARD: row.unheard + more} if more else {}
        return self.renew(task, token, max(left, _LAST_WORD), by, keep)

    def release(self, task: str, token: str, left: Status | None, by: Actor, *, heard: bool = False) -> None:
        """After a last word: the attempt is over, and left the page with this status, or as it was.

        Also when its lease ended while the page was written, as long as nobody else has claimed the row since. `heard`
        says that a release has arrived: its own, or one that nobody had heard of.
        """
        keep = {_LEFT: left} if left is not None else {}
        more = {_UNHEARD: max(0, self.row(task).unheard - 1)} if heard else {}
        self._move(Move(Verb.RELEASE, task, self.scope, by, token, late_ok=True, extra={**keep, **more}))

    def overrule(self, task: str, held: Lease | None, left: Status, by: Actor) -> None:
        """A person has changed the page, and with that ended what was held before; the holder hears of it with its next
        word. Whoever has claimed the row since has seen what the person did, and goes on."""
        if held is not None:
            move = Move(Verb.RELEASE, task, self.scope, by, held.token, late_ok=True, force=True, extra={_LEFT: left})
            with suppress(LostLock):
                self._move(move)
        elif self.row(task).attempt:
            self._store.amend(self.scope, task, Edit(keep={_LEFT: left}), by)

    def row(self, task: str) -> Row:
        try:
            return _row(self._store.get(self.scope, task), self.now())
        except NotFound:
            return _NEVER

    def rows(self) -> dict[str, Row]:
        """All of them, in one look."""
        now = self.now()
        return {task.id: _row(task, now) for task in self._store.find(Query(self.scope))}

    def _claim(self, asked: ClaimRequest) -> Lease:
        try:
            claimed = self._store.claim(asked)
        except NotFound:
            self._add(asked.ids[0], asked.by)
            claimed = self._store.claim(asked)
        return _lease(claimed[0].task)

    def _add(self, task: str, by: Actor) -> None:
        try:
            self._store.add(self.scope, [Draft(title=f"Page {task}", id=task)], (), by)
        except AlreadyExists:
            return  # somebody else was quicker

    def _move(self, move: Move) -> Task:
        try:
            return self._store.move(move, CanceledBlocker.RESOLVES).task
        except NotFound:
            raise LostLock(f"The arbiter knows of no claim of {move.id}. Nothing was changed; stop here.") from None


_NEVER = Row(0, None, live=False, left=None)


def decided(task: Task, row: Row) -> Task:
    """The task with the lease that counts: a person's hold, else the row's. A page without a row speaks for itself."""
    by_hand = task.lease is not None and task.lease.holder is Holder.HUMAN
    return task if by_hand or row.attempt == 0 else task._replace(lease=row.lease, attempt=row.attempt)


def reconcile(view: View, row: Row) -> Changes:
    """What to write to a page so that it shows what the arbiter has decided; mostly nothing.

    A page differs from its row if somebody died between the two, or if a write came late. It also does if a person has
    taken it or changed its status: then it is the person who is right, and nothing is written.
    """
    if view.holder is Holder.HUMAN or row.attempt == 0:
        return {}
    if not row.live and overwritten(view, row):
        return {"status": row.left, "lease": None}
    if view.status is Status.ACTIVE and view.token is not None:
        return _put_right(view, row)
    if view.status is Status.READY and row.live and row.lease is not None and _unheard_of(view, row.lease):
        return {"status": Status.ACTIVE, "lease": row.lease, "started_at": row.lease.claimed_at}
    return {}


def overwritten(view: View, row: Row) -> bool:
    """The page was finished or set aside, and then a write of an attempt before that arrived.

    A claim is known by its token; a release by having been noted. Nobody else has claimed the task since, or that one
    would have found it put up again and said so.
    """
    if view.holder is Holder.HUMAN or row.left in _OPEN:
        return False
    return view.token is not None if view.status is Status.ACTIVE else view.status is Status.READY and row.unheard > 0


def put_up_again(view: View, row: Row) -> bool:
    """A person has opened what an agent had finished or set aside."""
    return view.status is Status.READY and row.left not in _OPEN and not overwritten(view, row)


def _put_right(view: View, row: Row) -> Changes:
    """A page that an agent wrote its token to: the token of the row's lease, or of one that is over."""
    if row.lease is None:
        return {"status": row.left or Status.READY, "lease": None}
    if view.token != row.lease.token:
        return {"lease": row.lease}
    if row.lease.expires_at is not None and not _same_minute(view.expires_at, row.lease.expires_at):
        return {"expires_at": row.lease.expires_at}
    return {}


def _unheard_of(view: View, lease: Lease) -> bool:
    """Nobody has touched the page since the claim, nor has the claim. Notion's times are floored to the minute."""
    return view.edited_at + _MINUTE <= lease.claimed_at


def _same_minute(shown: datetime | None, decided: datetime) -> bool:
    """Notion keeps whole minutes, rounded by whoever wrote them."""
    return shown is not None and abs(shown - decided) < _MINUTE


def _row(task: Task, now: datetime) -> Row:
    left, unheard = task.extra.get(_LEFT), task.extra.get(_UNHEARD)
    return Row(
        task.attempt,
        task.lease,
        task.held(now),
        Status(left) if left in set(Status) else None,
        unheard if isinstance(unheard, int) else 0,
    )


def _lease(task: Task) -> Lease:
    assert task.lease is not None  # it was claimed or renewed just now
    return task.lease


_log = logging.getLogger("dibs.notion")
_A_MINUTE = timedelta(minutes=1)
_CAME_LATE = (
    "dibs has made this task {0} again: a release that was sent before it was {0} came late. "
    "If it was you who made it {1}, do so once more."
)


class _InDoubt(StoreUnavailable):
    """A last word was sent, and nobody can tell whether it arrives."""


def claim(db: Database, ledger: Ledger, page: Page, task: str, request: ClaimRequest, token: str, ask: Ask) -> Task:
    """Lease the row, then read the page and write it. If the page will not have it, the row is given back.

    What was read before the row was ours proves nothing: somebody may have claimed the task and finished it since.
    """
    lease = ledger.claim(task, request, token)
    row = ledger.row(task)  # from now on nobody else changes it
    left = late = None
    try:
        seen = page.look()
        late = _restore_page(page, row, seen)
        if late is not None:
            seen = page.look()
        elif put_up_again(_shown_on(page), row):
            lease = ledger.reopened(task, token, request.lease, request.by)
        left = None if seen.view.status is Status.ACTIVE else seen.view.status
        changed = {**ask(_unclaimed(page, seen.view), lease.claimed_at), "lease": lease}
        if db.layout.rest:
            changed["attempt"] = lease.attempt
        return _ours(page.run(_shown(page, changed, token), seen), lease)
    except DibsError:
        with suppress(LostLock):  # then there is nothing to give back
            ledger.release(task, token, left, request.by, heard=late is Status.READY)
        raise


def _ours(task: Task, lease: Lease) -> Task:
    """The task under our own lease, if the row still says so. That of somebody else is nobody's to hand out."""
    if task.lease is None or task.lease.token != lease.token:
        raise Held(f"{task.id} was lost again before its claim was shown in Notion. Claim another, or try again.")
    return task._replace(lease=lease)


def _restore_page(page: Page, row: Row, seen: Seen) -> Status | None:
    """Give a page back what its last holder left it as, if a write of an attempt before that has come since.

    Returns what that had made of it. What came with a result is gone; the status is what others go by.
    """
    shown = _shown_on(page)
    if not overwritten(shown, row):
        return None
    page.run(_written({"status": row.left, "lease": None}), seen)
    if shown.status is Status.READY:
        page.remark(_CAME_LATE.format(row.left, Status.READY))
    return shown.status


def _shown_on(page: Page) -> View:
    assert page.reading is not None
    return shown_view(page.reading)


def _unclaimed(page: Page, view: View) -> View:
    """The page as if no agent had it: whose it is, the arbiter has just decided."""
    reading = page.reading
    shown = None if reading is None else reading.shown
    if shown is None or (shown.lease is not None and shown.lease.holder is Holder.HUMAN):
        return view
    return view._replace(task=shown._replace(lease=None))


def _shown(page: Page, changed: Changes, token: str) -> Steps:
    """Write a claim to the page. Without an answer, the page itself tells whether it arrived."""
    seen = expected((yield Read()))
    written = yield Write(changed, seen.sent + PATIENCE)
    if not isinstance(written, Failed):
        return expected(written)
    if not written.sent:
        raise written.error
    after = expected((yield Read()))
    if page.reading is not None and page.reading.token == token:
        return after
    raise StoreUnavailable(f"The claim of {seen.view.id} did not reach Notion, and was taken back. Try again.")


def renew(ledger: Ledger, page: Page, seen: Seen, asked: Move, run: str | None, length: timedelta) -> Task:
    """Extend the row; the page follows, and if it cannot, the lease is extended all the same."""
    token = asked.token or ""
    refuse_taken(ledger, seen.view, asked, run)
    before = page.reading
    lease = ledger.renew(seen.view.id, token, length, asked.by)
    shows_it = before is not None and before.token == token
    changed: Changes = {"expires_at": lease.expires_at} if shows_it else {"lease": lease}
    try:
        return page.run(_written(changed), seen)._replace(lease=lease)
    except DibsError as error:
        _log.warning("The longer lease on %s is not shown in Notion yet: %s", seen.view.id, error.message)
        return task_of(seen.view)._replace(lease=lease)


def _written(changed: Changes) -> Steps:
    seen = expected((yield Read()))
    return expected((yield Write(changed, seen.sent + PATIENCE)))


def finish(ledger: Ledger, page: Page, seen: Seen, asked: Move, run: str | None, ask: Ask) -> Task:
    """Prove the row, change the page, give the row up."""
    token = asked.token or ""
    changed = ask(seen.view, ledger.now())
    if not changed:
        return task_of(seen.view)
    refuse_taken(ledger, seen.view, asked, run)
    opens = changed["status"] is Status.READY
    ledger.prove(seen.view.id, token, asked.by, opens=opens)
    try:
        task = page.run(_finished(changed), seen)
    except DibsError as error:
        if opens and not isinstance(error, _InDoubt):
            ledger.withdraw(seen.view.id, token, asked.by)
        raise
    try:
        ledger.release(task.id, token, task.status, asked.by, heard=opens)
    except LostLock as error:
        raise StoreUnavailable(
            f"{task.id} is {task.status} in Notion, but that took longer than the lease, and somebody else has claimed"
            " it since. Look at the page before you go on.",
            holder=error.holder,
        ) from None
    return task._replace(lease=None)


def _finished(changed: Changes) -> Steps:
    seen = expected((yield Read()))
    written = yield Write(changed, seen.sent + PATIENCE)
    if isinstance(written, Failed) and not written.sent:
        raise written.error
    after = (yield Read()) if isinstance(written, Failed) else written
    if not isinstance(after, Seen) or after.view.status is not changed["status"]:
        raise _InDoubt(
            f"It is not certain that {seen.view.id} is {changed['status']} now. You still hold it; try again."
        )
    return after


def refuse_taken(ledger: Ledger, view: View, asked: Move, run: str | None) -> None:
    """A person has the last word: whoever held the task is told, and its row is free again."""
    by_person = view.holder is Holder.HUMAN
    if by_person or view.status is not Status.ACTIVE:
        row = ledger.row(view.id)
        if row.lease is not None and row.lease.token == asked.token:
            ledger.release(view.id, asked.token or "", view.status, asked.by)
        what = f"A person has taken {view.id}" if by_person else f"{view.id} is {view.status} now"
        raise LostLock(f"{what}. Nothing was changed; stop working on it.", holder=view.agent)
    if run is not None and view.run != run:
        raise LostLock(f"{view.id} is held by another run of {view.agent}. Nothing was changed; stop here.")


def repair(db: Database, ledger: Ledger, reading: Reading, token: str) -> bool:
    """Make a page show what the arbiter has decided; False if there was nothing to put right, or no longer is.

    A row that nobody holds is held while its page is written, so that nobody claims it meanwhile.
    """
    task, by = reading.task.id, Actor("dibs repair")
    if not differing(reading, ledger):
        return False
    row = ledger.row(task)
    page = Page(db, reading.page)
    if row.live:
        return _repaired(page, ledger) is not None
    ledger.claim(task, ClaimRequest(by.agent or "", (token,), lease=_A_MINUTE), token)
    left = late = None
    try:
        late = _restore_page(page, row, page.look())
        left = row.left if late is not None else _repaired(page, ledger, row)
    finally:
        ledger.release(task, token, left, by, heard=late is Status.READY)
    return True


def differing(reading: Reading, ledger: Ledger) -> Changes:
    return reconcile(shown_view(reading), ledger.row(reading.task.id))


def _repaired(page: Page, ledger: Ledger, row: Row | None = None) -> Status | None:
    seen = page.look()
    changed = reconcile(_shown_on(page), row or ledger.row(seen.view.id))
    return page.run(_written(changed), seen).status if changed else None


def shown_view(reading: Reading) -> View:
    """What the page itself says, whatever the arbiter does."""
    return view_of(reading._replace(task=reading.shown or reading.task))
