"""A whole store out of the file and back in, and old things dropped from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.stores.reports import Record
from dibs.stores.sqlite import links, tasks
from dibs.stores.sqlite.rows import event_from, link_from, setting_from, task_from, to_json, to_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from dibs.core.task import Actor, Link
    from dibs.stores.sqlite.database import Database, Transaction

_BITE = 1000


def dump(tx: Transaction) -> Iterator[Record]:
    for row in tx.iterate("dump_tasks"):
        task = task_from(row)
        yield Record(task.scope, task)
    for row in tx.iterate("dump_links"):
        yield Record(row[0], link_from(row[1:]))
    for row in tx.iterate("dump_settings"):
        yield Record(row[0], setting_from(row[1:]))
    for row in tx.iterate("dump_events"):
        event = event_from(row)
        yield Record(event.scope, event)


def restore(tx: Transaction, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
    """Write a dump as it stands: history included, counters computed anew, cycles refused."""
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
        _refuse_orphans(tx, scope)
        tx.record(Event(tx.now, scope, "", "import", agent=by.agent, run=by.run, detail={"tasks": taken}))
    tx.run("recount_blockers")
    tx.run("reschedule", {"now": tx.micros})
    return taken


def _put_link(tx: Transaction, scope: str, link: Link) -> None:
    values = {"scope": scope, **link._asdict()}
    if tx.run("put_link_by_id", values) != 1:
        raise InvalidInput(f"A link leads from {link.task} to {link.on}, but not both are in {scope}.")


def _put_setting(tx: Transaction, scope: str, setting: Setting) -> None:
    if tx.run("new_setting", (scope, setting.name, to_json(setting.value))) != 1:
        raise AlreadyExists(f"There is a setting '{setting.name}' in {scope} already.")


def _refuse_orphans(tx: Transaction, scope: str) -> None:
    row = tx.one("orphan_children", {"scope": scope})
    if row is not None:
        raise InvalidInput(f"{row[0]} names the parent {row[1]}, which is neither in the file nor in the store.")


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
