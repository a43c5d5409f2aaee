"""Taking a task through its lifecycle, with all that follows from it for other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import DibsError, LostLock, NotFound
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.task import Status
from dibs.stores.port import Moved
from dibs.stores.sqlite.claims import wake, write_move
from dibs.stores.sqlite.rows import KEY, task_from, to_json, to_micros

if TYPE_CHECKING:
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Task
    from dibs.stores.sqlite.database import Transaction
    from dibs.stores.sqlite.rows import Row


def move(tx: Transaction, asked: Move, on_cancel: CanceledBlocker) -> Moved | DibsError:
    """Apply one move. A refusal is returned, not raised, so that its event is kept."""
    row = tx.one("task_to_move", (asked.scope, asked.id))
    if row is None:
        return NotFound(f"There is no task '{asked.id}' in {asked.scope}.")
    task = task_from(row)
    has_open_children, has_dependents = row[-2:]
    try:
        after = lifecycle.moved(task, asked, tx.now)
        if has_open_children and after.status is Status.DONE and after is not task:
            _refuse_open_children(tx, task)
    except DibsError as error:
        if asked.verb is not Verb.RENEW or isinstance(error, LostLock):
            tx.record(events.move_refused(task, asked, error, tx.now))
        return error
    if after is task:
        return Moved(task, repeated=True)
    done = settle(tx, row, task, after, asked, on_cancel, has_dependents=has_dependents)
    return Moved(after, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def settle(
    tx: Transaction, row: Row, task: Task, after: Task, asked: Move, on_cancel: CanceledBlocker, *, has_dependents: bool
) -> Consequences:
    """Write a task's new state. If it was canceled, apply the policy to its dependents."""
    done = Consequences()
    _write(tx, row, task, after, asked, done, has_dependents=has_dependents)
    if after.status is Status.CANCELED:
        draw_along(tx, row[KEY], after.id, asked.by, on_cancel, done)
    return done


def _write(
    tx: Transaction, row: Row, task: Task, after: Task, asked: Move, done: Consequences, *, has_dependents: bool
) -> None:
    key = row[KEY]
    write_move(tx, row, after, None if asked.verb is Verb.RENEW else events.moved(task, after, asked))
    if after.queued_at != task.queued_at:
        tx.run("requeue", (to_micros(after.queued_at), key))
    if asked.restates:
        tx.run("restate", (after.assigned_to, to_json(after.extra), key))
    if after.finished and not task.finished:
        if has_dependents:
            wake(tx)  # so that a dependent that is due by now counts as unblocked
            done.unblocked += [task_id for task_id, claimable in tx.all("release_dependents", (key,)) if claimable]
    elif task.finished and not after.finished:
        tx.run("gate_dependents", (key,))


def draw_along(
    tx: Transaction, key: int, canceled: str, by: Actor, on_cancel: CanceledBlocker, done: Consequences
) -> None:
    """Unblock, escalate or cancel the dependents of a canceled task, then the dependents of those canceled."""
    verb = lifecycle.pull(on_cancel)
    waves = [(key, canceled)]
    while waves and verb is not None:
        gone, gone_id = waves.pop()
        for row in tx.all("gated_dependents", (gone,)):
            task = task_from(row)
            if not lifecycle.goes_along(task, verb):
                continue
            asked = lifecycle.going_along(task.id, task.scope, verb, gone_id, by)
            _write(tx, row, task, lifecycle.moved(task, asked, tx.now), asked, done, has_dependents=True)
            done.drawn(verb, task.id)
            if verb is Verb.CANCEL:
                waves.append((row[KEY], task.id))
    done.settle()


def _refuse_open_children(tx: Transaction, task: Task) -> None:
    children = [row[0] for row in tx.all("open_children", (task.scope, task.id))]
    lifecycle.refuse_unfinished(task, children)
