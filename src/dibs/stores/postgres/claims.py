"""Claims: usually one statement; a transaction that checks each task where a reason must be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import DibsError, NotFound
from dibs.core.fields import EVERY
from dibs.core.task import Claimed, Holder, order_key
from dibs.stores.postgres import fleet
from dibs.stores.postgres.rows import (
    ANSWER_ID,
    ANSWER_OUTCOME,
    ID,
    KEY,
    LAST_EVENT,
    array,
    claimed_from,
    event_values,
    filter_json,
    head_from,
    inputs_from,
    moving_values,
    task_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.core.events import Event
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Task
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row
    from dibs.stores.postgres.transaction import Transaction


def claim(database: Database, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease the next tasks, or all named ones, or return the refusal.

    The caller created the tokens, so tasks held under them belong to an earlier try whose answer was lost.
    """
    if (request.assigned or request.only is not EVERY) and not request.ids:
        return database.write(lambda tx: claim_next_within(tx, request))
    if not request.ids:
        return _next(database, request)
    if request.holder is Holder.AGENT and not (request.force or request.assigned) and request.only is EVERY:
        rows = database.call("claim_named", _named(request))
        if rows is None:
            held = _held(database, request)
            if held:
                return held
        elif rows:
            return all_claimed(rows, request)
    return database.write(lambda tx: _claim_named(tx, request))


def _next(database: Database, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Claim the head of one scope's queue in one statement; if it returns no row, use `claim_next`."""
    plain = request.scope is not None and request.holder is Holder.AGENT and not database.pooled
    query, values = head_query(request) if plain else ("claim_next", next_values(request))
    while True:
        rows = database.call(query, values)
        if rows is None:
            held = _held(database, request)
            if held:
                return held
            continue
        if rows and query == "claim_head":
            return [head_from(rows[0], request)]
        if not rows and plain:
            plain = False
            query, values = "claim_next", next_values(request)
            continue
        if is_bounded(rows):
            return database.write(lambda tx: claim_next_within(tx, request))
        if is_about_time(rows):
            database.write(lambda tx: wake(tx, request.scope))
            query = "claim_next_woken"
            continue
        return all_claimed(rows, request)


def head_query(request: ClaimRequest) -> tuple[str, tuple[object, ...]]:
    """The statement that claims the head of a queue, or as many heads as there are tokens, and its parameters."""
    tokens = request.tokens
    name, token = ("claim_head", tokens[0]) if len(tokens) == 1 else ("claim_heads", array(tokens))
    return name, (request.scope, request.agent, request.run, token, request.lease, array(request.can))


def next_values(request: ClaimRequest) -> tuple[object, ...]:
    """The parameters of `claim_next`."""
    return (
        request.scope, request.agent, request.run, request.holder.value, array(request.tokens), request.lease,
        array(request.can),
    )  # fmt: skip


def _named(request: ClaimRequest) -> tuple[object, ...]:
    return (
        request.scope, array(request.ids), request.agent, request.run, array(request.tokens), request.lease,
        array(request.can),
    )  # fmt: skip


def is_about_time(rows: list[Row]) -> bool:
    """Whether expired leases without a retry left must be escalated first."""
    return bool(rows) and rows[0][ANSWER_ID] is None and rows[0][ANSWER_OUTCOME] is None


def is_bounded(rows: list[Row]) -> bool:
    """Whether the agent's limit must be checked first."""
    return bool(rows) and rows[0][ANSWER_ID] is None and rows[0][ANSWER_OUTCOME] is not None


def all_claimed(rows: Iterable[Row], request: ClaimRequest) -> list[Claimed]:
    return [claimed_from(row, request, token) for row, token in zip(rows, request.tokens, strict=False)]


def _held(database: Database, request: ClaimRequest) -> list[Claimed]:
    """Tasks that this request already claimed, if its answer was lost."""
    return _held_from(database.rows("held_under", (list(request.tokens),)))


def _held_from(rows: Iterable[Row]) -> list[Claimed]:
    return [Claimed(task_from(row), inputs_from(row[-1])) for row in rows]


def held_under(tx: Transaction, request: ClaimRequest) -> list[Claimed]:
    """The same within a transaction."""
    return _held_from(tx.all("held_under", (list(request.tokens),)))


def claim_next_within(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Claim the next tasks within a transaction, or return the refusal."""
    within = fleet.bounded(tx, request)
    if isinstance(within, DibsError):
        return within
    if within.assigned:
        wake(tx, within.scope)
        asked = within._asdict() | {"tokens": list(within.tokens), "can": list(within.can), "now": tx.now}
        return all_claimed(tx.all("claim_assigned", asked | {"only": filter_json(within.only)}), within)
    query, values = "claim_next_bounded", next_values(within)
    if within.only is not EVERY:
        query, values = "claim_next_matching", (*values, filter_json(within.only))
    rows = tx.call(query, values)
    if is_about_time(rows):
        wake(tx, within.scope)
        rows = tx.call(f"{query}_woken", values)
    return all_claimed(rows, within)


def wake(tx: Transaction, scope: str | None) -> None:
    """Make expired leases and due tasks claimable; escalate those without a retry left."""
    if not tx.value("wake", (tx.now, scope)):
        return
    for row in tx.all("due_without_retry", (tx.now,)):
        task = task_from(row)
        given_up = lifecycle.exhausted(task, tx.now)
        if given_up is not None:
            write_move(tx, row, given_up, events.given_up(task, given_up))


def _claim_named(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease all named tasks, or record and return the refusal."""
    scope = request.scope or ""
    within = request if request.holder is Holder.HUMAN else fleet.bounded(tx, request)
    over = within if isinstance(within, DibsError) else None
    rows = {row[ID]: row for row in tx.all("lock_tasks", (scope, list(request.ids)))}
    found = []
    for task_id in request.ids:
        if task_id not in rows:
            return NotFound(f"There is no task '{task_id}' in {scope}.")
        row, task = rows[task_id], task_from(rows[task_id])
        refused = lifecycle.refusal(task, request, tx.now)
        if refused is None and not request.takes_over and lifecycle.exhausted(task, tx.now):
            wake(tx, scope)
            row = tx.one("lock_task", (scope, task_id)) or row
            task = task_from(row)
            refused = lifecycle.refusal(task, request, tx.now)
        refused = refused or over
        if refused is not None:
            tx.record(events.claim_refused(task, request, refused, tx.now))
            return refused
        found.append(row)
    return [_lease(tx, row, request, token) for row, token in zip(found, request.tokens, strict=True)]


def _lease(tx: Transaction, row: Row, request: ClaimRequest, token: str) -> Claimed:
    task = task_from(row)
    held = lifecycle.claimed(task, request, token, tx.now)
    write_move(tx, row, held, events.claimed(task, held, request))
    return Claimed(held, inputs_from(tx.value("inputs", (row[KEY],))))


def peek(tx: Transaction, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """Tasks that the agent could claim now, due ones included."""
    scopes = [row[0] for row in tx.all("scopes")] if request.scope is None else [request.scope]
    fit = {"agent": request.agent, "can": None if unable else list(request.can), "now": tx.now, "limit": limit}
    fit["only"] = filter_json(request.only)
    if request.assigned:
        rows = tx.all("peek_assigned", fit | {"scope": request.scope})
    else:
        rows = [row for scope in scopes for row in tx.all("peek", fit | {"scope": scope})]
    found = sorted((task_from(row) for row in rows), key=order_key)[:limit]
    if held:
        under_way = (task_from(row) for row in tx.all("active", {"scope": request.scope}))
        found += [task for task in under_way if task.held(tx.now)]
    return found


def write_move(tx: Transaction, row: Row, task: Task, event: Event | None) -> None:
    """Write a task's new state and its event."""
    if event is None:
        tx.run("write_move", (*moving_values(task, tx.now), row[KEY]))
    else:
        told = (*event_values(event), row[LAST_EVENT])
        tx.run("write_move_and_record", (*told, *moving_values(task, tx.now), row[0]))
