"""Add, find and edit tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events
from dibs.core.errors import NotFound
from dibs.core.task import Status, Task, is_internal
from dibs.stores.postgres import links
from dibs.stores.postgres.links import Intake, refuse_cycles
from dibs.stores.postgres.rows import (
    ID,
    KEY,
    LAST_EVENT,
    event_values,
    filter_json,
    place_values,
    schedule_of,
    stated_values,
    task_from,
)
from dibs.stores.reports import Timed, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.events import Event
    from dibs.core.fleet import Quota
    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.port import Query
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row
    from dibs.stores.postgres.transaction import Transaction
    from dibs.stores.reports import Counts


def add(tx: Transaction, scope: str, drafts: Sequence[Draft], given: Sequence[Link], by: Actor) -> list[Task]:
    """Insert tasks and their links; parents may be among them in any order."""
    if given or any(draft.parent is not None for draft in drafts):
        tx.lock_scope(scope)
    intake = Intake(tx, scope, by)
    intake.tasks(new_task(tx, scope, draft) for draft in drafts)
    links.gather(tx, scope, given, intake, {draft.id for draft in drafts})
    intake.write()
    if drafts:
        tx.hint()
    return named(tx, scope, [draft.id for draft in drafts])


def named(tx: Transaction, scope: str, ids: Sequence[str]) -> list[Task]:
    found = {row[ID]: task_from(row) for row in tx.all("tasks_named", (list(ids), scope))}
    return [found[each] for each in ids]


def keep_to(tx: Transaction, scope: str, quota: Quota, wanted: int) -> None:
    """Refuse tasks over the quota, with other quota checks of the scope excluded."""
    from dibs.core.fleet import refuse_more

    tx.lock_scope(scope)
    rows = tx.all("added_since", (scope, tx.now - quota.within))
    refuse_more(quota, [row[0] for row in rows], wanted, tx.now)


def new_task(tx: Transaction, scope: str, draft: Draft) -> Task:
    stated = draft._asdict()
    return Task(scope=scope, created_at=tx.now, updated_at=tx.now, queued_at=tx.now, **stated)


def get(database: Database, scope: str, task_id: str) -> Task:
    rows = database.rows("task_by_id", (scope, task_id))
    if not rows:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    return task_from(rows[0])


def listed_scopes(database: Database, scope: str | None) -> list[str]:
    """The one, or all that hold work."""
    return [scope] if scope is not None else [row[0] for row in database.rows("scopes") if not is_internal(row[0])]


def search(tx: Transaction, scope: str, words: Sequence[str]) -> list[tuple[Task, list[str]]]:
    """Tasks that may match, with comments. The server scans the texts, so writes pay nothing."""
    asked = {"scope": scope, "words": [word for word in words if word.isascii()]}
    return [(task_from(row), list(row[-1] or ())) for row in tx.all("tasks_with_words", asked)]


def find(database: Database, query: Query) -> list[Task]:
    statuses = [str(status) for status in Status if status in query.statuses]
    spec = query.only.spec_ref
    values = query._asdict() | {"statuses": statuses, "scopes": listed_scopes(database, query.scope)}
    values |= {"spec_ref": spec, "only": filter_json(query.only)}
    narrow = any(each is not None for each in (query.parent, spec, query.assigned_to))
    rows = database.rows("find_by_index" if narrow else "find", values | place_values(query.after))
    return [task_from(row) for row in rows]


def counts(database: Database, scope: str | None) -> Counts:
    rows = database.rows("counts", {"scopes": listed_scopes(database, scope)})
    numbers = {part: number for part, _, number, *_ in rows}
    resting = {status: number for part, status, number, *_ in rows if part == "resting"}
    timed = {status: Timed(*figures) for part, status, *figures in rows if part == "timed"}
    return counted(resting, numbers["opened"], numbers["woken"], timed, numbers["all"])


def amend(tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """Edit an unfinished task; an edit without a change writes nothing."""
    if isinstance(edit.parent, str):
        tx.lock_scope(scope)
        parent = tx.all("share_tasks", (scope, [edit.parent]))
        tx.run("flag_parents", (scope, [edit.parent]))
        task, key = rewrite(tx, scope, task_id, edit, by)
        if not parent:
            raise NotFound(f"There is no task '{edit.parent}' in {scope}.")
        refuse_cycles(tx, scope, [(parent[0][1], key)])
        return task
    return rewrite(tx, scope, task_id, edit, by)[0]


def rewrite(
    tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor, digest: int | None = None
) -> tuple[Task, int]:
    """The task with the edit written, and its key. What a new parent means for the graph is the caller's care."""
    row = lock(tx, scope, task_id)
    task = task_from(row)
    changes = edit.accepted(task)
    if not changes:
        return task, row[KEY]
    after = task._replace(updated_at=tx.now, **changes)  # type: ignore[arg-type]  # an Edit's fields are a Task's
    write_edited(tx, row, after, events.edited(task, changes, by, tx.now, edit.why), digest)
    return after, row[KEY]


def write_edited(tx: Transaction, row: Row, after: Task, event: Event, digest: int | None = None) -> None:
    """Write a task's edited fields and the event."""
    times = (after.not_before, after.updated_at, *schedule_of(after, tx.now))
    told = (*event_values(event), row[LAST_EVENT])
    tx.run("write_edit_and_record", (*told, *stated_values(after), *times, digest, row[KEY]))


def lock(tx: Transaction, scope: str, task_id: str) -> Row:
    row = tx.one("lock_task", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    return row
