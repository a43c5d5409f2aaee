"""Claims that another store decides about, shown in Notion.

The arbiter is asked first and told last. Between the two the page is written: whoever dies there leaves a page that
differs from its row, and `repair` puts that right. What a person does to a page counts all the same.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Held, LostLock, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Actor, Holder, Status
from dibs.stores.notion import arbiter
from dibs.stores.notion.driving import PATIENCE, Page, expected, task_of, view_of
from dibs.stores.notion.guard import Failed, Read, Seen, Write

if TYPE_CHECKING:
    from dibs.core.lifecycle import Move
    from dibs.core.task import Lease, Task
    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Ask, Changes, Steps, View
    from dibs.stores.notion.reading import Reading

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
        late = _put_right(page, row, seen)
        if late is not None:
            seen = page.look()
        elif arbiter.put_up_again(_shown_on(page), row):
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


def _put_right(page: Page, row: arbiter.Row, seen: Seen) -> Status | None:
    """Give a page back what its last holder left it as, if a write of an attempt before that has come since.

    Returns what that had made of it. What came with a result is gone; the status is what others go by.
    """
    shown = _shown_on(page)
    if not arbiter.overwritten(shown, row):
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
        late = _put_right(page, row, page.look())
        left = row.left if late is not None else _repaired(page, ledger, row)
    finally:
        ledger.release(task, token, left, by, heard=late is Status.READY)
    return True


def differing(reading: Reading, ledger: Ledger) -> Changes:
    return arbiter.reconcile(shown_view(reading), ledger.row(reading.task.id))


def _repaired(page: Page, ledger: Ledger, row: arbiter.Row | None = None) -> Status | None:
    seen = page.look()
    changed = arbiter.reconcile(_shown_on(page), row or ledger.row(seen.view.id))
    return page.run(_written(changed), seen).status if changed else None


def shown_view(reading: Reading) -> View:
    """What the page itself says, whatever the arbiter does."""
    return view_of(reading._replace(task=reading.shown or reading.task))
