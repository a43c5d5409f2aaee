"""Claims that another store decides about, shown in Notion.

The arbiter is asked first and told last. Between the two the page is written: whoever dies there leaves a page that
differs from its row, and `repair` puts that right. What a person does to a page counts all the same.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, LostLock, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Actor, Holder, Status
from dibs.stores.notion import arbiter
from dibs.stores.notion.driving import PATIENCE, Page, expected, task_of, view_of
from dibs.stores.notion.guard import Failed, Read, Write

if TYPE_CHECKING:
    from dibs.core.lifecycle import Move
    from dibs.core.task import Lease, Task
    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Ask, Changes, Seen, Steps, View
    from dibs.stores.notion.reading import Reading

_log = logging.getLogger("dibs.notion")
_A_MINUTE = timedelta(minutes=1)


def claim(db: Database, ledger: Ledger, page: Page, task: str, request: ClaimRequest, token: str, ask: Ask) -> Task:
    """Lease the row, then read the page and write it. If the page will not have it, the row is given back.

    What was read before the row was ours proves nothing: somebody may have claimed the task and finished it since.
    """
    before = ledger.row(task)
    lease = ledger.claim(task, request, token)
    left = Status.READY
    try:
        seen = _looked(page, before, lease)
        left = seen.view.status
        changed = {**ask(_unclaimed(page, seen.view), lease.claimed_at), "lease": lease}
        if db.layout.rest:
            changed["attempt"] = lease.attempt
        return page.run(_shown(page, changed, token), seen)
    except DibsError:
        ledger.release(task, token, left, request.by)
        raise


def _looked(page: Page, before: arbiter.Row, lease: Lease) -> Seen:
    """The page; put right first if a claim of long ago was written over what its last holder had left it as."""
    seen = page.look()
    assert page.reading is not None
    unheard = lease.attempt == before.attempt + 1  # nobody else had the row since it was looked at
    late = arbiter.reconcile(shown_view(page.reading), before) if before.lease is None and unheard else {}
    if late.get("status") in {None, Status.READY, Status.ACTIVE}:
        return seen
    page.run(_written(late), seen)
    return page.look()


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
        return page.run(_written(changed), seen)
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
    ledger.prove(seen.view.id, token, asked.by)
    task = page.run(_finished(changed), seen)
    try:
        ledger.release(task.id, token, task.status, asked.by)
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
    after = expected((yield Read())) if isinstance(written, Failed) else expected(written)
    if after.view.status is not changed["status"]:
        raise StoreUnavailable(
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
    if row.live:
        return _repaired(db, ledger, reading.page) is not None
    ledger.claim(task, ClaimRequest(by.agent or "", (token,), lease=_A_MINUTE), token)
    left = reading.task.status
    try:
        left = _repaired(db, ledger, reading.page, row) or left
    finally:
        ledger.release(task, token, left, by)
    return True


def differing(reading: Reading, ledger: Ledger) -> Changes:
    return arbiter.reconcile(shown_view(reading), ledger.row(reading.task.id))


def _repaired(db: Database, ledger: Ledger, page: str, row: arbiter.Row | None = None) -> Status | None:
    target = Page(db, page)
    seen = target.look()
    assert target.reading is not None
    changed = arbiter.reconcile(shown_view(target.reading), row or ledger.row(seen.view.id))
    return target.run(_written(changed), seen).status if changed else None


def shown_view(reading: Reading) -> View:
    """What the page itself says, whatever the arbiter does."""
    return view_of(reading._replace(task=reading.shown or reading.task))
