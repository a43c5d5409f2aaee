"""A whole vault out as records, and old things dropped from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.reports import Record
from dibs.stores.vault.links import write_links
from dibs.stores.vault.turns import Alone
from dibs.stores.vault.writing import remove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from dibs.core.task import Task
    from dibs.stores.vault.turns import Turn
    from dibs.stores.vault.vault import Vault

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
