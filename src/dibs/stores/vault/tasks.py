"""Taking tasks in, finding them, changing what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import telling
from dibs.core.errors import AlreadyExists
from dibs.core.events import Event
from dibs.core.order import page
from dibs.core.task import TERMINAL, Task
from dibs.stores.vault import names, reading
from dibs.stores.vault.links import Asked, Before
from dibs.stores.vault.writing import create, rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.port import Query
    from dibs.stores.vault.turns import Alone, Turn


def add(tx: Alone, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor) -> list[Task]:
    """Check everything, then write a file for each task; what was there already is linked last."""
    names.scope_folder(scope)
    before = Before(tx.index, scope)
    for draft in drafts:
        _refuse(tx, scope, draft, before)
    for draft in drafts:
        if draft.parent is not None:
            before.refuse_unknown(draft.parent)
            before.add(draft.parent, draft.id)
    asked = Asked(tx, scope, before)
    for link in links:
        asked.add(link)
    for draft in drafts:
        task = Task(scope=scope, created_at=tx.now, updated_at=tx.now, queued_at=tx.now, **draft._asdict())
        create(tx, task, tuple(asked.of(draft.id).values()))
        tx.record(Event(tx.now, scope, draft.id, "add", agent=by.agent, run=by.run, target=draft.status))
    asked.write(by)
    return [tx.task(scope, draft.id) for draft in drafts]


def _refuse(tx: Alone, scope: str, draft: Draft, before: Before) -> None:
    names.file_name(draft.id)
    reading.refuse_marker(draft.description)
    if draft.id in before.new or tx.index.entry((scope, draft.id)) is not None:
        raise AlreadyExists(f"There is a task '{draft.id}' in {scope} already; 'dibs edit' changes it.")
    before.new.add(draft.id)


def find(tx: Turn, query: Query) -> list[Task]:
    finished = not TERMINAL.isdisjoint(query.statuses)
    found = [task for task in tx.index.tasks(query.scope, finished=finished) if _fits(task, query)]
    return page(found, query.after, query.limit)


def _fits(task: Task, query: Query) -> bool:
    text = None if query.text is None else query.text.lower()
    return (
        task.status in query.statuses
        and (query.agent is None or (task.lease is not None and task.lease.agent == query.agent))
        and (query.assigned_to is None or task.assigned_to == query.assigned_to)
        and query.only.matches(task)
        and (query.parent is None or task.parent == query.parent)
        and (text is None or text in task.title.lower() or text in task.description.lower())
    )


def amend(tx: Alone, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """Change an unfinished task; an edit that changes nothing leaves no trace."""
    task = tx.task(scope, task_id)
    if edit.accepted(task) and not task.finished:
        _refuse_edit(tx, task, edit)

    def act() -> Task:
        entry = tx.entry(scope, task_id)
        task = tx.task(scope, task_id)
        changes = edit.accepted(task)
        if not changes:
            return task
        rewrite(tx, entry, task._replace(updated_at=tx.now, **changes))  # type: ignore[arg-type]  # an Edit's fields
        tx.record(telling.edited(task, changes, by, tx.now, edit.why))
        return tx.task(scope, task_id)

    return tx.settled(act)


def _refuse_edit(tx: Alone, task: Task, edit: Edit) -> None:
    if isinstance(edit.description, str):
        reading.refuse_marker(edit.description)
    if isinstance(edit.parent, str) and edit.parent != task.parent:
        before = Before(tx.index, task.scope)
        before.refuse_unknown(edit.parent)
        before.add(edit.parent, task.id)
