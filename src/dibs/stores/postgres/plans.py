"""Apply a plan to a scope in one transaction.

A task that a plan has written keeps a digest of the plan's entry until anything else changes it. A second run compares
digests, and looks at nothing but the entries that differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.plan import REMOVED, diff
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Status, Task
from dibs.stores.postgres import links, moves, tasks
from dibs.stores.postgres.links import Intake, refuse_cycles
from dibs.stores.postgres.rows import array, task_from
from dibs.stores.sql import link_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.plan import Plan, PlanChanges, PlannedTask
    from dibs.core.task import Actor
    from dibs.stores.postgres.transaction import Transaction


def apply_plan(
    tx: Transaction, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor, progress: Callable[[int], None]
) -> PlanChanges:
    """Write the plan's changes. Old links are removed first, so that a plan may reverse an order."""
    tx.lock_scope(scope)
    digests = {planned.id: planned.digest for planned in plan.tasks}
    changes = _compare(tx, scope, plan, digests)
    for link in changes.unlink:
        links.drop(tx, scope, link, by)
    for task_id in changes.reopen:
        _settle(tx, scope, task_id, Verb.REOPEN, by, None)
    edges = _edit(tx, scope, changes, by, digests, progress)
    intake = Intake(tx, scope, by, digests)
    intake.tasks(tasks.new_task(tx, scope, planned.draft) for planned in changes.insert)
    intake.links(changes.link)
    intake.write()
    progress(len(changes.insert))
    if edges:
        keys = dict(_keys(tx, scope, {end for edge in edges for end in edge}))
        refuse_cycles(tx, scope, [(keys[parent], keys[child]) for parent, child in edges])
    for task_id in changes.remove:
        _settle(tx, scope, task_id, Verb.CANCEL, by, REMOVED)
        progress(1)
    for task_id in changes.remove:  # after all removals: else one removed task would cancel another
        key = dict(_keys(tx, scope, {task_id}))[task_id]
        moves.draw_along(tx, key, task_id, by, on_cancel, Consequences())
    if any(changes[:6]):
        tx.hint()
    return changes


def _compare(tx: Transaction, scope: str, plan: Plan, digests: dict[str, int]) -> PlanChanges:
    """The changes, computed only for entries that may differ."""
    ids = array(digests)
    differing: dict[str, str | None] = dict(tx.all("differing", (ids, array(digests.values()), scope)))
    unchanged = digests.keys() - differing.keys()
    there = {task_id for task_id, status in differing.items() if status is not None}
    done = {task_id for task_id, status in differing.items() if status == Status.DONE}
    looked_at = [planned for planned in plan.tasks if planned.id in differing]
    old = array(planned.id for planned in looked_at if planned.id in there and planned.id not in done)
    found = [task_from(row) for row in tx.all("lock_named", (old, scope))] if old != "{}" else []
    if plan.specs:
        specs = (scope, array(sorted(plan.specs)), ids)
        found += [task_from(row) for row in tx.all("tasks_of_specs", specs)]
    # Of what is done nothing is ever written, so nothing but that has to be known of it.
    found += [Task(scope, task_id, "", tx.now, tx.now, tx.now, status=Status.DONE) for task_id in done]
    own = [link_from(row) for row in tx.all("links_from", {"scope": scope, "ids": old})] if old != "{}" else []
    known = unchanged | _known(tx, scope, looked_at, set(digests))
    return diff(plan._replace(tasks=tuple(looked_at)), found, own, known, tx.now)


def _known(tx: Transaction, scope: str, looked_at: list[PlannedTask], named: set[str]) -> set[str]:
    """Existing tasks that the plan mentions but does not define."""
    mentioned = {
        on for planned in looked_at for on in (*planned.blocked_by, *planned.feeds_from, planned.draft.parent) if on
    }
    elsewhere = sorted(mentioned - named)
    return {row[0] for row in tx.all("ids_among", (scope, array(elsewhere)))} if elsewhere else set()


def _edit(
    tx: Transaction,
    scope: str,
    changes: PlanChanges,
    by: Actor,
    digests: dict[str, int],
    progress: Callable[[int], None],
) -> list[tuple[str, str]]:
    """Write the edits; a new parent comes after its child, which is looked at once everything is written."""
    parents = sorted({edit.parent for _, edit in changes.edit if isinstance(edit.parent, str)})
    if parents:
        tx.all("share_tasks", (scope, array(parents)))
        tx.run("flag_parents", (scope, array(parents)))
    for task_id, edit in changes.edit:
        tasks.rewrite(tx, scope, task_id, edit, by, digests[task_id])
        progress(1)
    return [(edit.parent, task_id) for task_id, edit in changes.edit if isinstance(edit.parent, str)]


def _keys(tx: Transaction, scope: str, ids: set[str]) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in tx.all("keys_of", (scope, array(sorted(ids))))]


def _settle(tx: Transaction, scope: str, task_id: str, verb: Verb, by: Actor, reason: str | None) -> None:
    row = tasks.lock(tx, scope, task_id)
    task = task_from(row)
    asked = Move(verb, task_id, scope, by, force=True, reason=reason)
    moves.settle(tx, row, task, lifecycle.moved(task, asked, tx.now), asked, CanceledBlocker.RESOLVES)
