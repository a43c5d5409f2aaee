"""Export, import, pruning, and the check of derived columns."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.stores.postgres.database import Database
from dibs.stores.postgres.links import copy_tasks, put_links, refuse_any_cycle, refuse_taken, reserve
from dibs.stores.postgres.rows import (
    Flags,
    array,
    copy_line,
    event_from,
    event_values,
    new_values,
    setting_from,
    task_from,
    to_json,
)
from dibs.stores.reports import Finding, Record, refuse_unsound
from dibs.stores.sql import transactions
from dibs.stores.sql.transactions import Readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from dibs.core.task import Actor, Link
    from dibs.stores.postgres.transaction import Transaction

_READERS = Readers(task_from, setting_from, event_from)

# query → what is wrong with the rows it returns, and whether `repair` puts it right
_QUESTIONS = (
    ("check_blockers", "the count of unfinished prerequisites is wrong", True),
    ("check_flags", "it has links or children and is not marked as having them", True),
    ("check_copies", "a column differs from its document", False),
    ("check_schedule", "claimable or wake_at does not match status, lease and not_before", True),
    ("check_order", "its order numbers or its finishing time do not match its status", False),
    ("check_leases", "the lease is incomplete: status, token, holder and attempt do not match", False),
    ("check_attempts", "the events name a later attempt than the task", False),
    ("check_chain", "its history does not end with its newest event", False),
    ("check_orphan_links", "a link leads to a missing task", True),
    ("check_cross_links", "a link leads into another scope", False),
    ("check_parents", "the parent is missing", True),
    ("check_vectors", "its vector has a different length than the others", False),
)


def check(tx: Transaction, *, fix: bool) -> list[Finding]:
    if fix:
        tx.run("lock_tables")
    findings = transactions.problems(tx, _QUESTIONS, tx.now, _READERS, partial(refuse_any_cycle, tx), fix=fix)
    if fix and any(finding.fixed for finding in findings):
        tx.run("drop_orphan_links")
        tx.run("drop_orphan_parents")
        tx.run("recount_blockers")
        tx.run("reflag")
        tx.run("reschedule", {"now": tx.now})
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


_BITE = 1000
_BATCH = 5000


def dump(own: Database) -> Iterator[Record]:
    """Stream over a separate connection, because the caller may be slow and may write between records."""
    database = Database(own.target, store=own.store)
    try:
        with database.planning_freely(), database.reading() as tx:
            yield from transactions.dump(tx, _READERS)
    finally:
        database.close()


def restore(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Import a dump with its history; recompute counters, refuse cycles."""
    taking = _Restoring(tx)
    for record in records:
        taking.take(record)
        progress(1)
    taking.write()
    scopes = sorted(taking.scopes)
    for scope in scopes:
        tx.lock_scope(scope)
        refuse_any_cycle(tx, scope)
        transactions.refuse_orphan(tx.one("orphan_children", (scope,)))
        tx.record(Event(tx.now, scope, "", "import", agent=by.agent, run=by.run, detail={"tasks": taking.taken}))
    if scopes:
        tx.run("recount_blockers")
        tx.run("reflag")
        tx.run("reschedule", {"now": tx.now})
        refuse_unsound(check(tx, fix=False))
        tx.hint()
    return taking.taken


def replace(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Replace all tasks, links, settings and events by a dump. Event numbers keep rising."""
    tx.run("lock_content")
    tx.run("drop_content")
    taken = restore(tx, records, by, progress)
    tx.run("next_generation")
    tx.hint()
    return taken


class _Restoring:
    """Imports records in batches of one kind and scope, in order."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._batch: list[Record] = []
        self.scopes: set[str] = set()
        self.taken = 0

    def take(self, record: Record) -> None:
        self.scopes.add(record.scope)
        if len(self._batch) >= _BATCH:
            self.write()
        self._batch.append(record)

    def write(self) -> None:
        for (scope, kind), group in groupby(self._batch, key=lambda record: (record.scope, type(record.item))):
            items = [record.item for record in group]
            if kind is Task:
                self._tasks(scope, items)  # type: ignore[arg-type]  # grouped by kind
            elif kind is Event:
                self._events(items)  # type: ignore[arg-type]
            elif kind is Setting:
                self._settings(scope, items)  # type: ignore[arg-type]
            else:
                self._links(scope, items)  # type: ignore[arg-type]
        self._batch.clear()

    def _tasks(self, scope: str, tasks: list[Task]) -> None:
        refuse_taken(self._tx, scope, tasks)
        keys = reserve(self._tx, "reserve_keys", len(tasks))
        lines = (
            copy_line(new_values(key, task._replace(blockers=0), self._tx.now, None, None, Flags()))
            for key, task in zip(keys, tasks, strict=True)
        )
        copy_tasks(self._tx, scope, lines)
        self.taken += len(tasks)

    def _links(self, scope: str, links: list[Link]) -> None:
        ends = {end for link in links for end in (link.task, link.on)}
        keys = {row[0]: row[1] for row in self._tx.all("keys_of", (scope, array(sorted(ends))))}
        for link in links:
            if link.task not in keys or link.on not in keys:
                raise InvalidInput(f"A link leads from {link.task} to {link.on}, but not both are in {scope}.")
        put_links(self._tx, [(keys[link.task], keys[link.on], link) for link in links])

    def _settings(self, scope: str, settings: list[Setting]) -> None:
        for name, value in settings:
            if self._tx.run("new_setting", (scope, name, to_json(value))) != 1:
                raise AlreadyExists(f"There is a setting '{name}' in {scope} already.")

    def _events(self, events: list[Event]) -> None:
        """Insert events and link each to its task's event before."""
        named = sorted({event.task for event in events})
        last = {row[0]: row[1] for row in self._tx.all("last_events", (events[0].scope, array(named)))}
        lines = []
        for seq, event in zip(reserve(self._tx, "reserve_events", len(events)), events, strict=True):
            lines.append(copy_line((seq, *event_values(event), last.get(event.task))))
            if event.task in last:
                last[event.task] = seq
        self._tx.copy("copy_events", lines)
        if last:
            self._tx.run("write_last_events", (array(last), array(last.values()), events[0].scope))


def prune(
    database: Database, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Delete in small transactions, so that other writers wait only briefly."""
    events = finished = 0
    while events_before is not None:
        gone = database.write(lambda tx: tx.run("prune_events", (_BITE, events_before)))
        events += gone
        progress(gone)
        if gone < _BITE - 1:
            break
    while events_before is not None:
        if database.write(lambda tx: tx.run("prune_output", (events_before, _BITE))) < _BITE:
            break
    if tasks_before is not None:
        finished = _prune_tasks(database, tasks_before, progress)
    return events, finished


def _prune_tasks(database: Database, before: datetime, progress: Callable[[int], None]) -> int:
    """Delete the newest tasks first, so that children go before their parents. The scope locks keep other writers from
    linking to a task or adding a child to it before it is deleted."""
    dropped = 0
    high = database.rows("highest_key")[0][0]

    def bite(tx: Transaction) -> int:
        span = (high - _BITE, high)
        for row in tx.all("scopes_between", span):
            tx.lock_scope(row[0])
        keys = [row[0] for row in tx.all("prunable_tasks", (*span, before))]
        if keys:
            tx.run("drop_links_of", {"keys": array(keys)})
            tx.run("drop_tasks", (array(keys),))
        return len(keys)

    while high > 0:
        gone = database.write(bite)
        dropped += gone
        progress(gone)
        high -= _BITE
    return dropped
