"""Add, find, edit and link tasks.

A link stands in the file of the task that waits. Only one process writes at a time, so a search for a cycle followed by
a write cannot be overtaken by another process. A person may write a cycle into the files; `check` reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events
from dibs.core.errors import AlreadyExists, CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.graph import path_between
from dibs.core.task import STRENGTH, TERMINAL, LinkKind, Task, page
from dibs.stores.vault import places, reading
from dibs.stores.vault.writing import create, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.port import Query
    from dibs.stores.vault.index import Index
    from dibs.stores.vault.turns import Alone, Turn


class Before:
    """What must come before a task, by the files and by what is about to be added to them."""

    def __init__(self, index: Index, scope: str) -> None:
        index.read_all()
        self._index = index
        self._scope = scope
        self._added: dict[str, set[str]] = {}
        self.new: set[str] = set()  # ids of tasks that are about to be added

    def get(self, task: str, _default: Iterable[str] = ()) -> set[str]:
        key = (self._scope, task)
        entry = self._index.entry(key)
        known = entry.reading.links if entry and entry.reading else ()
        before = {link.on for link in known if link.kind is not LinkKind.PARALLEL_OK}
        before |= {child.place.id for child in self._index.children(key)}
        return before | self._added.get(task, set())

    def refuse_unknown(self, task: str) -> None:
        if task not in self.new and self._index.entry((self._scope, task)) is None:
            raise NotFound(f"There is no task '{task}' in {self._scope}.")

    def add(self, task: str, on: str) -> None:
        """Let `task` come after `on`, unless that closes a cycle, which is named."""
        way_back = path_between(self, on, task)  # type: ignore[arg-type]  # it only ever asks for single tasks
        if way_back is not None:
            raise CycleDetected([task, *way_back])
        self._added.setdefault(task, set()).add(on)


class Asked:
    """Links that are to be added, each checked against all before it, written down only when all are found good."""

    def __init__(self, tx: Alone, scope: str, before: Before) -> None:
        self._tx = tx
        self._scope = scope
        self._before = before
        self._by_task: dict[str, dict[str, Link]] = {}
        self.changed: list[Link] = []

    def add(self, link: Link) -> None:
        for end in (link.task, link.on):
            self._before.refuse_unknown(end)
        known = self.of(link.task).get(link.on)
        if known is not None and STRENGTH[known.kind] >= STRENGTH[link.kind]:
            return
        if link.kind is not LinkKind.PARALLEL_OK:
            self._before.add(link.task, link.on)
        self.of(link.task)[link.on] = link
        self.changed.append(link)

    def of(self, task: str) -> dict[str, Link]:
        """A task's links by where they lead, with those that are being added."""
        if task not in self._by_task:
            entry = self._tx.index.entry((self._scope, task))
            known = entry.reading.links if entry and entry.reading else ()
            self._by_task[task] = {link.on: link for link in known}
        return self._by_task[task]

    def write(self, by: Actor) -> None:
        for task in dict.fromkeys(link.task for link in self.changed):
            if task not in self._before.new:
                write_links(self._tx, self._scope, task, tuple(self.of(task).values()))
        for link in self.changed:
            detail = {"on": link.on, "kind": link.kind.value, "detected_by": link.detected_by}
            self._tx.record(
                Event(self._tx.now, self._scope, link.task, "link", agent=by.agent, run=by.run, detail=detail)
            )


def link(tx: Alone, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
    asked = Asked(tx, scope, Before(tx.index, scope))
    for one in links:
        asked.add(one)
    asked.write(by)
    return asked.changed


def unlink(tx: Alone, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
    """Take links out; if one of them is not there, none is touched."""
    left: dict[str, list[Link]] = {}
    found = []
    for asked in links:
        entry = tx.entry(scope, asked.task)
        tx.entry(scope, asked.on)
        own = left.setdefault(asked.task, list(entry.reading.links) if entry.reading else [])
        match = [known for known in own if known.on == asked.on and known.kind is asked.kind]
        if not match:
            raise NotFound(
                f"There is no '{asked.kind}' link from {asked.task} to {asked.on}; 'dibs show' lists its links."
            )
        own.remove(match[0])
        found.append(match[0])
    for task, kept in left.items():
        write_links(tx, scope, task, tuple(kept))
    for gone in found:
        detail = {"on": gone.on, "kind": gone.kind.value}
        tx.record(Event(tx.now, scope, gone.task, "unlink", agent=by.agent, run=by.run, detail=detail))
    return found


def write_links(tx: Alone, scope: str, task: str, links: tuple[Link, ...]) -> None:
    def act() -> None:
        entry = tx.entry(scope, task)
        if entry.reading is not None:
            rewrite(tx, entry, entry.reading.task, links)

    tx.settled(act)


def add(tx: Alone, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor) -> list[Task]:
    """Check everything, then write a file for each task; what was there already is linked last."""
    places.scope_folder(scope)
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
    places.file_name(draft.id)
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
        tx.record(events.edited(task, changes, by, tx.now, edit.why))
        return tx.task(scope, task_id)

    return tx.settled(act)


def _refuse_edit(tx: Alone, task: Task, edit: Edit) -> None:
    if isinstance(edit.description, str):
        reading.refuse_marker(edit.description)
    if isinstance(edit.parent, str) and edit.parent != task.parent:
        before = Before(tx.index, task.scope)
        before.refuse_unknown(edit.parent)
        before.add(edit.parent, task.id)
