"""Claims, renewals and finishes of the plain kind, each one statement that commits by itself.

The lifecycle is asked what becomes of a stand-in, at a time that stands for any: whatever differs then is what the
statement writes, with the server's time in place of that one. The statement judges nothing but whether the case is
plain, under the scope's lock; what becomes of the real task, the lifecycle says afterwards.
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from dibs.core import lifecycle, telling
from dibs.core.events import Event
from dibs.core.fields import EVERY
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.task import Claimed, Holder, Lease, Status, Task
from dibs.stores.neo4j import claims
from dibs.stores.neo4j.history import event_values
from dibs.stores.neo4j.rows import Row, Values, difference, input_from, moment_from, task_from
from dibs.stores.neo4j.transaction import Transaction
from dibs.stores.port import Moved

Value = TypeVar("Value", covariant=True)  # noqa: PLC0105 - named as in the other modules

_UNSAID = "\0"  # no text that anybody gives
_THEN = datetime.min.replace(tzinfo=UTC)
_LEASE = Lease(_UNSAID, 1, _UNSAID * 2, _UNSAID, Holder.AGENT, _THEN, _THEN.replace(year=2))
_FREE = Task(
    "", "", "", _THEN, _THEN, _THEN, reason=_UNSAID, finished_at=_THEN.replace(year=3), finished_by=_UNSAID,
    not_before=_THEN, ended=_UNSAID, spent_token=_UNSAID, unblock_action=_UNSAID, next_check_at=_THEN,
)  # fmt: skip
_HELD = _FREE._replace(status=Status.ACTIVE, attempt=1, lease=_LEASE, spent_token=None)

_MOVES = frozenset({Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.RENEW, Verb.BLOCK, Verb.REVIEW, Verb.PAUSE})

# What the statements derive from the task itself or from the time.
_CLAIMING = frozenset({"attempt", "started_at", "claimed_at", "expires_at", "updated_at", "wakes_at", "place"})
_MOVING = frozenset({"finished_by", "retries", "completed_at", "expires_at", "updated_at", "wakes_at", "place"})
_OF_THE_EVENT = frozenset({"timestamp", "dispatched_at", "attempt", "mark"})


class Plain(NamedTuple, Generic[Value]):
    """`answer` reads the row; without one the case is not plain. `found` looks for what was done if no answer came."""

    statement: str
    parameters: Values
    answer: Callable[[Row], Value]
    found: Callable[[Transaction], Value | None]


def claim(request: ClaimRequest) -> Plain[list[Claimed]] | None:
    """For who asks for the next task of one scope."""
    plain = request.scope is not None and not request.assigned and request.only is EVERY
    if not plain or request.ids or len(request.tokens) != 1:
        return None
    (token,) = request.tokens
    values, event = _claimed(request.agent, request.run, request.holder, request.scope)
    parameters: Values = {
        "scope": request.scope, "agent": request.agent, "can": sorted(request.can),
        "lease": None if request.holder is Holder.HUMAN else request.lease,
        "values": values | {"claim_attempt_id": token}, "event": event | {"id": str(uuid.uuid4())},
    }  # fmt: skip

    def answer(row: Row) -> list[Claimed]:
        if row["task"] is None:
            return []
        after = lifecycle.claimed(task_from(row["task"]), request, token, moment_from(row["now"]))
        return [Claimed(after, tuple(input_from(each) for each in row["inputs"]))]

    return Plain("claim_plainly", parameters, answer, lambda tx: claims.held_under(tx, request) or None)


@lru_cache(maxsize=64)
def _claimed(agent: str, run: str | None, holder: Holder, scope: str) -> tuple[Values, Values]:
    """What a claim writes on a task and into its event: the same for every task that an agent takes."""
    request = ClaimRequest(agent, (_UNSAID,), scope, run=run, holder=holder)
    held = lifecycle.claimed(_FREE, request, _UNSAID, _THEN)
    event = telling.claimed(_FREE, held, request)._replace(scope=scope)
    return _without(difference(_FREE, held, _THEN), _CLAIMING), _values_of(event, _OF_THE_EVENT | {"task_id"})


def move(asked: Move) -> Plain[Moved] | None:
    """For who shows the token of a lease."""
    unusual = asked.force or asked.requeue or asked.restates
    if asked.token is None or asked.by.agent is None or unusual or asked.verb not in _MOVES:
        return None
    after = lifecycle.moved(_HELD, asked._replace(token=_UNSAID), _THEN)
    values = difference(_HELD, after, _THEN)
    event = _values_of(telling.moved(_HELD, after, asked), _OF_THE_EVENT)
    renews = asked.verb is Verb.RENEW
    parameters: Values = {
        "scope": asked.scope, "id": asked.id, "token": asked.token, "late_ok": asked.late_ok,
        "closes": after.finished, "fails": "retries" in values, "signs": "finished_by" in values, "renews": renews,
        "lease": asked.lease, "values": _without(values, _MOVING),
        "events": [] if renews else [event | {"sender_hash": asked.scope, "task_id": asked.id}],
    }  # fmt: skip

    def answer(row: Row) -> Moved:
        return Moved(lifecycle.moved(task_from(row["task"]), asked, moment_from(row["now"])), tuple(row["unblocked"]))

    return Plain("move_plainly", parameters, answer, lambda tx: _told(tx, asked))


def _told(tx: Transaction, asked: Move) -> Moved | None:
    row = tx.one("told_under", scope=asked.scope, id=asked.id, mark=tx.mark)
    return None if row is None else Moved(task_from(row["task"]), tuple(row["unblocked"]))


def _values_of(event: Event, but: frozenset[str]) -> Values:
    """Without what the statement itself says, nor what is nothing: the node is new."""
    values: Values = event_values(event, "")["values"]  # type: ignore[assignment]  # a map in a map
    return {name: value for name, value in values.items() if value is not None and name not in but}


def _without(values: Values, names: frozenset[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}
