"""Check, repair, dump and prune a whole vault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.graph import Graph, find_cycle
from dibs.stores.reports import Finding, Record
from dibs.stores.vault.tasks import write_links
from dibs.stores.vault.turns import Alone
from dibs.stores.vault.writing import remove, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from dibs.core.task import Task
    from dibs.stores.vault.index import Entry
    from dibs.stores.vault.turns import Turn
    from dibs.stores.vault.vault import Vault


def check(tx: Turn) -> list[Finding]:
    """Every question about every file."""
    tx.index.read_all()
    found = [Finding(problem, path, fixable=False) for path, problem in sorted(tx.index.problems.items())]
    for key in tx.index.keys_in():
        entry = tx.index.entry(key)
        found += _of_one(tx, entry) if entry is not None else []
    for scope in sorted({scope for scope, _ in tx.index.keys_in()}):
        found += _cycles(tx, scope)
    for name, lines in tx.vault.log.unreadable():
        found.append(Finding(f"holds {lines} line(s) that are no events", f"Logs/{name}", fixable=False))
    return found


def repair(tx: Alone) -> list[Finding]:
    """Take out links and parents that lead nowhere."""
    findings = check(tx)
    for finding in findings:
        if finding.fixable:
            scope, _, task_id = finding.subject.rpartition("/")
            _drop_loose_ends(tx, scope, task_id)
    return [finding._replace(fixed=finding.fixable) for finding in findings]


def _of_one(tx: Turn, entry: Entry) -> list[Finding]:
    path, key = entry.path, entry.place.key
    if entry.problem is not None:
        return [Finding(entry.problem, path, fixable=False)]
    known = entry.reading
    if known is None:
        return []
    found = [Finding(f"{doubt}; it was passed over", path, fixable=False) for doubt in known.doubts]
    twins = tx.index.twins(key)
    if twins:
        found.append(Finding(f"the same name lies in {' and in '.join(twins)}", "/".join(key), fixable=False))
    ends = [(link.on, "waits for") for link in known.links]
    if known.task.parent is not None:
        ends.append((known.task.parent, "has the parent"))
    found += [
        Finding(f"{how} {on}, which is not there", "/".join(key), fixable=True)
        for on, how in ends
        if tx.index.place_of((key[0], on)) is None
    ]
    return found


def _cycles(tx: Turn, scope: str) -> list[Finding]:
    tasks = tuple(tx.index.tasks(scope))
    entries = (tx.index.entry((scope, task.id)) for task in tasks)
    links = tuple(link for entry in entries if entry and entry.reading for link in entry.reading.links)
    cycle = find_cycle(Graph(tasks, links).prerequisites())
    return [Finding(f"tasks wait for each other: {' → '.join(cycle)}", scope, fixable=False)] if cycle else []


def _drop_loose_ends(tx: Alone, scope: str, task_id: str) -> None:
    entry = tx.entry(scope, task_id)
    known = entry.reading
    if known is None:
        return
    kept = tuple(link for link in known.links if tx.index.place_of((scope, link.on)) is not None)
    write_links(tx, scope, task_id, kept)
    parent = known.task.parent
    if parent is not None and tx.index.place_of((scope, parent)) is None:
        tx.settled(lambda: rewrite(tx, tx.entry(scope, task_id), tx.task(scope, task_id)._replace(parent=None)))


_BITE = 1000


def dump(tx: Turn) -> Iterator[Record]:
    tasks = sorted(tx.index.tasks(), key=lambda task: (task.created_at, task.scope, task.id))
    for task in tasks:
        yield Record(task.scope, task)
    for task in tasks:
        entry = tx.index.entry((task.scope, task.id))
        for link in sorted(entry.reading.links if entry and entry.reading else ()):
            yield Record(task.scope, link)
    for event in tx.vault.log.all():
        yield Record(event.scope, event)


def prune(
    vault: Vault, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Bite by bite, each its own turn, so that others get theirs in between."""
    events = _bites(vault, progress, lambda tx: tx.vault.log.drop(events_before, _BITE)) if events_before else 0
    tasks = _bites(vault, progress, lambda tx: _drop_tasks(tx, tasks_before)) if tasks_before else 0
    return events, tasks


def _bites(vault: Vault, progress: Callable[[int], None], bite: Callable[[Alone], int]) -> int:
    dropped = 0
    while True:
        with Alone(vault) as tx:
            gone = bite(tx)
        dropped += gone
        progress(gone)
        if gone < _BITE:
            return dropped


def _drop_tasks(tx: Alone, before: datetime) -> int:
    """Long finished, with nobody unfinished on the other end of a link to it, and without children."""
    tx.vault.sweep()
    tx.index.read_all()
    old = [task for task in tx.index.tasks() if task.finished_at is not None and task.finished_at < before]
    free = [task for task in old if not _needed(tx, task)][:_BITE]
    for task in free:
        for link in tx.index.dependents((task.scope, task.id)):
            entry = tx.entry(task.scope, link.task)
            kept = tuple(known for known in entry.reading.links if known.on != task.id) if entry.reading else ()
            write_links(tx, task.scope, link.task, kept)
        remove(tx, tx.entry(task.scope, task.id))
    return len(free)


def _needed(tx: Alone, task: Task) -> bool:
    key = (task.scope, task.id)
    if tx.index.children(key) or tx.index.twins(key):
        return True
    return any(not tx.index.finished((task.scope, link.task)) for link in tx.index.dependents(key))
