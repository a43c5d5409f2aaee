"""Whole stores: dump, restore, prune, and the check that derived values are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, InvalidInput, StoreCorrupt
from dibs.core.events import Event
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.stores.neo4j import settings, tasks
from dibs.stores.neo4j.rows import event_from, link_from, link_values, task_from
from dibs.stores.reports import Finding, Record, refuse_unsound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from dibs.core.task import Actor, Link
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction


_BITE = 1000


def dump(tx: Transaction, scopes: Sequence[str]) -> list[Record]:
    """All of it at once: the scopes are locked meanwhile, and who reads slowly must not keep them."""
    found = [Record(scope, task_from(row["task"])) for scope in scopes for row in tx.all("dump_tasks", scope=scope)]
    found += [Record(scope, link_from(row)) for scope in scopes for row in tx.all("links_in_scope", scope=scope)]
    found += [Record(scope, Setting(*each)) for scope in scopes for each in settings.settings(tx, scope).items()]
    events = (event_from(row["event"]) for row in tx.all("dump_events"))
    return found + [Record(event.scope, event) for event in events]


def restore(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Write a dump as it stands: history included, counters computed anew, cycles refused."""
    new: dict[str, list[Task]] = {}
    linked: dict[str, list[Link]] = {}
    given: dict[str, list[Setting]] = {}
    for scope, item in records:
        new.setdefault(scope, [])
        match item:
            case Task():
                new[scope].append(item)
            case Event():
                tx.record(item)
            case Setting():
                given.setdefault(scope, []).append(item)
            case _:
                linked.setdefault(scope, []).append(item)
        progress(1)
    for scope, each in given.items():
        settings.restore(tx, scope, each)
    taken = sum(len(each) for each in new.values())
    for scope in sorted(new):
        _restore_scope(tx, scope, new[scope], linked.get(scope, []))
        tx.record(Event(tx.now, scope, "", "import", agent=by.agent, run=by.run, detail={"tasks": taken}))
    refuse_unsound(check(tx, sorted(new), fix=False))
    return taken


def _restore_scope(tx: Transaction, scope: str, new: Sequence[Task], linked: Sequence[Link]) -> None:
    for at in range(0, len(new), _BITE):
        tasks.write_new(tx, scope, new[at : at + _BITE])
    pairs = [[task.parent, task.id] for task in new if task.parent is not None]
    tx.all("put_parents", scope=scope, pairs=pairs)
    orphan = tx.one("orphan_child", scope=scope)
    if orphan is not None:
        raise InvalidInput(
            f"{orphan['id']} names the parent {orphan['parent']}, which is neither in the file nor in the store."
        )
    _put_links(tx, scope, linked)
    tasks.refuse_any_cycle(tx, scope)
    tx.all("recount_scope", scope=scope)
    tx.all("reschedule", scope=scope, now=tx.now)


def _put_links(tx: Transaction, scope: str, linked: Sequence[Link]) -> None:
    ends = sorted({end for link in linked for end in (link.task, link.on)})
    missing = tasks.missing(tx, scope, ends)
    for link in linked:
        if missing.intersection((link.task, link.on)):
            raise InvalidInput(f"A link leads from {link.task} to {link.on}, but not both are in {scope}.")
    for at in range(0, len(linked), _BITE):
        some = [link_values(link) for link in linked[at : at + _BITE]]
        tx.all("put_links", scope=scope, now=tx.now, links=some)


def prune(
    database: Database, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Bite by bite, each its own transaction, so that others get their turn in between."""
    events = finished = 0
    while events_before is not None:
        gone = database.write(
            lambda tx: int(tx.value("prune_events", before=events_before, bite=_BITE)), lock="lock_desk"
        )
        events += gone
        progress(gone)
        if gone < _BITE - 1:
            break
    if tasks_before is not None:
        for scope in database.read(lambda tx: tasks.scopes(tx, None)):
            finished += _prune_tasks(database, scope, tasks_before, progress)
    return events, finished


def _prune_tasks(database: Database, scope: str, before: datetime, progress: Callable[[int], None]) -> int:
    """Again and again, as parents can go once their children are gone."""
    dropped = 0
    while True:
        gone = database.write(
            lambda tx: int(tx.value("prune_tasks", scope=scope, before=before, bite=_BITE)), scopes=[scope]
        )
        if not gone:
            return dropped
        dropped += gone
        progress(gone)


# question → what is wrong with the nodes it returns, and whether `repair` puts it right
_QUESTIONS = {
    "blockers": ("the count of unfinished prerequisites is wrong", True),
    "schedule": ("its place in the queue does not follow from status, blockers, lease and not_before", True),
    "finished": ("its finishing time does not fit its status", False),
    "leases": ("the lease is half there: status, token, holder and attempt do not agree", False),
    "attempts": ("the events know a later attempt than the task", False),
    "cross_links": ("a link leads into another scope", False),
    "parents": ("the parent is not there", True),
    "scopes": ("its scope is not there", True),
    "vectors": ("its vector has another length than the others", False),
}


def check(tx: Transaction, scopes: Sequence[str], *, fix: bool) -> list[Finding]:
    """The scopes are locked."""
    findings = []
    for row in sorted(tx.all("problems", now=tx.now), key=lambda row: (row["question"], row["subject"])):
        problem, fixable = _QUESTIONS[row["question"]]
        findings.append(Finding(problem, row["subject"], fixable, fixed=fix and fixable))
    for scope in scopes:
        findings += _unreadable(tx, scope)
        try:
            tasks.refuse_any_cycle(tx, scope)
        except CycleDetected as error:
            findings.append(Finding(f"tasks wait for each other: {' → '.join(error.path)}", scope, fixable=False))
    findings += _unread(event_from, [row["event"] for row in tx.all("dump_events")])
    if fix and any(finding.fixed for finding in findings):
        _repair(tx, scopes)
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


def _unreadable(tx: Transaction, scope: str) -> list[Finding]:
    """What holds values that no dibs wrote: it is shown to a person, never guessed at."""
    found = _unread(task_from, [row["task"] for row in tx.all("dump_tasks", scope=scope)])
    found += _unread(link_from, tx.all("links_in_scope", scope=scope))
    return found + _unread(lambda _: settings.settings(tx, scope), [{}])


def _unread(read: Callable[[Row], object], rows: Sequence[Row]) -> list[Finding]:
    found = []
    for row in rows:
        try:
            read(row)
        except StoreCorrupt as error:
            what = error.message.split(" holds")[0]
            found.append(Finding("holds a value that no dibs wrote there", what, fixable=False))
    return found


def _repair(tx: Transaction, scopes: Sequence[str]) -> None:
    tx.all("mend_scopes")
    tx.all("adopt")
    tx.all("drop_orphan_parents")
    for scope in scopes:
        tx.all("recount_scope", scope=scope)
        tx.all("reschedule", scope=scope, now=tx.now)
