"""Add, find, edit, link and move tasks.

A link is in the file of the dependent task. Only one process writes at a time, so no other process can write between a
search for a cycle and the write that follows. A person may write a cycle into the files; `check` reports it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import AlreadyExists, CycleDetected, DibsError, LostLock, NotFound
from dibs.core.events import Event, Outcome
from dibs.core.graph import path_between
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.task import STRENGTH, TERMINAL, LinkKind, Status, Task, page
from dibs.stores.port import EventQuery, Moved
from dibs.stores.vault import places, reading
from dibs.stores.vault.claims import up_for_work
from dibs.stores.vault.page import completion_note
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.writing import create, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.port import Query
    from dibs.stores.vault.index import Entry, Index
    from dibs.stores.vault.writing import Alone, Turn


class Prerequisites:
    """The prerequisites of each task: those in the files and those about to be added."""

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
        """Make `task` depend on `on`; CycleDetected if that closes a cycle."""
        way_back = path_between(self, on, task)  # type: ignore[arg-type]  # it only ever asks for single tasks
        if way_back is not None:
            raise CycleDetected([task, *way_back])
        self._added.setdefault(task, set()).add(on)


class NewLinks:
    """Links to add. Each is checked against all before it; they are written when all are valid."""

    def __init__(self, tx: Alone, scope: str, before: Prerequisites) -> None:
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
        """A task's links by prerequisite, with those being added."""
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
    asked = NewLinks(tx, scope, Prerequisites(tx.index, scope))
    for one in links:
        asked.add(one)
    asked.write(by)
    return asked.changed


def unlink(tx: Alone, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
    """Remove links; if one of them does not exist, none is removed."""
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
    """Check everything, then write a file for each task; links of existing tasks come last."""
    places.scope_folder(scope)
    before = Prerequisites(tx.index, scope)
    for draft in drafts:
        _refuse(tx, scope, draft, before)
    for draft in drafts:
        if draft.parent is not None:
            before.refuse_unknown(draft.parent)
            before.add(draft.parent, draft.id)
    asked = NewLinks(tx, scope, before)
    for link in links:
        asked.add(link)
    for draft in drafts:
        task = Task(scope=scope, created_at=tx.now, updated_at=tx.now, queued_at=tx.now, **draft._asdict())
        create(tx, task, tuple(asked.of(draft.id).values()))
        tx.record(Event(tx.now, scope, draft.id, "add", agent=by.agent, run=by.run, target=draft.status))
    asked.write(by)
    return [tx.task(scope, draft.id) for draft in drafts]


def _refuse(tx: Alone, scope: str, draft: Draft, before: Prerequisites) -> None:
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
    """Change an unfinished task. An edit without changes is not recorded."""
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
        before = Prerequisites(tx.index, task.scope)
        before.refuse_unknown(edit.parent)
        before.add(edit.parent, task.id)


def move(tx: Alone, given: Move, on_cancel: CanceledBlocker) -> Moved:
    """Apply one move; a refusal is on record."""
    asked = given if given.token is None else given._replace(token=sealed(given.token))
    return tx.settled(lambda: _move(tx, asked, on_cancel))


def _move(tx: Alone, asked: Move, on_cancel: CanceledBlocker) -> Moved:
    entry = _entry(tx, asked)
    task = tx.task(asked.scope, asked.id)
    try:
        _refuse_overruled(entry, asked)
        after = lifecycle.moved(task, asked, tx.now)
        if after.status is Status.DONE and after is not task:
            _refuse_open_children(tx, task)
    except DibsError as error:
        if asked.verb is not Verb.RENEW or isinstance(error, LostLock):
            because = _by_someone(entry, asked)
            tx.record(events.move_refused(task, asked, error, tx.now, {"because": because} if because else None))
        raise
    if after is task:
        return Moved(task, repeated=True)
    done = Consequences()
    _write(tx, entry, task, after, asked, done)
    if after.status is Status.CANCELED:
        _draw_along(tx, after, asked.by, on_cancel, done)
    moved = tx.task(asked.scope, asked.id)
    return Moved(moved, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def _entry(tx: Alone, asked: Move) -> Entry:
    """The task's file. One that is gone while its holder speaks for it was deleted by someone."""
    try:
        return tx.entry(asked.scope, asked.id)
    except NotFound:
        if asked.token is None or not tx.vault.log.read(EventQuery(asked.scope, asked.id, last=1)):
            raise
        error = LostLock(
            f"{asked.id} was deleted by someone while you held it. Nothing was changed; stop working on it."
        )
        by = asked.by
        tx.record(
            Event(
                tx.now, asked.scope, asked.id, asked.verb, Outcome.LOST, by.agent, by.run,
                reason=error.code, detail={"because": "deleted"},
            )
        )  # fmt: skip
        raise error from None


def _by_someone(entry: Entry, asked: Move) -> str | None:
    """What a person has done to a file whose claim this token proves: they have the last word."""
    known = entry.reading
    if known is None or asked.token is None or known.proof != asked.token:
        return None
    if known.by_hand:
        return f"moved to {entry.path.rpartition('/')[0]}"
    return "edited" if known.edited else None


def _refuse_overruled(entry: Entry, asked: Move) -> None:
    what = _by_someone(entry, asked)
    if what is not None:
        raise LostLock(f"{asked.id} was {what} by someone while you held it. Nothing was changed; stop working on it.")


def _write(tx: Alone, entry: Entry, task: Task, after: Task, asked: Move, done: Consequences) -> None:
    rewrite(tx, entry, after, note=completion_note(task, after))
    if asked.verb is not Verb.RENEW:
        tx.record(events.moved(task, after, asked))
    if after.finished and not task.finished:
        done.unblocked += [
            link.task
            for link in tx.index.dependents((task.scope, task.id))
            if link.kind is LinkKind.BLOCKS and _ready_now(tx, task.scope, link.task)
        ]


def _ready_now(tx: Alone, scope: str, task_id: str) -> bool:
    entry = tx.index.entry((scope, task_id))
    return entry is not None and entry.reading is not None and up_for_work(tx, tx.task(scope, task_id))


def _draw_along(tx: Alone, canceled: Task, by: Actor, on_cancel: CanceledBlocker, done: Consequences) -> None:
    """Unblock, escalate or cancel the dependents of a canceled task, level by level."""
    verb = lifecycle.pull(on_cancel)
    waves = [canceled.id]
    while waves and verb is not None:
        gone = waves.pop()
        for link in tx.index.dependents((canceled.scope, gone)):
            if link.kind is not LinkKind.BLOCKS:
                continue
            asked = lifecycle.going_along(link.task, canceled.scope, verb, gone, by)
            if tx.settled(partial(_draw, tx, asked, done)):
                done.drawn(verb, link.task)
                if verb is Verb.CANCEL:
                    waves.append(link.task)
    done.settle()


def _draw(tx: Alone, asked: Move, done: Consequences) -> bool:
    try:
        entry = tx.entry(asked.scope, asked.id)
    except DibsError:
        return False  # deleted or unreadable: `check` reports it
    task = tx.task(asked.scope, asked.id)
    if not lifecycle.goes_along(task, asked.verb):
        return False
    _write(tx, entry, task, lifecycle.moved(task, asked, tx.now), asked, done)
    return True


def _refuse_open_children(tx: Alone, task: Task) -> None:
    open_ones = [child.place.id for child in tx.index.children((task.scope, task.id)) if not child.place.finished]
    lifecycle.refuse_unfinished(task, open_ones[:5])
