"""Strict claims: another store, the arbiter, decides which agent holds a page, and Notion shows it.

Each page that was ever claimed has a row in the arbiter: a task with the same id, in its own scope. The row's lease is
the lease, and its attempt is the fence. Notion still decides whether a page can be claimed, and records people's
changes.

A claim asks the arbiter first, then writes the page; a finish writes the page first. If a process dies between both
steps, page and row differ, and `repair` corrects the page.
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
_LAST_WORD = timedelta(minutes=1)  # minimum lease time left for a holder to send its final write to Notion
_LEFT, _UNHEARD = "left", "unheard"  # keys of a row's extra fields, which outlast claims
_OPEN = frozenset({None, Status.READY, Status.ACTIVE})


class Row(NamedTuple):
    """The arbiter's row of a page.

    `left` is the status in which the latest attempt left the page. `unheard` counts releases sent without an answer:
    each may still arrive, and would look as if a person had reopened the task.
    """

    attempt: int
    lease: Lease | None
    live: bool
    left: Status | None
    unheard: int = 0


class Ledger:
    """The leases of one database's pages, stored in a store with strict claims."""

    def __init__(self, store: Store, database: str) -> None:
        if store.capabilities.exclusive != "strict":
            raise Misconfigured("An arbiter needs strict claims: use a SQLite or a PostgreSQL store.")
        self._store = store
        self.scope = f"notion/{database}"

    def now(self) -> datetime:
        """Return the time by which leases end."""
        return self._store.now()

    def claim(self, task: str, request: ClaimRequest, token: str) -> Lease:
        """Lease the row; raise Held if another agent has it. Repeating a claim with the same token succeeds."""
        asked = ClaimRequest(request.agent, (token,), self.scope, (task,), request.run, Holder.AGENT, request.lease)
        try:
            return self._claim(asked)
        except Held:
            lease = self.row(task).lease
            if lease is None or lease.token != token:
                raise
            return lease

    def renew(self, task: str, token: str, length: timedelta, by: Actor, keep: Mapping[str, Json] = {}) -> Lease:
        """Extend the row's lease by `length` from now; raise LostLock if it is lost."""
        return _lease(self._move(Move(Verb.RENEW, task, self.scope, by, token, lease=length, extra=keep)))

    def reopened(self, task: str, token: str, length: timedelta, by: Actor) -> Lease:
        """Note that the holder has seen the task reopened by a person."""
        return self.renew(task, token, length, by, {_LEFT: Status.READY})

    def prove(self, task: str, token: str, by: Actor, *, opens: bool = False) -> Lease:
        """Check that the row is held under this token, and keep it for the time of the final write.

        A write that `opens` the task is counted as unheard until its answer arrives.
        """
        return self._last_word(task, token, by, int(opens))

    def withdraw(self, task: str, token: str, by: Actor) -> None:
        """Undo the count of an opening write that was not sent after all."""
        self._last_word(task, token, by, -1)

    def _last_word(self, task: str, token: str, by: Actor, more: int) -> Lease:
        row = self.row(task)
        until = None if row.lease is None else row.lease.expires_at
        left = _LAST_WORD if until is None else until - self.now()
        keep = {_UNHEARD: row.unheard + more} if more else {}
        return self.renew(task, token, max(left, _LAST_WORD), by, keep)

    def release(self, task: str, token: str, left: Status | None, by: Actor, *, heard: bool = False) -> None:
        """End the attempt after the final write, and note the status that it left the page in.

        This also works if the lease ended during the write, as long as no other agent has claimed the row since.
        `heard` says that a release has arrived: this one, or an earlier one without an answer.
        """
        keep = {_LEFT: left} if left is not None else {}
        more = {_UNHEARD: max(0, self.row(task).unheard - 1)} if heard else {}
        self._move(Move(Verb.RELEASE, task, self.scope, by, token, late_ok=True, extra={**keep, **more}))

    def overrule(self, task: str, held: Lease | None, left: Status, by: Actor) -> None:
        """End the lease that a person's change has overruled; the holder is refused at its next write.

        An agent that claimed the row after the change keeps it: it has seen what the person did.
        """
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
        """Return all rows, with one request."""
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
            return  # another process was quicker

    def _move(self, move: Move) -> Task:
        try:
            return self._store.move(move, CanceledBlocker.RESOLVES).task
        except NotFound:
            raise LostLock(f"The arbiter knows of no claim of {move.id}. Nothing was changed; stop here.") from None


_NEVER = Row(0, None, live=False, left=None)


def decided(task: Task, row: Row) -> Task:
    """Return the task with the lease that counts: a person's hold, else the row's lease, else the page's own."""
    by_hand = task.lease is not None and task.lease.holder is Holder.HUMAN
    return task if by_hand or row.attempt == 0 else task._replace(lease=row.lease, attempt=row.attempt)


def reconcile(view: View, row: Row) -> Changes:
    """Return the changes that make a page show its row; usually none.

    A page differs from its row after a crash between both writes, or after a late write. If a person has taken the page
    or changed its status, the page is right and nothing is written.
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
    """Whether a late write of an earlier attempt arrived after the page was finished or set aside.

    A late claim is recognised by its token, a late release by the count of unheard ones. Another agent's claim in
    between would have noted that the task was reopened.
    """
    if view.holder is Holder.HUMAN or row.left in _OPEN:
        return False
    return view.token is not None if view.status is Status.ACTIVE else view.status is Status.READY and row.unheard > 0


def put_up_again(view: View, row: Row) -> bool:
    """Whether a person has reopened a task that an agent finished or set aside."""
    return view.status is Status.READY and row.left not in _OPEN and not overwritten(view, row)


def _put_right(view: View, row: Row) -> Changes:
    """Correct a page with an agent's token: that of the row's current lease, or of one that is over."""
    if row.lease is None:
        return {"status": row.left or Status.READY, "lease": None}
    if view.token != row.lease.token:
        return {"lease": row.lease}
    if row.lease.expires_at is not None and not _same_minute(view.expires_at, row.lease.expires_at):
        return {"expires_at": row.lease.expires_at}
    return {}


def _unheard_of(view: View, lease: Lease) -> bool:
    """Whether neither page nor claim has changed since the claim. Notion floors times to the minute."""
    return view.edited_at + _MINUTE <= lease.claimed_at


def _same_minute(shown: datetime | None, decided: datetime) -> bool:
    """Whether two times are the same minute; writers round differently."""
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
    "dibs has set this task to {0} again, because a release sent before it was {0} came late. "
    "If you set it to {1} yourself, please set it again."
)


class _InDoubt(StoreUnavailable):
    """A final write was sent, and it is unknown whether it arrived."""


def claim(db: Database, ledger: Ledger, page: Page, task: str, request: ClaimRequest, token: str, ask: Ask) -> Task:
    """Lease the row, then read and write the page; release the row if the page refuses.

    Reads from before the lease prove nothing: another agent may have claimed and finished the task since.
    """
    lease = ledger.claim(task, request, token)
    row = ledger.row(task)  # from now on no other agent changes it
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
        with suppress(LostLock):  # the row is no longer ours to release
            ledger.release(task, token, left, request.by, heard=late is Status.READY)
        raise


def _ours(task: Task, lease: Lease) -> Task:
    """Return the task with our own lease; raise if the row names another holder."""
    if task.lease is None or task.lease.token != lease.token:
        raise Held(f"{task.id} was lost again before its claim was shown in Notion. Claim another, or try again.")
    return task._replace(lease=lease)


def _restore_page(page: Page, row: Row, seen: Seen) -> Status | None:
    """Undo a late write of an earlier attempt, and return the status that it had set.

    The result that the late write cleared is lost; the status is what other agents rely on.
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
    """Return the page as unclaimed: the arbiter has just decided who holds it."""
    reading = page.reading
    shown = None if reading is None else reading.shown
    if shown is None or (shown.lease is not None and shown.lease.holder is Holder.HUMAN):
        return view
    return view._replace(task=shown._replace(lease=None))


def _shown(page: Page, changed: Changes, token: str) -> Steps:
    """Write a claim to the page. Without an answer, read the page to see whether it arrived."""
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
    """Extend the row, then the page. The lease is extended even if the page cannot be written."""
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
    """Check the row, change the page, release the row."""
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
            f"{task.id} is {task.status} in Notion, but that took longer than the lease, and another agent has claimed"
            " it since. Read the page before you go on.",
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
    """Refuse the holder if a person has changed the task, and release the row."""
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
    """Make a page show its row; return False if nothing was to correct.

    A row without a holder is leased while its page is written, so that no agent claims it then.
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
    """Return the page's own view, without the arbiter."""
    return view_of(reading._replace(task=reading.shown or reading.task))
