"""Strict claims: another store decides who has a page, and Notion shows it.

Each page that was ever claimed has a row in the arbiter: a task of the same id, in a scope of its own. The row's lease
is the lease, and its attempt the fence. Whether a page is up for claiming, and what people have done with it, stays
Notion's to decide; the row says nothing but who holds it.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from dibs.core.errors import AlreadyExists, Held, LostLock, Misconfigured, NotFound
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Edit, Holder, Json, Lease, Status, Task
from dibs.stores.notion.guard import Changes, View
from dibs.stores.port import Query, Store

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
