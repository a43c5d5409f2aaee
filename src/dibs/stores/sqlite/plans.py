"""Bringing a scope in line with a plan: one reading, one comparison, one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.plan import REMOVED, diff
from dibs.core.policy import CanceledBlocker
from dibs.stores.sql import link_from
from dibs.stores.sqlite import links, moves, tasks
from dibs.stores.sqlite.rows import ID, task_from, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.task import Actor, Task
    from dibs.stores.sqlite.database import Transaction

# Up to so many new edges are walked one by one; more, and reading the whole graph once is cheaper.
_WALKED_EDGES = 200


def apply_plan(
    tx: Transaction, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor, progress: Callable[[int], None]
) -> PlanChanges:
    """Write what the plan changes. Old links go first, so that a plan may turn an order around."""
    changes = _compare(tx, scope, plan)
    for link in changes.unlink:
        links.unlink(tx, scope, link, by)
    for planned in changes.insert:
        tasks.insert(tx, tasks.new_task(tx, scope, planned.draft), by)
        progress(1)
    for task_id in changes.reopen:
        _settle(tx, scope, task_id, Verb.REOPEN, by, None)
    for task_id, edit in changes.edit:
        tasks.rewrite(tx, scope, task_id, edit, by)
        progress(1)
    _link_all(tx, scope, changes, by)
    for task_id in changes.remove:
        _settle(tx, scope, task_id, Verb.CANCEL, by, REMOVED)
        progress(1)
    for task_id in changes.remove:  # after all removals: else one removed task would cancel another
        moves.draw_along(tx, links.key_of(tx, scope, task_id), task_id, by, on_cancel, Consequences())
    return changes


def _compare(tx: Transaction, scope: str, plan: Plan) -> PlanChanges:
    named = [planned.draft.id for planned in plan.tasks]
    wanted = {"scope": scope, "ids": to_json(named), "specs": to_json(sorted(plan.specs))}
    found: dict[str, Task] = {}
    for row in (*tx.all("tasks_named", wanted), *tx.all("tasks_of_specs", wanted)):
        found[row[ID]] = task_from(row)
    own = [link_from(row) for row in tx.all("links_from", wanted)]
    mentioned = {
        on for planned in plan.tasks for on in (*planned.blocked_by, *planned.feeds_from, planned.draft.parent) if on
    }
    elsewhere = to_json(sorted(mentioned - set(named)))
    known = {row[ID] for row in tx.all("tasks_named", {"scope": scope, "ids": elsewhere})}
    return diff(plan, list(found.values()), own, known, tx.now)


def _settle(tx: Transaction, scope: str, task_id: str, verb: Verb, by: Actor, reason: str | None) -> None:
    row = tx.one("task_to_move", (scope, task_id))
    if row is None:
        return
    task = task_from(row)
    asked = Move(verb, task_id, scope, by, force=True, reason=reason)
    after = lifecycle.moved(task, asked, tx.now)
    moves.settle(tx, row, task, after, asked, CanceledBlocker.RESOLVES, has_dependents=row[-1])


def _link_all(tx: Transaction, scope: str, changes: PlanChanges, by: Actor) -> None:
    """Add the new links. Raises CycleDetected for a cycle through them or through a new parent."""
    before = [(planned.draft.parent, planned.draft.id) for planned in changes.insert]
    before += [(edit.parent, task_id) for task_id, edit in changes.edit if isinstance(edit.parent, str)]
    before += [(link.task, link.on) for link in changes.link]
    for link in changes.link:
        links.put(tx, scope, link, by)
    new_edges = [(after, first) for after, first in before if after is not None]
    if len(new_edges) > _WALKED_EDGES:
        links.refuse_any_cycle(tx, scope)
        return
    for after, first in new_edges:
        links.refuse_cycle(tx, links.key_of(tx, scope, after), links.key_of(tx, scope, first))
