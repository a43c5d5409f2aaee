"""Taking tasks in, finding them, changing what they say."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from dibs.core import events
from dibs.core.errors import AlreadyExists, NotFound
from dibs.core.events import Event
from dibs.core.task import Status, Task
from dibs.stores.sqlite import links
from dibs.stores.sqlite.rows import (
    KEY,
    LAST_EVENT,
    filter_json,
    from_micros,
    micros_or_none,
    moment_or_none,
    moving_values,
    place_of,
    place_values,
    schedule_of,
    stated_values,
    task_from,
    to_json,
    to_micros,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.core.fleet import Quota
    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.port import Query
    from dibs.stores.reports import Counts
    from dibs.stores.sqlite.database import Transaction
    from dibs.stores.sqlite.rows import Row


def add(tx: Transaction, scope: str, drafts: Sequence[Draft], given: Sequence[Link], by: Actor) -> list[Task]:
    """Insert tasks, then their links; parents may be among them in any order."""
    for draft in drafts:
        insert(tx, new_task(tx, scope, draft), by)
    for draft in drafts:
        if draft.parent is not None:
            links.refuse_cycle(tx, links.key_of(tx, scope, draft.parent), links.key_of(tx, scope, draft.id))
    links.link(tx, scope, given, by)
    return [get(tx, scope, draft.id) for draft in drafts]


def keep_to(tx: Transaction, scope: str, quota: Quota, wanted: int) -> None:
    """Refuse tasks over the quota. The caller holds the write lock."""
    from dibs.core.fleet import refuse_more

    rows = tx.all("added_since", (scope, to_micros(tx.now - quota.within)))
    refuse_more(quota, [from_micros(row[0]) for row in rows], wanted, tx.now)


def new_task(tx: Transaction, scope: str, draft: Draft) -> Task:
    stated = draft._asdict()
    return Task(scope=scope, created_at=tx.now, updated_at=tx.now, queued_at=tx.now, **stated)


def insert(tx: Transaction, task: Task, by: Actor) -> None:
    event = Event(tx.now, task.scope, task.id, "add", agent=by.agent, run=by.run, target=task.status)
    write_new(tx, task, tx.append(event, None))


def write_new(tx: Transaction, task: Task, last_event: int | None = None) -> None:
    try:
        birth = (task.scope, task.id, to_micros(task.created_at), task.origin)
        tx.run("insert_task", (*birth, *stated_values(task), *moving_values(task, tx.now, tx.micros), last_event))
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise AlreadyExists(f"There is a task '{task.id}' in {task.scope} already; 'dibs edit' changes it.") from None


def get(tx: Transaction, scope: str, task_id: str) -> Task:
    row = tx.one("task_by_id", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    return task_from(row)


def listed_scopes(tx: Transaction, scope: str | None) -> list[str]:
    """The one, or all that hold work."""
    if scope is not None:
        return [scope]
    from dibs.core.task import is_internal

    return [row[0] for row in tx.all("scopes") if not is_internal(row[0])]


def find(tx: Transaction, query: Query) -> list[Task]:
    statuses = tuple(status for status in Status if status in query.statuses)
    if query.agent is not None:
        statuses = tuple({Status.ACTIVE}.intersection(statuses))
    limit = -1 if query.limit is None else query.limit
    asked = listed_scopes(tx, query.scope)
    indexed = {"parent": query.parent, "spec_ref": query.only.spec_ref, "assigned_to": query.assigned_to}
    values = query._asdict() | indexed | {"scopes": to_json(asked), "statuses": to_json(statuses), "limit": limit}
    values |= {"only": filter_json(query.only)} | place_values(query.after)
    by = next((name for name, value in indexed.items() if value is not None), None)  # few tasks share one of these
    if by is not None:
        return [task_from(row) for row in tx.all("find_by_index", values | {"by": by})]
    found = _parts(tx, asked, statuses, values)
    return [task_from(row) for row in sorted(found, key=place_of)[: query.limit]]


def search(tx: Transaction, scope: str, words: Sequence[str]) -> list[tuple[Task, list[str]]]:
    """The tasks that may match, each with its comments. The engine passes over the texts, so no write pays for it."""
    import json

    asked = {"scope": scope, "words": to_json([word for word in words if word.isascii()])}
    return [(task_from(row), json.loads(row[-1] or "[]")) for row in tx.all("tasks_with_words", asked)]


def _parts(
    tx: Transaction, asked: Sequence[str], statuses: Sequence[Status], values: dict[str, object]
) -> Iterator[Row]:
    """Each as long as the listing at most."""
    if Status.DONE in statuses:
        for scope in asked:
            yield from tx.all("find_in_order", values | {"scope": scope})
        return
    if not {Status.READY, Status.ACTIVE}.isdisjoint(statuses):
        yield from tx.all("find_timed", values)
    for scope in asked:
        here = values | {"scope": scope}
        if Status.READY in statuses:
            yield from tx.all("find_open", here)
        for status in statuses:
            yield from tx.all("find_aside", here | {"status": str(status)})


def counts(tx: Transaction, scope: str | None) -> Counts:
    from dibs.stores.reports import Timed, counted

    values = {"scopes": to_json(listed_scopes(tx, scope)), "statuses": to_json(tuple(Status)), "now": tx.micros}
    resting: dict[str, int] = dict(tx.all("tallies", values))
    total, opened, woken = resting.pop("all", 0), resting.pop("open", 0), tx.value("count_woken", values)
    resting[Status.ACTIVE] = resting.get(Status.ACTIVE, 0) - woken
    timed = {
        status: Timed(number, gated, due, later, moment_or_none(next_due))
        for status, number, gated, due, later, next_due in tx.all("count_timed", values)
    }
    return counted(resting, opened, woken, timed, total)


def amend(tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """Change an unfinished task; an edit that changes nothing leaves no trace."""
    task = rewrite(tx, scope, task_id, edit, by)
    if isinstance(edit.parent, str):
        links.refuse_cycle(tx, links.key_of(tx, scope, edit.parent), links.key_of(tx, scope, task_id))
    return task


def rewrite(tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """The same without a look at what a new parent means for the graph: a plan does that once, at the end."""
    row = tx.one("task_by_id", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    task = task_from(row)
    changes = edit.accepted(task)
    if not changes:
        return task
    after = task._replace(updated_at=tx.now, **changes)  # type: ignore[arg-type]  # an Edit's fields are a Task's
    write_edited(tx, row, after, events.edited(task, changes, by, tx.now, edit.why))
    return after


def write_edited(tx: Transaction, row: Row, after: Task, event: Event) -> None:
    """Write an edited task to its row, and its event."""
    times = (micros_or_none(after.not_before), to_micros(after.updated_at))
    derived = (*schedule_of(after, tx.now), tx.append(event, row[LAST_EVENT]))
    tx.run("write_edit", (*stated_values(after), *times, *derived, row[KEY]))
