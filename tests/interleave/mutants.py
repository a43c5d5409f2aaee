"""The SQLite store with deliberate defects, each a mistake made by real queues.

They apply in one child process only, and prove that the schedules detect them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import fleet, lifecycle
from dibs.core.task import Status
from dibs.stores.port import Moved
from dibs.stores.sqlite import fleet as sqlite_fleet
from dibs.stores.sqlite import links, migrate, moves
from dibs.stores.sqlite.commits import FairLock
from dibs.stores.sqlite.database import Database, Transaction, Writing
from dibs.stores.sqlite.rows import task_from
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Assignment, Member
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Link, Task
    from dibs.stores.sqlite.database import Parameters


def without_queue() -> None:
    """No queue: writers wait for SQLite's own lock. Safe, but unfair."""
    _replace(FairLock, "take", lambda _self: None)
    _replace(FairLock, "give", lambda _self: None)


def deferred() -> None:
    """BEGIN instead of BEGIN IMMEDIATE: the write lock is requested at the first write, on an old snapshot."""
    without_queue()
    begin = Database.begin

    def relaxed(self: Database, how: str) -> Transaction:
        return begin(self, how.removesuffix(" IMMEDIATE"))

    _replace(Database, "begin", relaxed)


def autocommit() -> None:
    """No transactions: every statement commits alone."""
    without_queue()
    _replace(Database, "begin", lambda self, _how: Transaction(self._cursor, self.now()))
    _replace(Database, "end", lambda _self, _how: None)


def read_first() -> None:
    """Read outside the transaction, which starts at the first write."""
    without_queue()

    class Late(Transaction):
        def run(self, name: str, parameters: Parameters = ()) -> int:
            if not self._cursor.connection.in_transaction:
                self._cursor.execute("BEGIN IMMEDIATE")
            return super().run(name, parameters)

    def unbegun(self: Database, _how: str) -> Transaction:
        return Late(self._cursor, self.now())

    _replace(Database, "begin", unbegun)


def clock_before_turn() -> None:
    """Read the time before waiting in the queue, so a lease that expires during the wait counts as live."""
    enter = Writing.__enter__

    def early(self: Writing) -> Transaction:
        now = self._database.now()
        late = enter(self)
        return Transaction(late._cursor, now)

    _replace(Writing, "__enter__", early)


def cycle_check_first() -> None:
    """Check for a cycle in one transaction and add the link in the next."""

    def hasty(self: SqliteStore, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        with self._database.read() as tx:
            for each in asked:
                links.refuse_cycle(tx, links.key_of(tx, scope, each.task), links.key_of(tx, scope, each.on))
        with self._database.write() as tx:
            for each in asked:
                links.put(tx, scope, each, by)
        return list(asked)

    _replace(SqliteStore, "link", hasty)


def dependents_first() -> None:
    """Read the dependents before closing the task, in another snapshot, so a new one is never unblocked."""

    def hasty(self: SqliteStore, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        assert then is None
        with self._database.read() as tx:
            key = links.key_of(tx, move.scope, move.id)
            waiting = [row[0] for row in tx.all("gated_dependents", (key,))]

        with self._database.write() as tx:
            late: list[int] = [row[0] for row in tx.all("gated_dependents", (key,)) if row[0] not in waiting]
            moved = moves.move(tx, move, on_cancel)
            assert isinstance(moved, Moved)
            assert moved.task.status is Status.DONE
            for missed in late:  # undo what the outdated snapshot could not know
                tx.run("gate", (missed,))
        return moved

    _replace(SqliteStore, "move", hasty)


def sum_of_parents() -> None:
    """Unblock a dependent only if a snapshot from before the finish shows all its other prerequisites finished."""

    def hasty(self: SqliteStore, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        assert then is None
        with self._database.read() as tx:
            key = links.key_of(tx, move.scope, move.id)
            others = [row[0] for row in tx.all("gated_dependents", (key,)) if task_from(row).blockers > 1]
        with self._database.write() as tx:
            moved = moves.move(tx, move, on_cancel)
            assert isinstance(moved, Moved)
            for key in others:
                self._database._connection.execute("UPDATE task SET opens_at = NULL WHERE key = ?", (key,))
        return moved

    _replace(SqliteStore, "move", hasty)


def counted_before_the_turn() -> None:
    """Count an agent's tasks in one transaction, and add one in the next."""
    claim = SqliteStore.claim
    assign = sqlite_fleet.SqliteFleet.assign

    def looked_up(database: Database, agent: str | None) -> Member | None:
        with database.read() as tx:
            return None if agent is None else sqlite_fleet._member(tx, agent)

    def hasty_claim(self: SqliteStore, request: ClaimRequest) -> list[Claimed]:
        member = looked_up(self._database, request.agent)
        assert member is not None
        _replace(sqlite_fleet, "bounded", lambda _tx, asked, *_row: fleet.bounded(asked, member.held, member.limit))
        return claim(self, request)

    def hasty_assign(self: sqlite_fleet.SqliteFleet, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        member = looked_up(self._database, asked.agent)
        _replace(sqlite_fleet, "_member", lambda _tx, _agent: member)
        return assign(self, asked, by)

    _replace(SqliteStore, "claim", hasty_claim)
    _replace(sqlite_fleet.SqliteFleet, "assign", hasty_assign)


def unfenced() -> None:
    """Accept a write without comparing the token, as many queues do."""

    def credulous(task: Task, _move: Move, _now: datetime) -> bool:
        return task.lease is not None

    _replace(lifecycle, "_proves", credulous)


def one_more_migration(folder: str) -> None:
    """No defect, but the next version: its migrations are in this folder."""
    migrate._FOLDER = folder
    migrate.NEWEST += 1


# Two of these could wait for each other for long or without end: make them fail at once.
IMPATIENT = (deferred, autocommit, read_first)


def _replace(owner: object, name: str, value: Callable[..., object]) -> None:
    setattr(owner, name, value)
