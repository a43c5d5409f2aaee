"""Claiming: wake what is due, take the first that fits, hand over what its prerequisites left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import lifecycle, telling
from dibs.core.errors import DibsError
from dibs.core.order import order_key
from dibs.core.task import Claimed, Holder, Status
from dibs.stores.neo4j import fleet, tasks
from dibs.stores.neo4j.rows import filter_map, input_from, task_from
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Task
    from dibs.stores.neo4j.rows import Values
    from dibs.stores.neo4j.transaction import Transaction


def wake(tx: Transaction, scopes: Sequence[str]) -> None:
    """Let time do its work: expired leases and due tasks become claimable, or are given up."""
    due = sorted(tx.due.intersection(scopes))
    if not due:
        return
    asked = {"scopes": due, "now": tx.now}
    for row in tx.all("due_without_retry", **asked):
        task = task_from(row["task"])
        given_up = lifecycle.exhausted(task, tx.now)
        if given_up is not None:
            tasks.write(tx, task, given_up)
            tx.record(telling.given_up(task, given_up))
    tx.all("wake", **asked)


def claim_next(tx: Transaction, request: ClaimRequest, scopes: Sequence[str]) -> list[Claimed] | DibsError:
    """Lease the first tasks that fit to the asker, in the order of the desk. The scopes are locked."""
    wake(tx, scopes)
    first = [] if request.assigned else _first(tx, request, scopes, bounded=False)
    if not first:
        within = fleet.bounded(tx, request)
        if isinstance(within, DibsError):
            return within
        request = within
        first = _first(tx, request, scopes, bounded=True)
    return _lease(tx, [task for task, _ in first], request, linked={task.id for task, linked in first if linked})


def _first(tx: Transaction, request: ClaimRequest, scopes: Sequence[str], *, bounded: bool) -> list[tuple[Task, bool]]:
    """With whether each has links. A member gets nothing unless the request was bounded by what it may have."""
    wanted = len(request.tokens)
    if request.assigned:
        rows = tx.all("assigned_head", scopes=scopes, limit=wanted, now=tx.now, **_fit(request))
    else:
        asked = _fit(request) | {"limit": wanted, "bounded": bounded}
        rows = [row for scope in scopes for row in tx.all("claim_head", scope=scope, **asked)]
    found = [(task_from(row["task"]), row["linked"]) for row in rows]
    return sorted(found, key=lambda each: order_key(each[0]))[:wanted]


def claim_named(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease all the named tasks, or say why one of them cannot be had; the refusal is on record."""
    scope = request.scope or ""
    within = request if request.holder is Holder.HUMAN else fleet.bounded(tx, request)
    rows = tx.all("tasks_named", scope=scope, ids=list(request.ids))
    known = {row["task"]["id"]: task_from(row["task"]) for row in rows}
    found = []
    for task_id in request.ids:
        if task_id not in known:
            return tasks.not_found(scope, task_id)
        task = known[task_id]
        refused = lifecycle.refusal(task, request, tx.now)
        if refused is None and not request.takes_over and lifecycle.exhausted(task, tx.now):
            wake(tx, [scope])
            task = tasks.get(tx, scope, task_id)
            refused = lifecycle.refusal(task, request, tx.now)
        if refused is None and isinstance(within, DibsError):
            refused = within
        if refused is not None:
            tx.record(telling.claim_refused(task, request, refused, tx.now))
            return refused
        found.append(task)
    return _lease(tx, found, request, linked=set(request.ids))


def _lease(tx: Transaction, found: Sequence[Task], request: ClaimRequest, *, linked: set[str]) -> list[Claimed]:
    """`linked` are those that may have prerequisites to hand something over."""
    claimed = []
    for task, token in zip(found, request.tokens, strict=False):
        held = lifecycle.claimed(task, request, token, tx.now)
        claimed.append(_with_inputs(tx, held) if task.id in linked else Claimed(held))
        tasks.write(tx, task, held)
        tx.record(telling.claimed(task, held, request))
    return claimed


def held_under(tx: Transaction, request: ClaimRequest) -> list[Claimed]:
    """What this very request has claimed before, if its answer was lost."""
    return [_with_inputs(tx, task_from(row["task"])) for row in tx.all("held_under", tokens=list(request.tokens))]


def _with_inputs(tx: Transaction, task: Task) -> Claimed:
    return Claimed(task, tuple(input_from(row) for row in tx.all("inputs", scope=task.scope, id=task.id)))


def peek(tx: Transaction, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """What the asker could claim now. A reader wakes nothing, so it looks at what is due as well."""
    scopes = tasks.scopes(tx, request.scope)
    asked = _fit(request) | {"limit": limit, "now": tx.now, "bounded": True}
    if unable:
        asked["can"] = None
    rows = tx.all("assigned_head", scopes=scopes, **asked) if request.assigned else []
    for scope in () if request.assigned else scopes:
        rows += tx.all("claim_head", scope=scope, **asked) + tx.all("due_head", scope=scope, **asked)
    found = sorted((task_from(row["task"]) for row in rows), key=order_key)[:limit]
    under_way = tasks.find(tx, Query(request.scope, (Status.ACTIVE,))) if held else []
    return found + [task for task in under_way if task.held(tx.now)]


def _fit(request: ClaimRequest) -> Values:
    return {"agent": request.agent, "can": sorted(request.can), "only": filter_map(request.only)}
