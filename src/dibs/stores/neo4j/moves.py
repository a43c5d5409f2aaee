"""Taking a task through its lifecycle, with all that follows from it for other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import consequences, lifecycle, telling
from dibs.core.consequences import Consequences
from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import Move, Verb
from dibs.core.task import Status
from dibs.stores.neo4j import claims, tasks
from dibs.stores.neo4j.rows import task_from
from dibs.stores.port import Moved

if TYPE_CHECKING:
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Task
    from dibs.stores.neo4j.transaction import Transaction


def move(tx: Transaction, asked: Move, on_cancel: CanceledBlocker) -> Moved | DibsError:
    """Apply one move. A refusal is returned, not raised, so that its event is kept."""
    row = tx.one("task_to_move", scope=asked.scope, id=asked.id)
    if row is None:
        return tasks.not_found(asked.scope, asked.id)
    task = task_from(row["task"])
    try:
        after = lifecycle.moved(task, asked, tx.now)
        if row["open_children"] and after.status is Status.DONE and after is not task:
            _refuse_open_children(tx, task)
    except DibsError as error:
        if asked.verb is not Verb.RENEW or isinstance(error, LostLock):
            tx.record(telling.move_refused(task, asked, error, tx.now))
        return error
    if after is task:
        return Moved(task, repeated=True)
    done = settle(tx, task, after, asked, on_cancel, has_dependents=row["dependents"])
    return Moved(after, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def settle(
    tx: Transaction, task: Task, after: Task, asked: Move, on_cancel: CanceledBlocker, *, has_dependents: bool
) -> Consequences:
    """Write a task's new state down, and draw along what waited for it if it was canceled."""
    done = Consequences()
    _write(tx, task, after, asked, done, has_dependents=has_dependents)
    if after.status is Status.CANCELED:
        draw_along(tx, task, asked.by, on_cancel, done)
    return done


def _write(tx: Transaction, task: Task, after: Task, asked: Move, done: Consequences, *, has_dependents: bool) -> None:
    tasks.write(tx, task, after)
    if asked.verb is not Verb.RENEW:
        tx.record(telling.moved(task, after, asked))
    if not has_dependents:
        return
    if after.finished and not task.finished:
        claims.wake(tx, [task.scope])  # so that a dependent which became due meanwhile counts as unblocked
        released = tx.all("release_dependents", scope=task.scope, id=task.id)
        done.unblocked += [row["id"] for row in released if row["open"]]
    elif task.finished and not after.finished:
        tx.all("gate_dependents", scope=task.scope, id=task.id)


def draw_along(tx: Transaction, canceled: Task, by: Actor, on_cancel: CanceledBlocker, done: Consequences) -> None:
    """What waited for a canceled task goes ahead, is escalated to a person, or canceled in turn, wave by wave."""
    verb = consequences.pull(on_cancel)
    waves = [canceled.id]
    while waves and verb is not None:
        gone = waves.pop()
        for row in tx.all("gated_dependents", scope=canceled.scope, id=gone):
            task = task_from(row["task"])
            if not consequences.goes_along(task, verb):
                continue
            asked = consequences.going_along(task.id, task.scope, verb, gone, by)
            _write(tx, task, lifecycle.moved(task, asked, tx.now), asked, done, has_dependents=True)
            done.drawn(verb, task.id)
            if verb is Verb.CANCEL:
                waves.append(task.id)
    done.settle()


def _refuse_open_children(tx: Transaction, task: Task) -> None:
    children = [row["id"] for row in tx.all("open_children", scope=task.scope, id=task.id)]
    consequences.refuse_unfinished(task, children)
