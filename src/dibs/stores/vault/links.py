"""Links, which stand in the file of the task that waits, and why they never form a cycle.

Only one process writes at a time, so looking for a way back and then writing the link cannot be overtaken by another.
A person may write any cycle into the files; a check tells of it, and nothing here walks in circles over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.graph import path_between
from dibs.core.task import STRENGTH, LinkKind
from dibs.stores.vault.writing import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.task import Actor, Link
    from dibs.stores.vault.index import Index
    from dibs.stores.vault.turns import Alone


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
