"""Claim tasks: wake due tasks, move the first matching file, return the results of its prerequisites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, lifecycle
from dibs.core.errors import AlreadyExists, StoreFull
from dibs.core.task import Claimed, Input, LinkKind, Status, order_key
from dibs.stores.vault.page import claim_note, completion_note
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.writing import Changed, NeedsAlone, Unfinished, rewrite, take

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Task
    from dibs.stores.vault.index import Entry
    from dibs.stores.vault.writing import Alone, Claiming, Turn


def wake(tx: Claiming) -> None:
    """Make expired leases and due tasks claimable, or cancel those that have used up their retries."""
    due = tx.index.due()
    for entry in due:
        known = entry.reading
        given_up = None if known is None else lifecycle.exhausted(known.task, tx.now)
        if known is None or given_up is None:
            tx.index.wake(entry)
        elif tx.shared:
            tx.index.not_yet(due)
            raise NeedsAlone
        else:
            _give_up(tx, entry, known.task, given_up)


def _give_up(tx: Claiming, entry: Entry, task: Task, given_up: Task) -> None:
    try:
        rewrite(tx, entry, given_up, note=completion_note(task, given_up))
    except (Changed, AlreadyExists):
        tx.vault.sweep()  # the file has changed, or its target is taken; the next claim looks again
        return
    tx.record(events.given_up(task, given_up))


def claim_next(tx: Claiming, request: ClaimRequest) -> list[Claimed]:
    """Lease the first matching tasks. The result is empty only after a look at every folder."""
    if tx.shared and (len(request.tokens) > 1 or not tx.vault.unwritten.keys().isdisjoint(request.tokens)):
        raise NeedsAlone
    claimed = _unwritten(tx, request)
    tx.vault.sweep_now_and_then()
    claimed += _from_head(tx, request, len(request.tokens) - len(claimed))
    if len(claimed) < len(request.tokens):
        tx.vault.sweep()
        claimed += _from_head(tx, request, len(request.tokens) - len(claimed))
    return claimed


def _from_head(tx: Claiming, request: ClaimRequest, wanted: int) -> list[Claimed]:
    wake(tx)
    claimed: list[Claimed] = []
    tokens = iter(request.tokens[-wanted:] if wanted else ())
    for key in tx.index.head(request.scope):
        if len(claimed) == wanted:
            break
        entry = tx.index.entry(key)
        if entry is None or entry.reading is None or not _fits(entry.reading.task, request):
            continue
        if not _still_free(tx, entry):
            continue
        if tx.shared and entry.reading.task.status is Status.ACTIVE:
            raise NeedsAlone  # an agent may take over its own expired claim, which no move decides
        token = next(tokens)
        try:
            claimed.append(_lease(tx, entry, request, token))
        except (Changed, Unfinished, AlreadyExists):
            # The file has changed, is being written, or its target is taken: try the next task.
            tokens = iter((token, *tokens))
            _look_again(tx, entry)
    return claimed


def _look_again(tx: Claiming, entry: Entry) -> None:
    """Read the file again, and the changes of other processes: they may have claimed more tasks."""
    tx.index.refresh(entry.path)
    tx.vault.catch_up()


def _fits(task: Task, request: ClaimRequest, *, unable: bool = False) -> bool:
    for_asker = task.assigned_to == request.agent or (task.assigned_to is None and not request.assigned)
    return for_asker and (unable or request.can.issuperset(task.requires)) and request.only.matches(task)


def _still_free(tx: Claiming, entry: Entry) -> bool:
    """Whether its prerequisites are still finished: a person may have moved one back."""
    for link in entry.reading.links if entry.reading else ():
        before = tx.index.place_of((entry.place.scope, link.on))
        if link.kind is LinkKind.BLOCKS and before is not None:
            tx.index.confirm(before)
    return entry.listed is not None


def claim_named(tx: Alone, request: ClaimRequest) -> list[Claimed]:
    """Lease all the named tasks, or record and raise why one of them cannot be claimed."""
    again = _unwritten(tx, request)
    if again:
        return again
    return tx.settled(lambda: _claim_named(tx, request))


def _claim_named(tx: Alone, request: ClaimRequest) -> list[Claimed]:
    scope = request.scope or ""
    for task_id in request.ids:
        entry = tx.entry(scope, task_id)
        _still_free(tx, entry)
        task = tx.task(scope, task_id)
        refused = lifecycle.refusal(task, request, tx.now)
        if refused is None and not request.takes_over and lifecycle.exhausted(task, tx.now):
            wake(tx)
            task = tx.task(scope, task_id)
            refused = lifecycle.refusal(task, request, tx.now)
        if refused is not None:
            tx.record(events.claim_refused(task, request, refused, tx.now))
            raise refused
    return [
        _lease(tx, tx.entry(scope, task_id), request, token)
        for task_id, token in zip(request.ids, request.tokens, strict=True)
    ]


def peek(tx: Turn, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """Tasks that the agent could claim now, then tasks that others hold, if asked. Changes nothing."""
    tasks = sorted(tx.index.tasks(request.scope, finished=False), key=order_key)
    found = [task for task in tasks if _fits(task, request, unable=unable) and up_for_work(tx, task)][:limit]
    return found + [task for task in tasks if task.held(tx.now)] if held else found


def up_for_work(tx: Turn, task: Task) -> bool:
    """Whether any matching agent may claim it now."""
    if task.blockers or tx.index.twins((task.scope, task.id)):
        return False
    if task.status is Status.READY:
        return task.not_before is None or task.not_before <= tx.now
    return task.status is Status.ACTIVE and not task.held(tx.now) and lifecycle.exhausted(task, tx.now) is None


def _lease(tx: Claiming, entry: Entry, request: ClaimRequest, token: str) -> Claimed:
    """Claim the file in the state the index knows; raise Changed if it has another by now."""
    if entry.reading is None:
        raise Changed
    task = tx.index.counted(entry.reading)
    held = lifecycle.claimed(task, request, sealed(token), tx.now)
    event = events.claimed(task, held, request)
    try:
        take(tx, entry, held, claim_note(held))
    except StoreFull:
        tx.vault.unwritten[token] = (held, event)
        raise
    tx.record(event)
    return _with_inputs(tx, held, token)


def _unwritten(tx: Claiming, request: ClaimRequest) -> list[Claimed]:
    """Write the leases of this request's claims for which the disk had no room before."""
    found = []
    for token in request.tokens:
        if token not in tx.vault.unwritten:
            continue
        held, event = tx.vault.unwritten[token]
        entry = tx.entry(held.scope, held.id)
        known = entry.reading
        if known is None or not known.by_hand or known.task.attempt != held.attempt:
            del tx.vault.unwritten[token]  # another agent has it now
            continue
        tx.settled(lambda entry=entry, held=held: rewrite(tx, entry, held, note=claim_note(held)))  # type: ignore[misc]
        del tx.vault.unwritten[token]
        tx.record(event)
        found.append(_with_inputs(tx, held, token))
    return found


def held_under(tx: Claiming, request: ClaimRequest) -> list[Claimed]:
    """Tasks that an earlier try of this request claimed, if its answer was lost."""
    proofs = {sealed(token): token for token in request.tokens}
    return [
        _with_inputs(tx, task, proofs[task.lease.token])
        for task in tx.index.tasks(finished=False)
        if task.lease is not None and task.lease.token in proofs
    ]


def _with_inputs(tx: Claiming, held: Task, token: str) -> Claimed:
    """The claim with its token, of which the file holds only a digest."""
    entry = tx.index.entry((held.scope, held.id))
    if entry is None or entry.reading is None:
        raise Changed
    inputs = []
    for link in sorted(entry.reading.links):
        before = tx.index.entry((held.scope, link.on))
        if link.kind is not LinkKind.PARALLEL_OK and before and before.reading:
            task = before.reading.task
            if task.status is Status.DONE:
                inputs.append(Input(task.id, task.title, task.result, task.artifacts))
    lease = held.lease and held.lease._replace(token=token)
    return Claimed(tx.index.counted(entry.reading)._replace(lease=lease), tuple(inputs))
