"""Taking a task through its lifecycle, with all that follows from it for other tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import DibsError, LostLock, NotFound
from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.task import LinkKind, Status
from dibs.stores.port import EventQuery, Moved
from dibs.stores.vault.claims import up_for_work
from dibs.stores.vault.page import completion_note
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.writing import rewrite

if TYPE_CHECKING:
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Task
    from dibs.stores.vault.index import Entry
    from dibs.stores.vault.turns import Alone


def move(tx: Alone, given: Move, on_cancel: CanceledBlocker) -> Moved:
    """Apply one move; a refusal is on record."""
    asked = given if given.token is None else given._replace(token=sealed(given.token))
    return tx.settled(lambda: _move(tx, asked, on_cancel))


def _move(tx: Alone, asked: Move, on_cancel: CanceledBlocker) -> Moved:
    entry = _entry(tx, asked)
    task = tx.task(asked.scope, asked.id)
    try:
        _refuse_overruled(entry, asked)
        after = lifecycle.moved(task, asked, tx.now)
        if after.status is Status.DONE and after is not task:
            _refuse_open_children(tx, task)
    except DibsError as error:
        if asked.verb is not Verb.RENEW or isinstance(error, LostLock):
            because = _by_someone(entry, asked)
            tx.record(events.move_refused(task, asked, error, tx.now, {"because": because} if because else None))
        raise
    if after is task:
        return Moved(task, repeated=True)
    done = Consequences()
    _write(tx, entry, task, after, asked, done)
    if after.status is Status.CANCELED:
        _draw_along(tx, after, asked.by, on_cancel, done)
    moved = tx.task(asked.scope, asked.id)
    return Moved(moved, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def _entry(tx: Alone, asked: Move) -> Entry:
    """The task's file. One that is gone while its holder speaks for it was deleted by someone."""
    try:
        return tx.entry(asked.scope, asked.id)
    except NotFound:
        if asked.token is None or not tx.vault.log.read(EventQuery(asked.scope, asked.id, last=1)):
            raise
        error = LostLock(
            f"{asked.id} was deleted by someone while you held it. Nothing was changed; stop working on it."
        )
        by = asked.by
        tx.record(
            Event(
                tx.now, asked.scope, asked.id, asked.verb, Outcome.LOST, by.agent, by.run,
                reason=error.code, detail={"because": "deleted"},
            )
        )  # fmt: skip
        raise error from None


def _by_someone(entry: Entry, asked: Move) -> str | None:
    """What a person has done to a file whose claim this token proves: they have the last word."""
    known = entry.reading
    if known is None or asked.token is None or known.proof != asked.token:
        return None
    if known.by_hand:
        return f"moved to {entry.path.rpartition('/')[0]}"
    return "edited" if known.edited else None


def _refuse_overruled(entry: Entry, asked: Move) -> None:
    what = _by_someone(entry, asked)
    if what is not None:
        raise LostLock(f"{asked.id} was {what} by someone while you held it. Nothing was changed; stop working on it.")


def _write(tx: Alone, entry: Entry, task: Task, after: Task, asked: Move, done: Consequences) -> None:
    rewrite(tx, entry, after, note=completion_note(task, after))
    if asked.verb is not Verb.RENEW:
        tx.record(events.moved(task, after, asked))
    if after.finished and not task.finished:
        done.unblocked += [
            link.task
            for link in tx.index.dependents((task.scope, task.id))
            if link.kind is LinkKind.BLOCKS and _ready_now(tx, task.scope, link.task)
        ]


def _ready_now(tx: Alone, scope: str, task_id: str) -> bool:
    entry = tx.index.entry((scope, task_id))
    return entry is not None and entry.reading is not None and up_for_work(tx, tx.task(scope, task_id))


def _draw_along(tx: Alone, canceled: Task, by: Actor, on_cancel: CanceledBlocker, done: Consequences) -> None:
    """What waited for a canceled task goes ahead, is escalated to a person, or canceled in turn, wave by wave."""
    verb = lifecycle.pull(on_cancel)
    waves = [canceled.id]
    while waves and verb is not None:
        gone = waves.pop()
        for link in tx.index.dependents((canceled.scope, gone)):
            if link.kind is not LinkKind.BLOCKS:
                continue
            asked = lifecycle.going_along(link.task, canceled.scope, verb, gone, by)
            if tx.settled(partial(_draw, tx, asked, done)):
                done.drawn(verb, link.task)
                if verb is Verb.CANCEL:
                    waves.append(link.task)
    done.settle()


def _draw(tx: Alone, asked: Move, done: Consequences) -> bool:
    try:
        entry = tx.entry(asked.scope, asked.id)
    except DibsError:
        return False  # deleted, or not to be read: a check tells of it
    task = tx.task(asked.scope, asked.id)
    if not lifecycle.goes_along(task, asked.verb):
        return False
    _write(tx, entry, task, lifecycle.moved(task, asked, tx.now), asked, done)
    return True


def _refuse_open_children(tx: Alone, task: Task) -> None:
    open_ones = [child.place.id for child in tx.index.children((task.scope, task.id)) if not child.place.finished]
    lifecycle.refuse_unfinished(task, open_ones[:5])
