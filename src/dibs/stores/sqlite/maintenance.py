"""The whole store at once: out of the file and back in, pruned of old things, and checked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.stores.reports import Finding, Record, refuse_unsound
from dibs.stores.sql import transactions
from dibs.stores.sql.transactions import Readers
from dibs.stores.sqlite import links, tasks
from dibs.stores.sqlite.rows import event_from, setting_from, task_from, to_json, to_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from dibs.core.task import Actor, Link
    from dibs.stores.sqlite.database import Database, Transaction

_BITE = 1000
_READERS = Readers(task_from, setting_from, event_from)


def dump(tx: Transaction) -> Iterator[Record]:
    return transactions.dump(tx, _READERS)


def restore(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Write a dump with its history, recompute the counters, and refuse cycles."""
    scopes: set[str] = set()
    taken = 0
    for scope, item in records:
        scopes.add(scope)
        match item:
            case Task():
                tasks.write_new(tx, item._replace(blockers=0))
                taken += 1
            case Event():
                tx.record(item)
            case Setting():
                _put_setting(tx, scope, item)
            case _:
                _put_link(tx, scope, item)
        progress(1)
    for scope in sorted(scopes):
        links.refuse_any_cycle(tx, scope)
        transactions.refuse_orphan(tx.one("orphan_children", {"scope": scope}))
        tx.record(Event(tx.now, scope, "", "import", agent=by.agent, run=by.run, detail={"tasks": taken}))
    tx.run("recount_blockers")
    tx.run("reschedule", {"now": tx.micros})
    refuse_unsound(check(tx, fix=False))
    return taken


def replace(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Write a dump in place of all tasks, links, settings and events. Event numbers go on, for those who follow."""
    for query in ("drop_all_links", "drop_all_tasks", "drop_all_settings"):
        tx.run(query)
    newest = tx.value("highest_event")
    tx.run("drop_events_below", (newest,))
    tx.run("detach_event", (newest,))  # it keeps the numbers rising, and must not count as a restored task's history
    taken = restore(tx, records, by, progress)
    tx.run("drop_followed_event", (newest,))
    tx.run("next_generation")
    return taken


def _put_link(tx: Transaction, scope: str, link: Link) -> None:
    values = {"scope": scope, **link._asdict()}
    if tx.run("put_link_by_id", values) != 1:
        raise InvalidInput(f"A link leads from {link.task} to {link.on}, but not both are in {scope}.")


def _put_setting(tx: Transaction, scope: str, setting: Setting) -> None:
    if tx.run("new_setting", (scope, setting.name, to_json(setting.value))) != 1:
        raise AlreadyExists(f"There is a setting '{setting.name}' in {scope} already.")


def prune(
    database: Database, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Bite by bite, each its own transaction, so that others get their turn in between."""
    events = finished = 0
    while events_before is not None:
        with database.write() as tx:
            gone = tx.run("prune_events", {"bite": _BITE, "before": to_micros(events_before)})
        events += gone
        progress(gone)
        if gone < _BITE - 1:
            break
    while events_before is not None:
        with database.write() as tx:
            if tx.run("prune_output", {"bite": _BITE, "before": to_micros(events_before)}) < _BITE:
                break
    if tasks_before is not None:
        finished = _prune_tasks(database, tasks_before, progress)
    return events, finished


def _prune_tasks(database: Database, before: datetime, progress: Callable[[int], None]) -> int:
    """Newest first, so that children go before the parents that wait for it."""
    dropped = 0
    with database.read() as tx:
        high = tx.value("highest_key")
    while high > 0:
        span = {"low": high - _BITE, "high": high, "before": to_micros(before)}
        with database.write() as tx:
            keys = [row[0] for row in tx.all("prunable_tasks", span)]
            for key in keys:
                tx.run("drop_links_of", {"key": key})
                tx.run("drop_task", (key,))
        dropped += len(keys)
        progress(len(keys))
        high -= _BITE
    return dropped


# query → what is wrong with the rows it returns, and whether `repair` puts it right
_QUESTIONS = (
    ("check_blockers", "the count of unfinished prerequisites is wrong", True),
    ("check_schedule", "its place in the queue does not match its status, blockers, lease and not_before", True),
    ("check_order", "its order numbers or its finishing time do not match its status", False),
    ("check_tally", "the number of its tasks by status is wrong", True),
    ("check_leases", "the lease is incomplete: status, token, holder and attempt do not match", False),
    ("check_attempts", "the events name a later attempt than the task", False),
    ("check_chain", "its history does not end with its newest event", False),
    ("check_orphan_links", "a link leads to a missing task", True),
    ("check_cross_links", "a link leads into another scope", False),
    ("check_parents", "the parent is missing", True),
    ("check_vectors", "its vector has a different length than the others", False),
)


def check(tx: Transaction, *, fix: bool) -> list[Finding]:
    findings = transactions.problems(tx, _QUESTIONS, tx.micros, _READERS, partial(links.refuse_any_cycle, tx), fix=fix)
    if fix and any(finding.fixed for finding in findings):
        repair(tx)
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


def repair(tx: Transaction) -> None:
    tx.run("drop_orphan_links")
    tx.run("drop_orphan_parents")
    tx.run("recount_blockers")
    tx.run("reschedule", {"now": tx.micros})
    tx.run("drop_tallies")
    tx.run("recount_tallies")
