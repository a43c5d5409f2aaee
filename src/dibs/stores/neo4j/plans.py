"""Bringing a scope in line with a plan: one reading, one comparison, one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import lifecycle
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.plan import REMOVED, diff
from dibs.core.policy import CanceledBlocker
from dibs.stores.neo4j import claims, tasks
from dibs.stores.neo4j.rows import link_from, task_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.task import Actor, Task
    from dibs.stores.neo4j.transaction import Transaction

_AT_ONCE = 1000  # so many new tasks are one statement


def apply_plan(
    tx: Transaction, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor, progress: Callable[[int], None]
) -> PlanChanges:
    """Write what the plan changes. Old links go first, so that a plan may turn an order around."""
    changes = _compare(tx, scope, plan)
    if changes.unlink:
        tasks.unlink(tx, scope, changes.unlink, by)
    for at in range(0, len(changes.insert), _AT_ONCE):
        some = changes.insert[at : at + _AT_ONCE]
        tasks.insert(tx, scope, [planned.draft for planned in some], by)
        progress(len(some))
    for task_id in changes.reopen:
        _settle(tx, scope, task_id, Verb.REOPEN, by, None)
    new = [(draft.parent, draft.id) for draft in (p.draft for p in changes.insert) if draft.parent is not None]
    tasks.put_parents(tx, scope, new)
    for task_id, edit in changes.edit:
        tasks.rewrite(tx, scope, task_id, edit, by)
        progress(1)
    tasks.put(tx, scope, changes.link, by)
    new += [(edit.parent, task_id) for task_id, edit in changes.edit if isinstance(edit.parent, str)]
    tasks.refuse_cycles(tx, scope, new + [(link.task, link.on) for link in changes.link])
    canceled = []
    for task_id in changes.remove:
        canceled.append(_settle(tx, scope, task_id, Verb.CANCEL, by, REMOVED))
        progress(1)
    for task in canceled:  # only now, so that what is removed together is not drawn along by its own kind
        claims.draw_along(tx, task, by, on_cancel, Consequences())
    return changes


def _compare(tx: Transaction, scope: str, plan: Plan) -> PlanChanges:
    named = [planned.draft.id for planned in plan.tasks]
    rows = tx.all("tasks_named", scope=scope, ids=named)
    rows += tx.all("tasks_of_specs", scope=scope, specs=sorted(plan.specs))
    found = {row["task"]["id"]: task_from(row["task"]) for row in rows}
    own = [link_from(row) for row in tx.all("links_from", scope=scope, ids=named)]
    mentioned = {
        on for planned in plan.tasks for on in (*planned.blocked_by, *planned.feeds_from, planned.draft.parent) if on
    }
    elsewhere = sorted(mentioned - set(named))
    known = set(elsewhere) - tasks.missing(tx, scope, elsewhere)
    return diff(plan, list(found.values()), own, known, tx.now)


def _settle(tx: Transaction, scope: str, task_id: str, verb: Verb, by: Actor, reason: str | None) -> Task:
    task = tasks.get(tx, scope, task_id)
    asked = Move(verb, task_id, scope, by, force=True, reason=reason)
    after = lifecycle.moved(task, asked, tx.now)
    claims.settle(tx, task, after, asked, CanceledBlocker.RESOLVES, has_dependents=True)
    return after
