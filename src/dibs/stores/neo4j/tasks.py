"""Add, find and edit tasks and links.

Writers hold the lock of the scope, so no other writer can add a link between the search for a cycle and the commit.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from dibs.core import events
from dibs.core.errors import AlreadyExists, CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.graph import find_cycle
from dibs.core.task import STRENGTH, Link, LinkKind, Status, Task, is_internal
from dibs.stores.neo4j.rows import (
    difference,
    filter_map,
    kind_of,
    link_from,
    link_values,
    moment_from,
    order_text,
    properties_of,
    schedule_of,
    task_from,
)
from dibs.stores.reports import Timed, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.fleet import Quota
    from dibs.core.task import Actor, Draft, Edit, Link
    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction
    from dibs.stores.port import Query
    from dibs.stores.reports import Counts


MANY = 2**31  # for queries without a limit


def add(tx: Transaction, scope: str, drafts: Sequence[Draft], given: Sequence[Link], by: Actor) -> list[Task]:
    """Insert tasks, then their links. Parents may be among them in any order."""
    insert(tx, scope, drafts, by)
    edges = [(draft.parent, draft.id) for draft in drafts if draft.parent is not None]
    gone = missing(tx, scope, [parent for parent, _ in edges])
    sound = list(takewhile(lambda edge: edge[0] not in gone, edges))
    put_parents(tx, scope, sound)
    refuse_cycles(tx, scope, sound)
    if len(sound) < len(edges):
        raise not_found(scope, edges[len(sound)][0])
    link(tx, scope, given, by)
    return named(tx, scope, [draft.id for draft in drafts])


def named(tx: Transaction, scope: str, ids: list[str]) -> list[Task]:
    found = {row["task"]["id"]: task_from(row["task"]) for row in tx.all("tasks_named", scope=scope, ids=ids)}
    return [found[each] for each in ids]


def keep_to(tx: Transaction, scope: str, quota: Quota, wanted: int) -> None:
    """Raise if the quota would be exceeded. The scope is locked."""
    from dibs.core.fleet import refuse_more

    rows = tx.all("added_since", scope=scope, since=tx.now - quota.within)
    refuse_more(quota, [moment_from(row["at"]) for row in rows], wanted, tx.now)


def insert(tx: Transaction, scope: str, drafts: Sequence[Draft], by: Actor) -> None:
    write_new(tx, scope, [new_task(tx, scope, draft) for draft in drafts])
    for draft in drafts:
        tx.record(Event(tx.now, scope, draft.id, "add", agent=by.agent, run=by.run, target=draft.status))


def new_task(tx: Transaction, scope: str, draft: Draft) -> Task:
    stated = draft._asdict()
    return Task(scope=scope, created_at=tx.now, updated_at=tx.now, queued_at=tx.now, **stated)


def write_new(tx: Transaction, scope: str, new: Sequence[Task]) -> None:
    """Raise AlreadyExists for a known id. The scope is locked."""
    ids = [task.id for task in new]
    known = set(ids) - missing(tx, scope, ids)
    for task in new:
        if task.id in known:
            raise taken(scope, task.id)
        known.add(task.id)
    own = {"desk": tx.desk, "blockers": 0}
    tx.all(
        "add_tasks", kind=kind_of(scope), tasks=[properties_of(task) | schedule_of(task, tx.now) | own for task in new]
    )


def taken(scope: str, task: str) -> AlreadyExists:
    return AlreadyExists(f"There is a task '{task}' in {scope} already; 'dibs edit' changes it.")


def put_parents(tx: Transaction, scope: str, edges: Sequence[tuple[str, str]]) -> None:
    """Each edge is a parent and its child."""
    if not edges:
        return
    require(tx, scope, [parent for parent, _ in edges])
    tx.all("put_parents", scope=scope, pairs=[list(edge) for edge in edges])


def require(tx: Transaction, scope: str, ids: Iterable[str]) -> None:
    """Raise NotFound for the first missing one."""
    wanted = list(ids)
    gone = missing(tx, scope, wanted)
    for each in wanted:
        if each in gone:
            raise not_found(scope, each)


def missing(tx: Transaction, scope: str, ids: Iterable[str]) -> set[str]:
    wanted = set(ids)
    return wanted - {row["id"] for row in tx.all("known_ids", scope=scope, ids=sorted(wanted))}


def not_found(scope: str, task: str) -> NotFound:
    return NotFound(f"There is no task '{task}' in {scope}.")


def get(tx: Transaction, scope: str, task_id: str) -> Task:
    row = tx.one("task_by_id", scope=scope, id=task_id)
    if row is None:
        raise not_found(scope, task_id)
    return task_from(row["task"])


def scopes(tx: Transaction, scope: str | None) -> list[str]:
    return [row["name"] for row in tx.all("scopes")] if scope is None else [scope]


def listed_scopes(tx: Transaction, scope: str | None) -> list[str]:
    """The given scope, or all scopes with work."""
    return [name for name in scopes(tx, None) if not is_internal(name)] if scope is None else [scope]


def find(tx: Transaction, query: Query) -> list[Task]:
    asked = query._asdict() | {
        "scopes": listed_scopes(tx, query.scope),
        "statuses": [str(status) for status in query.statuses],
        "limit": MANY if query.limit is None else query.limit,
        "after": "" if query.after is None else order_text(query.after),
        "only": filter_map(query.only),
    }
    return [task_from(row["task"]) for row in tx.all("find", **asked)]


def counts(tx: Transaction, scope: str | None) -> Counts:
    """Count from indexes, except for leased and deferred tasks.

    The statements see different moments, so a task that moves between them may be counted twice, or as waiting.
    """
    asked: dict[str, Any] = {"scopes": listed_scopes(tx, scope), "statuses": [str(status) for status in Status]}
    resting = {row["status"]: row["number"] for row in tx.all("count_by_status", **asked)}
    (opened,), (woken,) = tx.all("count_open", **asked), tx.all("count_woken", **asked)
    timed = {row["status"]: _timed(row) for row in tx.all("count_timed", now=tx.now, **asked)}
    for status, figures in timed.items():
        resting[status] = resting.get(status, 0) - figures.number
    resting[Status.ACTIVE] = resting.get(Status.ACTIVE, 0) - woken["number"]
    resting[Status.READY] = resting.get(Status.READY, 0) - opened["number"] + woken["number"]
    at_rest = {status: max(0, number) for status, number in resting.items()}
    return counted(at_rest, opened["number"], woken["number"], timed)


def _timed(row: Row) -> Timed:
    next_due = None if row["next_due"] is None else moment_from(row["next_due"])
    return Timed(row["number"], row["gated"], row["due"], row["later"], next_due)


def amend(tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """Change an unfinished task. Without a difference, no event is written."""
    task = rewrite(tx, scope, task_id, edit, by)
    if isinstance(edit.parent, str):
        refuse_cycles(tx, scope, [(edit.parent, task_id)])
    return task


def rewrite(tx: Transaction, scope: str, task_id: str, edit: Edit, by: Actor) -> Task:
    """The same without a check for cycles, which a plan does once, at the end."""
    task = get(tx, scope, task_id)
    changes = edit.accepted(task)
    if not changes:
        return task
    after = task._replace(updated_at=tx.now, **changes)  # type: ignore[arg-type]  # an Edit's fields are a Task's
    write(tx, task, after)
    if "parent" in changes:
        tx.all("drop_parent", scope=scope, id=task_id)
        put_parents(tx, scope, [(after.parent, task_id)] if after.parent is not None else [])
    tx.record(events.edited(task, changes, by, tx.now, edit.why))
    return after


def write(tx: Transaction, task: Task, after: Task) -> None:
    tx.write(task.scope, task.id, difference(task, after, tx.now))


# For more new edges, one read of the whole graph is cheaper than a search per edge.
_WALKED_EDGES = 8


def link(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    """Add links and return those that changed the graph. Of two between the same tasks, the stronger counts.

    Errors are the same as if the links came one by one.
    """
    if not asked:
        return []
    gone = missing(tx, scope, [end for each in asked for end in (each.task, each.on)])
    sound = list(takewhile(lambda each: not gone.intersection((each.task, each.on)), asked))
    known = {pair: each.kind for pair, each in _between(tx, scope, sound).items()}
    changed = []
    for each in sound:
        pair = each.task, each.on
        if pair not in known or STRENGTH[known[pair]] < STRENGTH[each.kind]:
            known[pair] = each.kind
            changed.append(each)
    put(tx, scope, changed, by)
    refuse_cycles(tx, scope, [(each.task, each.on) for each in changed if each.kind is not LinkKind.PARALLEL_OK])
    if len(sound) < len(asked):
        first = asked[len(sound)]
        raise not_found(scope, first.task if first.task in gone else first.on)
    return changed


def put(tx: Transaction, scope: str, new: Sequence[Link], by: Actor) -> None:
    """Write or replace links, and update the counts of blockers. The caller checks for cycles."""
    if not new:
        return
    tx.all("put_links", scope=scope, now=tx.now, links=[link_values(each) for each in new])
    _recount(tx, scope, new)
    for each in new:
        detail = {"on": each.on, "kind": str(each.kind), "detected_by": each.detected_by}
        tx.record(Event(tx.now, scope, each.task, "link", agent=by.agent, run=by.run, detail=detail))


def unlink(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    require(tx, scope, [end for each in asked for end in (each.task, each.on)])
    known = _between(tx, scope, asked)
    dropped = []
    for each in asked:
        there = known.pop((each.task, each.on), None)
        if there is None or there.kind is not each.kind:
            raise NotFound(
                f"There is no '{each.kind}' link from {each.task} to {each.on}; 'dibs show' lists its links."
            )
        dropped.append(there)
        detail = {"on": each.on, "kind": str(there.kind)}
        tx.record(Event(tx.now, scope, each.task, "unlink", agent=by.agent, run=by.run, detail=detail))
    tx.all("drop_links", scope=scope, pairs=_pairs(dropped))
    _recount(tx, scope, dropped)
    return dropped


def _recount(tx: Transaction, scope: str, changed: Iterable[Link]) -> None:
    tx.all("recount", scope=scope, ids=sorted({each.task for each in changed}))


def _between(tx: Transaction, scope: str, asked: Iterable[Link]) -> dict[tuple[str, str], Link]:
    found = [link_from(row) for row in tx.all("links_between", scope=scope, pairs=_pairs(asked))]
    return {(each.task, each.on): each for each in found}


def _pairs(links: Iterable[Link]) -> list[list[str]]:
    return [[each.task, each.on] for each in links]


def refuse_cycles(tx: Transaction, scope: str, edges: Sequence[tuple[str, str]]) -> None:
    """Raise CycleDetected with the path, if one of these edges, already written, closes a cycle."""
    if len(edges) > _WALKED_EDGES:
        refuse_any_cycle(tx, scope)
        return
    for after, before in edges:
        if after == before:
            raise CycleDetected([after, after])
        row = tx.one("way_back", scope=scope, start=before, goal=after)
        if row is not None:
            raise CycleDetected([after, *row["ids"]])


def refuse_any_cycle(tx: Transaction, scope: str) -> None:
    """The same for all edges of a scope, read at once."""
    before: dict[str, list[str]] = {}
    for row in tx.all("edges_in_scope", scope=scope):
        before.setdefault(row["task"], []).append(row["on"])
        before.setdefault(row["on"], [])
    cycle = find_cycle(before)
    if cycle is not None:
        raise CycleDetected(cycle)
