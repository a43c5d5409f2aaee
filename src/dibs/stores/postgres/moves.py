"""Move a task through its lifecycle, and update the tasks that depend on it.

Renewing a live lease and finishing under one are each one call of a database function. Everything else, and whatever
those functions decline, goes the long way: lock the row, ask the lifecycle, write down what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import DibsError, LostLock, NotFound
from dibs.core.fields import EVERY
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.task import Holder, Status
from dibs.stores.port import Batch, Moved
from dibs.stores.postgres import claims, fleet
from dibs.stores.postgres.rows import (
    ANSWER_OUTCOME,
    ID,
    KEY,
    array,
    doc_of,
    finished_from,
    from_json,
    json_or_none,
    plain_finish_from,
    task_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Task
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.rows import Row
    from dibs.stores.postgres.transaction import Transaction


def move(database: Database, asked: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None) -> Moved | DibsError:
    """Apply one move and claim the next task. Refusals are returned, so that their events are committed."""
    if asked.token is not None and not asked.force and not asked.restates:
        quick = None
        if asked.verb is Verb.DONE and _is_plain(then):
            quick = _finish(database, asked, then)
        elif asked.verb is Verb.RENEW and asked.lease is not None and then is None:
            quick = _renew(database, asked)
        if quick is not None:
            return quick
    return database.write(lambda tx: _move_and_claim(tx, asked, on_cancel, then))


def move_all(database: Database, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None) -> Batch:
    """Apply several moves in one transaction, each accepted or refused. Plain finishes are one call."""
    if _plain_finishes(asked) and _is_plain(then):
        quick = _finish_all(database, asked, then)
        if quick is not None:
            return quick
    return database.write(lambda tx: _move_all_and_claim(tx, asked, on_cancel, then))


def _is_plain(then: ClaimRequest | None) -> bool:
    return then is None or (then.holder is Holder.AGENT and not then.assigned and then.only is EVERY)


def _plain_finishes(asked: Sequence[Move]) -> bool:
    """Whether all are plain finishes that differ only in task, token and result."""
    first = asked[0]._replace(id="", token=None, result=None) if asked else None
    return (
        first is not None
        and first.verb is Verb.DONE
        and not (first.force or first.artifacts or first.reason or first.restates)
        and all(one.token is not None and one._replace(id="", token=None, result=None) == first for one in asked)
        and len({one.id for one in asked}) == len(asked)
    )


def _finish_all(database: Database, asked: Sequence[Move], then: ClaimRequest | None) -> Batch | None:
    first = asked[0]
    values = (
        first.scope, array(one.id for one in asked), array(one.token for one in asked),
        array(json_or_none(one.result) for one in asked), first.by.agent, first.by.run, first.late_ok, first.requeue,
    )  # fmt: skip
    rows = database.call("finish_all", (*values, *_going_on(then)))
    if not rows:
        return None
    unblocked = [from_json(row[ANSWER_OUTCOME]) for row in rows[: len(asked)]]
    outcomes = tuple(
        Moved(finished_from(row, one.token or ""), _unblocked(outcome))
        for row, one, outcome in zip(rows, asked, unblocked, strict=False)
    )
    _notify(database, unblocked)
    return Batch(outcomes, tuple(_claimed_next(database, rows[len(asked) :], then)))


def _going_on(then: ClaimRequest | None) -> tuple[object, ...]:
    if then is None:
        return (None,) * 6
    return (then.scope, then.agent, then.run, array(then.tokens), then.lease, array(then.can))


def _claimed_next(database: Database, rows: list[Row], then: ClaimRequest | None) -> list[Claimed]:
    """Tasks claimed with a finish, or claimed now if expired leases or a limit had to be handled first."""
    if then is None:
        return []
    if not (claims.is_about_time(rows) or claims.is_bounded(rows)):
        return claims.all_claimed(rows, then)
    return _none_over_limit(claims.claim(database, then))


def _none_over_limit(claimed: list[Claimed] | DibsError) -> list[Claimed]:
    """An agent at its limit gets no follow-up task."""
    return [] if isinstance(claimed, DibsError) else claimed


def _finish(database: Database, asked: Move, then: ClaimRequest | None) -> Moved | None:
    """Finish in one call, or None: then the transaction decides, also for a repeated finish."""
    values = (
        asked.scope, asked.id, asked.token, asked.by.agent, asked.by.run, asked.reason, json_or_none(asked.result),
        array(asked.artifacts) if asked.artifacts else None, asked.late_ok, asked.requeue,
    )  # fmt: skip
    if then is None and not database.pooled:
        rows = database.call("finish", values)
        if not rows:
            return None
        outcome = from_json(rows[0][-1])
        if outcome:
            _notify(database, (outcome,))
        return Moved(plain_finish_from(rows[0], asked.scope, asked.id, asked.token or ""), _unblocked(outcome))
    rows = database.call("finish_and_claim", (*values, *_going_on(then)))
    if not rows:
        return None
    outcome = from_json(rows[0][ANSWER_OUTCOME])
    moved = Moved(finished_from(rows[0], asked.token or ""), _unblocked(outcome))
    _notify(database, (outcome,))
    return moved if then is None else moved._replace(next=tuple(_claimed_next(database, rows[1:], then)))


def _unblocked(outcome: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(outcome[1:]) if outcome else ()


def _notify(database: Database, outcomes: Iterable[Sequence[str] | None]) -> None:
    """The first element says whether a listener waits for the unblocked tasks."""
    if any(each and each[0] == "true" for each in outcomes):
        database.notify()


def _renew(database: Database, asked: Move) -> Moved | None:
    values = (asked.scope, asked.id, asked.token, asked.lease, asked.late_ok, asked.requeue)
    rows = database.call("renew", values)
    return Moved(task_from(rows[0])) if rows else None


def _move_and_claim(
    tx: Transaction, asked: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None
) -> Moved | DibsError:
    if then is not None:
        fleet.lock(tx, then.agent)
    moved = move_within(tx, asked, on_cancel)
    if then is None or isinstance(moved, DibsError):
        return moved
    claimed = claims.held_under(tx, then) if moved.repeated else []
    return moved._replace(next=tuple(claimed or _none_over_limit(claims.claim_next_within(tx, then))))


def _move_all_and_claim(
    tx: Transaction, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None
) -> Batch:
    if then is not None:
        fleet.lock(tx, then.agent)
    outcomes = tuple(move_within(tx, one, on_cancel) for one in asked)
    if then is None:
        return Batch(outcomes)
    repeated = any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes)
    claimed = claims.held_under(tx, then) if repeated else []
    return Batch(outcomes, tuple(claimed or _none_over_limit(claims.claim_next_within(tx, then))))


def move_within(tx: Transaction, asked: Move, on_cancel: CanceledBlocker) -> Moved | DibsError:
    """Apply one move within a transaction."""
    row = tx.one("lock_task", (asked.scope, asked.id))
    if row is None:
        return NotFound(f"There is no task '{asked.id}' in {asked.scope}.")
    task = task_from(row)
    try:
        after = lifecycle.moved(task, asked, tx.now)
        if after.status is Status.DONE and after is not task:
            _refuse_open_children(tx, task)
    except DibsError as error:
        if asked.verb is not Verb.RENEW or isinstance(error, LostLock):
            tx.record(events.move_refused(task, asked, error, tx.now))
        return error
    if after is task:
        return Moved(task, repeated=True)
    done = settle(tx, row, task, after, asked, on_cancel)
    if done.unblocked or after.status is Status.READY:
        tx.hint()
    return Moved(after, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def settle(tx: Transaction, row: Row, task: Task, after: Task, asked: Move, on_cancel: CanceledBlocker) -> Consequences:
    """Write a task's new state and, if it was canceled, move its dependents."""
    done = Consequences()
    _write(tx, row, task, after, asked, done)
    if after.status is Status.CANCELED:
        draw_along(tx, row[KEY], after.id, asked.by, on_cancel, done)
    return done


def _write(tx: Transaction, row: Row, task: Task, after: Task, asked: Move, done: Consequences) -> None:
    key = row[KEY]
    claims.write_move(tx, row, after, None if asked.verb is Verb.RENEW else events.moved(task, after, asked))
    if after.queued_at != task.queued_at:
        tx.run("requeue", (after.queued_at, key))
    if asked.restates:
        tx.run("restate", (after.assigned_to, doc_of(after), key))
    if after.finished and not task.finished:
        if tx.one("has_dependents", (key,)):
            done.unblocked += tx.value("release_dependents", (key, tx.now)) or []
    elif task.finished and not after.finished:
        tx.run("lock_dependents", (key,))
        tx.run("gate_dependents", (key,))


def draw_along(
    tx: Transaction, key: int, canceled: str, by: Actor, on_cancel: CanceledBlocker, done: Consequences
) -> None:
    """Unblock, escalate or cancel the dependents of a canceled task, level by level."""
    verb = lifecycle.pull(on_cancel)
    waves = [(key, canceled)]
    while waves and verb is not None:
        gone, gone_id = waves.pop()
        for row in sorted(tx.all("gated_dependents", (gone,)), key=lambda row: str(row[ID])):
            task = task_from(row)
            if not lifecycle.goes_along(task, verb):
                continue
            asked = lifecycle.going_along(task.id, task.scope, verb, gone_id, by)
            _write(tx, row, task, lifecycle.moved(task, asked, tx.now), asked, done)
            done.drawn(verb, task.id)
            if verb is Verb.CANCEL:
                waves.append((row[KEY], task.id))
    done.settle()


def _refuse_open_children(tx: Transaction, task: Task) -> None:
    """Refuse a finish with open children. The row is locked, so no child can be added."""
    children = [row[0] for row in tx.all("open_children", (task.scope, task.id))]
    lifecycle.refuse_unfinished(task, children)
