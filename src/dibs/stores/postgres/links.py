"""Links between tasks, and why they never form a cycle.

Whoever changes how the tasks of a scope hang together first takes the scope's lock, in a statement of its own. The next
statement sees everything that was committed while that one waited, so looking for a way back and adding the link cannot
be overtaken by another writer. Different scopes have different locks, and claims and finishes take none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import NotFound
from dibs.core.events import Event
from dibs.core.task import STRENGTH, Link, LinkKind
from dibs.stores.postgres.bulk import array
from dibs.stores.postgres.intake import Intake
from dibs.stores.postgres.rows import link_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Actor
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.transaction import Transaction


def link(database: Database, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    """Add links; those that change anything are returned. A single one is one call, in the plain case."""
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
    """Take in those that are new or stronger than what is there, judged one after the other. Both ends must be there,
    or among the new ones."""
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
    """Remove links, all or none; as they were is what is returned."""
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
