"""Add tasks and links, and refuse cycles.

A transaction that adds a link or a parent first takes the scope's lock, in a separate statement. The next statement
sees everything that was committed during the wait, so the search for cycles misses no link. Each scope has its own
lock. Claims and finishes take none.

Tasks, links and their events are gathered and then written in few statements. The effect of links on their tasks is
computed here, where both are known, so that a new task is written once.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import TYPE_CHECKING

import psycopg2

from dibs.core.errors import AlreadyExists, CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.task import STRENGTH, TERMINAL, Link, LinkKind
from dibs.stores.postgres.rows import Flags, array, copy_field, copy_line, new_values
from dibs.stores.sql import link_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.core.errors import DibsError
    from dibs.core.task import Actor, Link, Task
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.transaction import Transaction

_UNIQUE_VIOLATION = "23505"

# Up to so many new edges are walked one by one; more, and reading the whole graph once is cheaper.
_WALKED_EDGES = 200


class End:
    """A task at either end of a link: its state before, and the changes to write."""

    def __init__(self, key: int, *, finished: bool, last_event: int | None, new: bool) -> None:
        self.key = key
        self.finished = finished
        self.last_event = last_event
        self.new = new
        self.change = 0  # of its count of blockers
        self.touched = False
        self.prerequisites = self.dependents = self.children = False  # flags to set

    @property
    def flags(self) -> Flags:
        return Flags(self.prerequisites, self.dependents, self.children)


class Intake:
    """New tasks and links of one scope. Adding links or parents requires the scope's lock.

    `trouble` is the error of the first rejected item. `write` raises it unless an earlier item fails.
    """

    def __init__(self, tx: Transaction, scope: str, by: Actor, digests: Mapping[str, int] | None = None) -> None:
        self._tx = tx
        self._scope = scope
        self._by = by
        self._digests = digests or {}
        self._tasks: list[Task] = []
        self._links: list[Link] = []
        self.trouble: DibsError | None = None

    def tasks(self, tasks: Iterable[Task]) -> None:
        self._tasks += tasks

    def links(self, links: Iterable[Link]) -> None:
        """Replace any link between the same two tasks. The caller checks that the change is allowed."""
        self._links += links

    def write(self) -> None:
        """Write everything. Raises CycleDetected for a cycle through it."""
        if self._tasks or self._links:
            self._write()
        if self.trouble is not None:
            raise self.trouble

    def _write(self) -> None:
        refuse_taken(self._tx, self._scope, self._tasks)
        ends = self._new_ends()
        self._share_parents(ends)
        self._old_ends(ends)
        self._flag(ends)
        events = self._events(ends)
        if self._links:
            self._count(ends)
        self._write_tasks(ends)
        if events:
            self._tx.copy("copy_events", events)
        if self._links:
            self._write_links(ends)
        self._refuse_cycles(ends)

    def _new_ends(self) -> dict[str, End]:
        keys = reserve(self._tx, "reserve_keys", len(self._tasks))
        return {
            task.id: End(key, finished=task.status in TERMINAL, last_event=None, new=True)
            for key, task in zip(keys, self._tasks, strict=True)
        }

    def _share_parents(self, ends: dict[str, End]) -> None:
        """Lock the parents' rows, so that no parent finishes while it gets a child."""
        wanted = sorted({task.parent for task in self._tasks if task.parent is not None and task.parent not in ends})
        found = {row[0]: row for row in self._tx.all("share_tasks", (self._scope, array(wanted)))} if wanted else {}
        ends |= {parent: _end(row) for parent, row in found.items()}
        for task in self._tasks:
            if task.parent is not None and task.parent not in ends:
                self.trouble = NotFound(f"There is no task '{task.parent}' in {self._scope}.")
                self._links.clear()
                break

    def _old_ends(self, ends: dict[str, End]) -> None:
        """Lock the prerequisites (shared, so that none finishes), then their dependents (to be written).

        A finish locks in the same order: first the task, then its dependents.
        """
        new = {task.id for task in self._tasks}
        before = sorted({link.on for link in self._links} - new)
        after = sorted({link.task for link in self._links} - new)
        for query, ids in (("share_tasks", before), ("lock_ends", after)):
            if ids:
                ends |= {row[0]: _end(row) for row in self._tx.all(query, (self._scope, array(ids)))}
        for task_id in (*after, *before):
            if task_id not in ends:
                raise NotFound(f"There is no task '{task_id}' in {self._scope}.")

    def _flag(self, ends: dict[str, End]) -> None:
        """Mark the ends of links, and parents. Existing tasks are already locked."""
        for link in self._links:
            ends[link.task].prerequisites |= link.kind is not LinkKind.PARALLEL_OK
            ends[link.on].dependents |= link.kind is LinkKind.BLOCKS
        for task in self._tasks:
            if task.parent in ends:
                ends[task.parent].children = True
        there = {task: end for task, end in ends.items() if not end.new}
        parents = [task for task, end in there.items() if end.children]
        if parents:
            self._tx.run("flag_parents", (self._scope, array(parents)))
        prerequisites = [end.key for end in there.values() if end.dependents]
        if prerequisites:
            self._tx.run("flag_prerequisites", (array(prerequisites),))

    def _events(self, ends: dict[str, End]) -> list[str]:
        """The events as lines to copy, each knowing the one before it about the same task."""
        by = self._by
        before = f"{self._tx.now.isoformat()}\t{copy_field(self._scope)}"
        who = f"ok\t{copy_field(by.agent)}\t{copy_field(by.run)}\t\\N\t\\N"
        told = [(task.id, f"add\t{who}\t{task.status}\t\\N\t\\N") for task in self._tasks]
        told += [(link.task, f"link\t{who}\t\\N\t\\N\t{_detail(link)}") for link in self._links]
        lines = []
        for seq, (task_id, what) in zip(reserve(self._tx, "reserve_events", len(told)), told, strict=True):
            end = ends[task_id]
            previous = "\\N" if end.last_event is None else end.last_event
            lines.append(f"{seq}\t{before}\t{copy_field(task_id)}\t{what}\t{previous}\n")
            end.last_event, end.touched = seq, True
        return lines

    def _count(self, ends: dict[str, End]) -> None:
        """How many more or fewer unfinished prerequisites each task has."""
        pairs = {(ends[link.task].key, ends[link.on].key): link for link in self._links}
        old = {pair: link for pair, link in pairs.items() if not ends[link.task].new}
        gated = {(row[0], row[1]) for row in self._between(old) if row[2] == LinkKind.BLOCKS} if old else set()
        for pair, link in pairs.items():
            if not ends[link.on].finished:
                ends[link.task].change += (link.kind is LinkKind.BLOCKS) - (pair in gated)

    def _between(self, pairs: Mapping[tuple[int, int], Link]) -> list[tuple[int, int, str]]:
        asked = (array(task for task, _ in pairs), array(on for _, on in pairs))
        return [(task, on, kind) for task, on, kind in self._tx.all("links_between", asked)]

    def _write_tasks(self, ends: dict[str, End]) -> None:
        if not self._tasks:
            return
        now = self._tx.now
        lines = (
            copy_line(
                new_values(
                    ends[task.id].key,
                    task._replace(blockers=ends[task.id].change),
                    now,
                    ends[task.id].last_event,
                    self._digests.get(task.id),
                    ends[task.id].flags,
                )
            )
            for task in self._tasks
        )
        copy_tasks(self._tx, self._scope, lines)

    def _write_links(self, ends: dict[str, End]) -> None:
        fresh = [link for link in self._links if ends[link.task].new]
        if fresh:
            copy_links(self._tx, {(ends[link.task].key, ends[link.on].key): link for link in fresh})
        if len(fresh) < len(self._links):
            known = (link for link in self._links if not ends[link.task].new)
            put_links(self._tx, [(ends[link.task].key, ends[link.on].key, link) for link in known])
        old = {task: end for task, end in ends.items() if end.touched and not end.new}
        if old:
            rows = [
                (end.key, end.change, end.prerequisites, end.last_event, self._digests.get(task))
                for task, end in old.items()
            ]
            self._tx.run("count_links", tuple(array(column) for column in zip(*rows, strict=True)))

    def _refuse_cycles(self, ends: dict[str, End]) -> None:
        edges = [
            (ends[link.task].key, ends[link.on].key) for link in self._links if link.kind is not LinkKind.PARALLEL_OK
        ]
        for task in self._tasks:
            if task.parent is not None:
                if task.parent not in ends:
                    break
                edges.append((ends[task.parent].key, ends[task.id].key))
        refuse_cycles(self._tx, self._scope, edges)


def _detail(link: Link) -> str:
    """A link as an event's detail, for COPY. Formatted by hand: a plan may have hundreds of thousands of links."""
    on, detected_by = encode_basestring(link.on), encode_basestring(link.detected_by)
    return copy_field(f'{{"on":{on},"kind":"{link.kind}","detected_by":{detected_by}}}')


def _end(row: Sequence[object]) -> End:
    _, key, finished, last_event = row
    return End(key, finished=bool(finished), last_event=last_event, new=False)  # type: ignore[arg-type]


def reserve(tx: Transaction, query: str, number: int) -> list[int]:
    return [row[0] for row in tx.all(query, (number,))] if number else []


def refuse_taken(tx: Transaction, scope: str, tasks: Sequence[Task]) -> None:
    ids = [task.id for task in tasks]
    taken = tx.value("taken_ids", (scope, array(ids))) if ids else None
    if taken is None and len(set(ids)) < len(ids):
        taken = next(one for place, one in enumerate(ids) if one in ids[:place])
    if taken is not None:
        raise _taken(scope, taken)


def copy_tasks(tx: Transaction, scope: str, lines: Iterable[str]) -> None:
    try:
        tx.copy("copy_tasks", lines)
    except psycopg2.Error as error:  # another writer inserted the id after our check
        if error.pgcode != _UNIQUE_VIOLATION:
            raise
        raise _taken(scope, "of these ids") from None


def _taken(scope: str, task_id: str) -> AlreadyExists:
    return AlreadyExists(f"There is a task '{task_id}' in {scope} already; 'dibs edit' changes it.")


def copy_links(tx: Transaction, links: Mapping[tuple[int, int], Link]) -> None:
    """Insert links of new tasks, which cannot have links yet."""
    tx.copy(
        "copy_links",
        (
            f"{task}\t{on}\t{link.kind}\t{link.weight!r}\t{copy_field(link.detected_by)}\t{link.confidence!r}\n"
            for (task, on), link in links.items()
        ),
    )


def put_links(tx: Transaction, links: Iterable[tuple[int, int, Link]]) -> None:
    """Write links. The last link between the same two tasks wins."""
    final = {
        (task, on): (task, on, link.kind.value, link.weight, link.detected_by, link.confidence)
        for task, on, link in links
    }
    tx.run("put_links", tuple(array(column) for column in zip(*final.values(), strict=True)))


def refuse_cycles(tx: Transaction, scope: str, edges: Sequence[tuple[int, int]]) -> None:
    """Raise CycleDetected with the cycle if one of these edges (dependent, prerequisite) is part of one."""
    if len(edges) > _WALKED_EDGES:
        refuse_any_cycle(tx, scope)
    elif edges:
        row = tx.one("ways_round", (array(later for later, _ in edges), array(first for _, first in edges)))
        if row is not None:
            raise CycleDetected(_way_round(tx, *row))


def refuse_any_cycle(tx: Transaction, scope: str) -> None:
    """Search a whole scope for cycles: cheaper than a walk per link for thousands of links."""
    from dibs.core.graph import cycle_among

    cycle: list[int] | None = cycle_among(tx.all("edges_in_scope", {"scope": scope}))
    if cycle is not None:
        raise CycleDetected(_names(tx, cycle))


def _way_round(tx: Transaction, later: int, first: int, side: str) -> list[str]:
    """The ids on the shortest cycle through `first` and `later`, found among the edges that the search walked."""
    if later == first:
        return _names(tx, [later, later])
    start, goal = (later, first) if side == "after" else (first, later)
    steps: dict[int, list[int]] = {}
    for here, there in tx.all(f"edges_{side}", {"key": start}):
        steps.setdefault(here, []).append(there)
    came_from: dict[int, int | None] = {start: None}
    front = [start]
    while goal not in came_from:
        fresh = [(here, there) for here in front for there in steps.get(here, ()) if there not in came_from]
        came_from |= {there: here for here, there in fresh}
        front = list({there: None for _, there in fresh})
    trail: list[int] = []
    step: int | None = goal
    while step is not None:
        trail.append(step)
        step = came_from[step]
    return _names(tx, [later, *trail] if side == "after" else [later, *trail[::-1]])


def _names(tx: Transaction, keys: list[int]) -> list[str]:
    names: dict[int, str] = dict(tx.all("ids_of", (array(keys),)))
    return [names[key] for key in keys]


def link(database: Database, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    """Add links and return those that changed anything. One plain link needs one call."""
    if len(asked) == 1:
        added = database.call("add_link", (scope, *_values(asked[0]), by.agent, by.run))
        if added == [(True,)] or (added is None and _is_there(database, scope, asked[0])):
            return list(asked)
    return database.write(lambda tx: _link(tx, scope, asked, by))


def _values(one: Link) -> tuple[object, ...]:
    return (one.task, one.on, one.kind.value, one.weight, one.detected_by, one.confidence)


def _is_there(database: Database, scope: str, one: Link) -> bool:
    """Whether a link whose answer was lost has been added."""
    found = database.rows("links_from", {"scope": scope, "ids": [one.task]})
    return one in [link_from(row) for row in found]


def _link(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    tx.lock_scope(scope)
    intake = Intake(tx, scope, by)
    fresh = gather(tx, scope, asked, intake, set())
    intake.write()
    return fresh


def gather(tx: Transaction, scope: str, asked: Sequence[Link], intake: Intake, new: set[str]) -> list[Link]:
    """Take the links that are new or stronger than the existing ones, in order. Both ends must exist or be new."""
    if not asked:
        return []
    named = sorted({end for link in asked for end in (link.task, link.on)} - new)
    there = {row[0] for row in tx.all("ids_among", (scope, array(named)))} | new
    sources = array(sorted({link.task for link in asked} - new))
    known = {(row[0], row[1]): LinkKind(row[2]) for row in tx.all("links_from", {"scope": scope, "ids": sources})}
    fresh = []
    for wanted in asked:
        missing = [end for end in (wanted.task, wanted.on) if end not in there]
        if missing:
            intake.trouble = NotFound(f"There is no task '{missing[0]}' in {scope}.")
            break
        before = known.get((wanted.task, wanted.on))
        if before is None or STRENGTH[wanted.kind] > STRENGTH[before]:
            known[wanted.task, wanted.on] = wanted.kind
            fresh.append(wanted)
    intake.links(fresh)
    return fresh


def unlink(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    """Remove links, all or none, and return the removed links."""
    tx.lock_scope(scope)
    dropped = [drop(tx, scope, one, by) for one in asked]
    if dropped:
        tx.hint()
    return dropped


def drop(tx: Transaction, scope: str, asked: Link, by: Actor) -> Link:
    """Remove one link. The caller holds the scope's lock."""
    on = tx.one("share_tasks", (scope, [asked.on]))
    task = tx.one("lock_ends", (scope, [asked.task]))
    if task is None or on is None:
        raise NotFound(f"There is no task '{asked.task if task is None else asked.on}' in {scope}.")
    row = tx.one("drop_link", (task[1], on[1], str(asked.kind)))
    if row is None:
        raise NotFound(f"There is no '{asked.kind}' link from {asked.task} to {asked.on}; 'dibs show' lists its links.")
    change = -1 if row[0] == LinkKind.BLOCKS and not on[2] else 0
    detail = {"on": asked.on, "kind": row[0]}
    tx.record(Event(tx.now, scope, asked.task, "unlink", agent=by.agent, run=by.run, detail=detail))
    tx.run("ungate", (change, change, task[1]))
    return link_from((asked.task, asked.on, *row))
