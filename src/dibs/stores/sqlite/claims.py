"""Claiming: wake what is due, take the first that fits, hand over what its prerequisites left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import DibsError, NotFound
from dibs.core.task import Claimed, Holder, order_key
from dibs.stores.sqlite.rows import KEY, LAST_EVENT, filter_json, input_from, moving_values, task_from, to_json

if TYPE_CHECKING:
    from dibs.core.events import Event
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Task
    from dibs.stores.sqlite.database import Transaction
    from dibs.stores.sqlite.rows import Row


_NOTHING_DUE = 0  # a time before all others


def wake(tx: Transaction) -> bool:
    """Let time do its work: expired leases and due tasks become claimable, or are given up. False: nothing was due."""
    if tx.one("anything_due", (tx.micros,)) is None:
        return False
    for row in tx.all("due_without_retry", (tx.micros,)):
        task = task_from(row)
        given_up = lifecycle.exhausted(task, tx.now)
        if given_up is not None:
            write_move(tx, row, given_up, events.given_up(task, given_up))
    tx.run("wake", (tx.micros,))
    return True


def claim_next(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease the first tasks that fit to the asker, in the order of the desk."""
    rows = [] if request.assigned else _first(tx, request, bounded=False)
    if not rows:
        within = _bounded(tx, request)
        if isinstance(within, DibsError):
            return within
        request = within
        wake(tx)
        wanted, can = len(request.tokens), _listed(request)
        rows = _assigned(tx, request, wanted, can) if request.assigned else _first(tx, request, bounded=True)
    return [_lease(tx, row, request, token, linked=row[-1]) for row, token in zip(rows, request.tokens, strict=False)]


def _first(tx: Transaction, request: ClaimRequest, *, bounded: bool) -> list[Row]:
    """The claimable tasks of a request; none if a task is due, which must be woken first.

    Also none for an enrolled agent, unless the request was already `bounded` by its limit.
    """
    wanted, can, only = len(request.tokens), _listed(request), filter_json(request.only)
    found = [
        row
        for scope in _scopes(tx, request)
        for row in tx.all("claim_head", (scope, request.agent, can, wanted, tx.micros, bounded, only))
    ]
    if request.scope is not None:
        return found
    return sorted(found, key=lambda row: order_key(task_from(row)))[:wanted]


def _assigned(tx: Transaction, request: ClaimRequest, limit: int, can: str | None) -> list[Row]:
    fit = {"agent": request.agent, "can": can, "scope": request.scope, "only": filter_json(request.only)}
    return tx.all("assigned_head", fit | {"now": tx.micros, "limit": limit})


def _bounded(tx: Transaction, request: ClaimRequest) -> ClaimRequest | DibsError:
    """As much of a request as its asker may have."""
    row = tx.one("limit_of", {"agent": request.agent, "now": tx.micros})
    if row is None:
        return request
    from dibs.stores.sqlite import fleet

    return fleet.bounded(tx, request, *row)


def claim_named(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease all the named tasks, or say why one of them cannot be had; the refusal is on record."""
    scope = request.scope or ""
    within = request if request.holder is Holder.HUMAN else _bounded(tx, request)
    over = within if isinstance(within, DibsError) else None
    found = []
    for task_id in request.ids:
        row = tx.one("task_by_id", (scope, task_id))
        if row is None:
            return NotFound(f"There is no task '{task_id}' in {scope}.")
        task = task_from(row)
        refused = lifecycle.refusal(task, request, tx.now)
        if refused is None and not request.takes_over and lifecycle.exhausted(task, tx.now):
            wake(tx)
            task = task_from(tx.one("task_by_key", (row[KEY],)) or row)
            refused = lifecycle.refusal(task, request, tx.now)
        refused = refused or over
        if refused is not None:
            tx.record(events.claim_refused(task, request, refused, tx.now))
            return refused
        found.append(row)
    return [_lease(tx, row, request, token) for row, token in zip(found, request.tokens, strict=True)]


def peek(tx: Transaction, request: ClaimRequest, limit: int, *, unable: bool) -> list[Task]:
    """The tasks that the agent could claim now. A reader wakes no tasks, so it reads the due ones too."""
    can, only = None if unable else _listed(request), filter_json(request.only)
    rows = _assigned(tx, request, limit, can) if request.assigned else []
    for scope in () if request.assigned else _scopes(tx, request):
        rows += tx.all("claim_head", (scope, request.agent, can, limit, _NOTHING_DUE, True, only))
        rows += tx.all("due_head", (scope, request.agent, can, limit, tx.micros, None, only))
    return sorted((task_from(row) for row in rows), key=order_key)[:limit]


def _scopes(tx: Transaction, request: ClaimRequest) -> list[str]:
    return [row[0] for row in tx.all("scopes")] if request.scope is None else [request.scope]


def _listed(request: ClaimRequest) -> str:
    """The asker's capabilities as statements take them; none at all, NULL, would mean that they do not matter."""
    return to_json(sorted(request.can)) if request.can else "[]"


def _lease(tx: Transaction, row: Row, request: ClaimRequest, token: str, *, linked: bool = True) -> Claimed:
    """`linked` is false where it is known that there is no prerequisite to hand anything over."""
    task = task_from(row)
    held = lifecycle.claimed(task, request, token, tx.now)
    write_move(tx, row, held, events.claimed(task, held, request))
    return _with_inputs(tx, row[KEY], held) if linked else Claimed(held)


def held_under(tx: Transaction, request: ClaimRequest) -> list[Claimed]:
    """The tasks that an earlier try of the same request claimed, if its answer was lost."""
    rows = [row for token in request.tokens for row in tx.all("held_under", {"token": token})]
    return [_with_inputs(tx, row[KEY], task_from(row)) for row in rows]


def _with_inputs(tx: Transaction, key: int, task: Task) -> Claimed:
    return Claimed(task, tuple(input_from(row) for row in tx.all("inputs", (key,))))


def write_move(tx: Transaction, row: Row, task: Task, event: Event | None) -> None:
    """Write a task's new state to its row, and its event."""
    last_event = row[LAST_EVENT] if event is None else tx.append(event, row[LAST_EVENT])
    tx.run("write_move", (*moving_values(task, tx.now, tx.micros), last_event, row[KEY]))
