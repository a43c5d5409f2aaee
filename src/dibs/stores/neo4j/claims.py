"""Claims and moves: a general transaction for every case, and one statement for each plain case.

The statement of a plain claim, renewal or finish contains no rule of the lifecycle. The lifecycle moves a placeholder
task, and the statement writes the values that differ, with the server's time. Under the scope's lock, it only checks
that the case is plain.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from dibs.core import events, fleet, lifecycle
from dibs.core.errors import DibsError, LostLock
from dibs.core.fields import EVERY
from dibs.core.fleet import SEEN_EVERY
from dibs.core.lifecycle import ClaimRequest, Consequences, Move, Verb
from dibs.core.task import Claimed, Holder, Lease, Status, Task, order_key
from dibs.stores.neo4j import tasks
from dibs.stores.neo4j.rows import (
    TASK,
    difference,
    event_values,
    filter_map,
    input_from,
    kind_of,
    moment_from,
    task_from,
)
from dibs.stores.port import Moved, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.events import Event
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor
    from dibs.stores.neo4j.rows import Row, Values
    from dibs.stores.neo4j.transaction import Transaction


def wake(tx: Transaction, scopes: Sequence[str]) -> None:
    """Make expired and due tasks claimable. Tasks without a retry left are given up."""
    due = sorted(tx.due.intersection(scopes))
    if not due:
        return
    asked = {"scopes": due, "now": tx.now}
    for row in tx.all("due_without_retry", **asked):
        task = task_from(row["task"])
        given_up = lifecycle.exhausted(task, tx.now)
        if given_up is not None:
            tasks.write(tx, task, given_up)
            tx.record(events.given_up(task, given_up))
    tx.all("wake", **asked)


def claim_next(tx: Transaction, request: ClaimRequest, scopes: Sequence[str]) -> list[Claimed] | DibsError:
    """Lease the first suitable tasks to the agent, in the order of work. The scopes are locked."""
    wake(tx, scopes)
    first = [] if request.assigned else _first(tx, request, scopes, bounded=False)
    if not first:
        within = _bounded(tx, request)
        if isinstance(within, DibsError):
            return within
        request = within
        first = _first(tx, request, scopes, bounded=True)
    return _lease(tx, [task for task, _ in first], request, linked={task.id for task, linked in first if linked})


def _first(tx: Transaction, request: ClaimRequest, scopes: Sequence[str], *, bounded: bool) -> list[tuple[Task, bool]]:
    """The tasks, and whether each has links. A member gets none unless the request respects its limit."""
    wanted = len(request.tokens)
    if request.assigned:
        rows = tx.all("assigned_head", scopes=scopes, limit=wanted, now=tx.now, **_fit(request))
    else:
        asked = _fit(request) | {"limit": wanted, "bounded": bounded}
        rows = [row for scope in scopes for row in tx.all("claim_head", scope=scope, **asked)]
    found = [(task_from(row["task"]), row["linked"]) for row in rows]
    return sorted(found, key=lambda each: order_key(each[0]))[:wanted]


def claim_named(tx: Transaction, request: ClaimRequest) -> list[Claimed] | DibsError:
    """Lease all named tasks, or refuse all because of one. The refusal is recorded."""
    scope = request.scope or ""
    within = request if request.holder is Holder.HUMAN else _bounded(tx, request)
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
            tx.record(events.claim_refused(task, request, refused, tx.now))
            return refused
        found.append(task)
    return _lease(tx, found, request, linked=set(request.ids))


def _bounded(tx: Transaction, request: ClaimRequest) -> ClaimRequest | DibsError:
    """The request, cut to the limit of a member. The member counts as seen."""
    row = tx.one("lock_member", agent=request.agent)
    if row is None:
        return request
    if tx.now - moment_from(row["seen_at"]) >= SEEN_EVERY:
        tx.all("see_member", agent=request.agent, now=tx.now)
    return fleet.bounded(request, tx.value("held_by", agent=request.agent, now=tx.now), row["limit"])


def _lease(tx: Transaction, found: Sequence[Task], request: ClaimRequest, *, linked: set[str]) -> list[Claimed]:
    """`linked` are tasks that may have prerequisites, and so inputs."""
    claimed = []
    for task, token in zip(found, request.tokens, strict=False):
        held = lifecycle.claimed(task, request, token, tx.now)
        claimed.append(_with_inputs(tx, held) if task.id in linked else Claimed(held))
        tasks.write(tx, task, held)
        tx.record(events.claimed(task, held, request))
    return claimed


def held_under(tx: Transaction, request: ClaimRequest) -> list[Claimed]:
    """The tasks that an earlier try of this request claimed, if its answer was lost."""
    return [_with_inputs(tx, task_from(row["task"])) for row in tx.all("held_under", tokens=list(request.tokens))]


def _with_inputs(tx: Transaction, task: Task) -> Claimed:
    return Claimed(task, tuple(input_from(row) for row in tx.all("inputs", scope=task.scope, id=task.id)))


def peek(tx: Transaction, request: ClaimRequest, limit: int, *, held: bool, unable: bool) -> list[Task]:
    """The tasks that the agent could claim now. A reader wakes none, so it reads due tasks as well."""
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
            tx.record(events.move_refused(task, asked, error, tx.now))
        return error
    if after is task:
        return Moved(task, repeated=True)
    done = settle(tx, task, after, asked, on_cancel, has_dependents=row["dependents"])
    return Moved(after, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))


def settle(
    tx: Transaction, task: Task, after: Task, asked: Move, on_cancel: CanceledBlocker, *, has_dependents: bool
) -> Consequences:
    """Write the new state of a task. If it was canceled, settle its dependents."""
    done = Consequences()
    dependents = _write(tx, task, after, asked, done, has_dependents=has_dependents)
    if after.status is Status.CANCELED:
        draw_along(tx, task, asked.by, on_cancel, done, dependents)
    return done


def _write(
    tx: Transaction, task: Task, after: Task, asked: Move, done: Consequences, *, has_dependents: bool
) -> list[Task]:
    """Return the dependents of a canceled task."""
    tasks.write(tx, task, after)
    if asked.verb is not Verb.RENEW:
        tx.record(events.moved(task, after, asked))
    if not has_dependents:
        return []
    if after.finished and not task.finished:
        wake(tx, [task.scope])  # so that a due dependent counts as unblocked
        released = tx.all("release_dependents", scope=task.scope, id=task.id, canceled=after.status is Status.CANCELED)
        done.unblocked += [row["id"] for row in released if row["open"]]
        return [task_from(row["task"]) for row in released if row["task"] is not None]
    if task.finished and not after.finished:
        tx.all("gate_dependents", scope=task.scope, id=task.id)
    return []


def draw_along(
    tx: Transaction,
    canceled: Task,
    by: Actor,
    on_cancel: CanceledBlocker,
    done: Consequences,
    dependents: Sequence[Task] | None = None,
) -> None:
    """Unblock, escalate or cancel the dependents of a canceled task, wave by wave."""
    verb = lifecycle.pull(on_cancel)
    if verb is not None and dependents is None:
        rows = tx.all("gated_dependents", scope=canceled.scope, id=canceled.id)
        dependents = [task_from(row["task"]) for row in rows]
    waves = [(canceled.id, dependents or [])]
    drawn: set[str] = set()  # a dependent of several tasks was read more than once
    while waves and verb is not None:
        gone, waiting = waves.pop()
        for task in waiting:
            if task.id in drawn or not lifecycle.goes_along(task, verb):
                continue
            drawn.add(task.id)
            asked = lifecycle.going_along(task.id, task.scope, verb, gone, by)
            along = _write(tx, task, lifecycle.moved(task, asked, tx.now), asked, done, has_dependents=True)
            done.drawn(verb, task.id)
            if verb is Verb.CANCEL:
                waves.append((task.id, along))
    done.settle()


def _refuse_open_children(tx: Transaction, task: Task) -> None:
    children = [row["id"] for row in tx.all("open_children", scope=task.scope, id=task.id)]
    lifecycle.refuse_unfinished(task, children)


Value = TypeVar("Value", covariant=True)  # noqa: PLC0105 - named as in the other modules

_UNSAID = "\0"  # no caller can pass this text
_THEN = datetime.min.replace(tzinfo=UTC)
_LEASE = Lease(_UNSAID, 1, _UNSAID * 2, _UNSAID, Holder.AGENT, _THEN, _THEN.replace(year=2))
_FREE = Task(
    "", "", "", _THEN, _THEN, _THEN, reason=_UNSAID, finished_at=_THEN.replace(year=3), finished_by=_UNSAID,
    not_before=_THEN, ended=_UNSAID, spent_token=_UNSAID, unblock_action=_UNSAID, next_check_at=_THEN,
)  # fmt: skip
_HELD = _FREE._replace(status=Status.ACTIVE, attempt=1, lease=_LEASE, spent_token=None)

# Not CANCEL, which affects dependents; not EXHAUST, CLOSE and PAUSE, which depend on retries, blockers and the reason.
_MOVES = frozenset({Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.RENEW, Verb.BLOCK, Verb.REVIEW})

# The statements derive these from the task or from the time.
_CLAIMING = frozenset({"attempt", "started_at", "claimed_at", "expires_at", "updated_at", "wakes_at", "place"})
_MOVING = frozenset(
    {"finished_by", "assigned_to", "retries", "completed_at", "expires_at", "updated_at", "wakes_at", "place"}
)
_OF_THE_EVENT = frozenset({"timestamp", "dispatched_at", "attempt", "mark"})


class Plain(NamedTuple, Generic[Value]):
    """Statements that return no row unless the case is plain. Several of them are one transaction.

    `answer` reads their rows. `found` looks for their effect after a lost answer.
    """

    statements: tuple[tuple[str, Values], ...]
    answer: Callable[[Sequence[Row]], Value]
    found: Callable[[Transaction], Value | None]


def plain_claim(request: ClaimRequest) -> Plain[list[Claimed]] | None:
    """A claim of the next task of one scope."""
    plain = request.scope is not None and not request.assigned and request.only is EVERY
    if not plain or request.ids or len(request.tokens) != 1:
        return None
    (token,) = request.tokens
    values, event = _claimed(request.agent, request.run, request.holder, request.scope)
    parameters: Values = {
        "scope": request.scope, "agent": request.agent, "can": sorted(request.can),
        "lease": None if request.holder is Holder.HUMAN else request.lease,
        "values": values | {"claim_attempt_id": token}, "event": event | {"id": str(uuid.uuid4())},
        "dispatches": kind_of(request.scope or "") == TASK,
    }  # fmt: skip

    def answer(rows: Sequence[Row]) -> list[Claimed]:
        (row,) = rows
        if row["task"] is None:
            return []
        after = lifecycle.claimed(task_from(row["task"]), request, token, moment_from(row["now"]))
        return [Claimed(after, tuple(input_from(each) for each in row["inputs"]))]

    return Plain((("claim_plainly", parameters),), answer, lambda tx: held_under(tx, request) or None)


@lru_cache(maxsize=64)
def _claimed(agent: str, run: str | None, holder: Holder, scope: str) -> tuple[Values, Values]:
    """The values of a claim on the task and its event, the same for every task of an agent."""
    request = ClaimRequest(agent, (_UNSAID,), scope, run=run, holder=holder)
    held = lifecycle.claimed(_FREE, request, _UNSAID, _THEN)
    event = events.claimed(_FREE, held, request)._replace(scope=scope)
    return _without(difference(_FREE, held, _THEN), _CLAIMING), _values_of(event, _OF_THE_EVENT | {"task_id"})


def plain_move(asked: Move) -> Plain[Moved] | None:
    """A move under the token of a lease."""
    unusual = asked.force or asked.requeue or asked.restates
    if asked.token is None or asked.by.agent is None or unusual or asked.verb not in _MOVES:
        return None
    after = lifecycle.moved(_HELD, asked._replace(token=_UNSAID), _THEN)
    values = difference(_HELD, after, _THEN)
    event = _values_of(events.moved(_HELD, after, asked), _OF_THE_EVENT)
    renews = asked.verb is Verb.RENEW
    parameters: Values = {
        "scope": asked.scope, "id": asked.id, "token": asked.token, "late_ok": asked.late_ok,
        "closes": after.finished, "fails": "retries" in values, "signs": "finished_by" in values, "renews": renews,
        "lease": asked.lease, "values": _without(values, _MOVING),
        "events": [] if renews else [event | {"sender_hash": asked.scope, "task_id": asked.id}],
    }  # fmt: skip

    def answer(rows: Sequence[Row]) -> Moved:
        (row,) = rows
        return Moved(lifecycle.moved(task_from(row["task"]), asked, moment_from(row["now"])), tuple(row["unblocked"]))

    return Plain((("move_plainly", parameters),), answer, lambda tx: _moved_before(tx, asked))


def plain_move_and_claim(asked: Move, then: ClaimRequest) -> Plain[Moved] | None:
    """The end of an attempt, and a claim of the next task of the same scope."""
    first, second = plain_move(asked), plain_claim(then)
    if first is None or second is None or asked.scope != then.scope:
        return None

    def answer(rows: Sequence[Row]) -> Moved:
        return first.answer(rows[:1])._replace(next=tuple(second.answer(rows[1:])))

    def found(tx: Transaction) -> Moved | None:
        moved = _moved_before(tx, asked, then.tokens)
        return None if moved is None else moved._replace(next=tuple(second.found(tx) or ()))

    return Plain((*first.statements, *second.statements), answer, found)


def _moved_before(tx: Transaction, asked: Move, tokens: Sequence[str] = ()) -> Moved | None:
    """The effect of an earlier try of this request. `tokens` are those that it claimed with."""
    row = tx.one("told_under", scope=asked.scope, id=asked.id, mark=tx.mark, tokens=list(tokens))
    return None if row is None else Moved(task_from(row["task"]), tuple(row["unblocked"]))


def _values_of(event: Event, but: frozenset[str]) -> Values:
    """The values of an event, without those that the statement sets and those that are None."""
    values: Values = event_values(event, "")["values"]  # type: ignore[assignment]  # a map in a map
    return {name: value for name, value in values.items() if value is not None and name not in but}


def _without(values: Values, names: frozenset[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}
