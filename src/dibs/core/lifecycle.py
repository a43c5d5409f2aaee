"""A task's life as one table of data, and the pure functions that read it.

A rule says: from this status, this verb leads to that status, needs this proof, sets these fields and clears those.
Stores load a task, ask `moved` or `claimed` what it becomes, and write that down. One store mirrors a part of the
table: PostgreSQL's statements `claim_head`, `claim_heads`, `renew` and `finish` (`stores/postgres/queries.sql`) and its
functions `lease_out`, `finish_and_claim` and `close_all` (`stores/postgres/migrations/0008_store.sql`) write the plain
claim, renewal and finish. Change them with the table; `tests/stores/postgres/test_quick_ways.py` compares all columns.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from dibs.core.errors import DibsError, Held, IllegalMove, IncompleteSubtasks, LostLock, NotForYou, Waiting
from dibs.core.fields import EVERY, Filter
from dibs.core.messages import command
from dibs.core.policy import CanceledBlocker
from dibs.core.task import TERMINAL, UNSET, Actor, Holder, Json, Lease, Status, Task, Unset
from dibs.core.times import in_words


class Verb(StrEnum):
    CLAIM = "claim"
    RENEW = "renew"
    DONE = "done"
    FAIL = "fail"
    EXHAUST = "exhaust"  # a failure or an expiry after which no retry is left
    BLOCK = "block"
    UNBLOCK = "unblock"
    REVIEW = "review"
    APPROVE = "approve"
    REWORK = "rework"
    CANCEL = "cancel"
    RELEASE = "release"
    PAUSE = "pause"
    RESUME = "resume"
    QUEUE = "queue"
    SHELVE = "shelve"
    REOPEN = "reopen"
    CLOSE = "close"  # a person finishes a task that no agent works on
    ESCALATE = "escalate"


class Proof(StrEnum):
    """What a caller must show: nothing, the live lease's token, or that a person overrules."""

    NONE = "none"
    LEASE = "lease"
    PERSON = "person"


class Rule(NamedTuple):
    """`target` None means: back to the status it was paused from."""

    source: Status
    verb: Verb
    target: Status | None
    proof: Proof = Proof.NONE
    sets: frozenset[str] = frozenset()
    clears: frozenset[str] = frozenset()


def _rule(
    source: Status, verb: Verb, target: Status | None, *, sets: str = "", clears: str = "", proof: Proof = Proof.NONE
) -> Rule:
    return Rule(source, verb, target, proof, frozenset(sets.split()), frozenset(clears.split()))


def _ends_lease(verb: Verb, target: Status, *, sets: str = "", clears: str = "") -> Rule:
    """A rule that leaves `active`: it needs the lease's proof, ends the lease, and keeps its token as spent."""
    return _rule(
        Status.ACTIVE, verb, target, proof=Proof.LEASE, sets=f"ended spent_token {sets}", clears=f"lease {clears}"
    )


_B, _R, _A, _K = Status.BACKLOG, Status.READY, Status.ACTIVE, Status.BLOCKED
_P, _V, _E, _D, _C = Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.DONE, Status.CANCELED
_WHY_BLOCKED = "reason unblock_action next_check_at"
_WHY_PAUSED = "reason paused_from reason_before"
_BEFORE_PAUSE = "paused_from reason_before"
_FRESH = "reason unblock_action next_check_at not_before ended spent_token finished_at finished_by"

RULES: tuple[Rule, ...] = (
    _rule(_R, Verb.CLAIM, _A, sets="attempt lease started_at", clears=_FRESH),
    _rule(_A, Verb.CLAIM, _A, sets="attempt lease started_at retries", clears=_FRESH),
    *(
        _rule(
            source,
            Verb.CLAIM,
            _A,
            proof=Proof.PERSON,
            sets="attempt lease started_at",
            clears=f"{_FRESH} {_BEFORE_PAUSE}",
        )
        for source in (_B, _K, _P, _V, _E)
    ),
    _rule(_A, Verb.RENEW, _A, proof=Proof.LEASE, sets="lease"),
    _ends_lease(Verb.DONE, _D, sets="result artifacts finished_at finished_by", clears="reason"),
    _ends_lease(Verb.FAIL, _R, sets="reason retries not_before"),
    _ends_lease(Verb.EXHAUST, _E, sets="reason retries"),
    _ends_lease(Verb.BLOCK, _K, sets=_WHY_BLOCKED),
    _ends_lease(Verb.REVIEW, _V, sets="reason result artifacts finished_by"),
    _ends_lease(Verb.CANCEL, _C, sets="reason finished_at merged_into"),
    _ends_lease(Verb.RELEASE, _R, sets="reason not_before"),
    _ends_lease(Verb.PAUSE, _P, sets=_WHY_PAUSED),
    *(_rule(source, Verb.BLOCK, _K, sets=_WHY_BLOCKED) for source in (_B, _R, _K, _E)),
    *(_rule(source, Verb.CANCEL, _C, sets="reason finished_at merged_into") for source in (_B, _R, _K, _V, _E)),
    _rule(_P, Verb.CANCEL, _C, sets="reason finished_at merged_into", clears="reason_before"),
    *(_rule(source, Verb.PAUSE, _P, sets=_WHY_PAUSED) for source in (_B, _R, _K, _V, _E)),
    *(_rule(source, Verb.ESCALATE, _E, sets="reason") for source in (_B, _R, _K)),
    _rule(_P, Verb.ESCALATE, _E, sets="reason", clears="reason_before"),
    _rule(_P, Verb.RESUME, None, sets="reason", clears=_BEFORE_PAUSE),
    _rule(_K, Verb.UNBLOCK, _R, clears=_WHY_BLOCKED),
    _rule(_E, Verb.UNBLOCK, _R, clears=f"{_WHY_BLOCKED} retries paused_from"),
    _ends_lease(Verb.CLOSE, _D, sets="result artifacts finished_at finished_by", clears="reason"),
    *(
        _rule(
            source,
            Verb.CLOSE,
            _D,
            sets="result artifacts finished_at finished_by",
            clears=f"{_WHY_BLOCKED} {_BEFORE_PAUSE}",
        )
        for source in (_B, _R, _K, _P, _E)
    ),
    _rule(_V, Verb.CLOSE, _D, sets="finished_at", clears="reason"),
    _rule(_V, Verb.APPROVE, _D, sets="finished_at", clears="reason"),
    _rule(_V, Verb.REWORK, _R, sets="reason", clears="finished_by"),
    _rule(_B, Verb.QUEUE, _R),
    _rule(_R, Verb.SHELVE, _B),
    _rule(_C, Verb.REOPEN, _R, clears=f"{_WHY_BLOCKED} finished_at finished_by merged_into retries"),
    _rule(_D, Verb.REOPEN, _R, clears=f"{_WHY_BLOCKED} finished_at finished_by merged_into retries ended spent_token"),
)

# Verbs that the desk uses itself. Error messages do not suggest them.
_INTERNAL = frozenset({Verb.EXHAUST, Verb.ESCALATE, Verb.QUEUE, Verb.SHELVE})

# A claim comes with a lease, and giving up is decided by the desk: neither can be asked for as a move.
_NOT_MOVES = frozenset({Verb.CLAIM, Verb.EXHAUST})

LEASE_RAN_OUT = "lease expired and no retry is left"

_BY_SOURCE = {(rule.source, rule.verb): rule for rule in RULES}


class Move(NamedTuple):
    """A request for a transition, with the fields that it sets."""

    verb: Verb
    id: str
    scope: str
    by: Actor = Actor()
    token: str | None = None
    named: bool = False  # the policy takes the holder's name for proof
    late_ok: bool = False  # the policy accepts a holder with an expired lease until another agent claims the task
    force: bool = False  # a person overrules the check, which the event records
    requeue: bool = False  # the policy orders by last change
    lease: timedelta | None = None
    assigned_to: str | Unset | None = UNSET  # to be the task's from now on
    reason: str | None = None
    result: Json = None
    artifacts: tuple[str, ...] = ()
    unblock_action: str | None = None
    next_check_at: datetime | None = None
    not_before: datetime | None = None
    extra: Mapping[str, Json] = {}  # extra fields of the task to set along with it; None takes one out
    merged_into: str | None = None  # canceled in favour of this one, which says the same

    def __repr__(self) -> str:
        """Without the token: it is a secret."""
        return f"Move({self.verb} {self.scope}/{self.id} by {self.by.agent})"

    @property
    def restates(self) -> bool:
        """Whether the move changes other fields than the status."""
        return bool(self.extra) or self.assigned_to is not UNSET


_CLAIM = Move(Verb.CLAIM, "", "")  # the lease carries the details of a claim


class ClaimRequest(NamedTuple):
    """Ask for as many tasks as there are tokens: the next ones, or those named by `ids`.

    `scope` None means any. The caller mints the tokens, so a claim whose answer got lost can be recognised.
    """

    agent: str
    tokens: tuple[str, ...]
    scope: str | None = None
    ids: tuple[str, ...] = ()
    run: str | None = None
    holder: Holder = Holder.AGENT
    lease: timedelta = timedelta(minutes=20)
    can: frozenset[str] = frozenset()
    force: bool = False  # a person takes over; only with holder HUMAN
    assigned: bool = False  # only tasks that are assigned to this agent
    only: Filter = EVERY

    def __repr__(self) -> str:
        """Without the tokens: they are secrets."""
        named = ", ".join(self.ids) or f"next {len(self.tokens)}"
        return f"ClaimRequest({self.agent} {self.scope or 'any scope'}: {named})"

    @property
    def by(self) -> Actor:
        return Actor(self.agent, self.run)

    @property
    def takes_over(self) -> bool:
        """Whether a person takes the task from its holder. Agents cannot."""
        return self.force and self.holder is Holder.HUMAN


def rule_for(task: Task, verb: Verb) -> Rule:
    rule = _BY_SOURCE.get((task.status, verb))
    if rule is None:
        allowed = sorted(r.verb for r in RULES if r.source is task.status and r.verb not in _INTERNAL)
        hint = f"From there: {', '.join(allowed)}."
        if verb is Verb.DONE:
            hint = f"Claim it first, or finish it as a person: '{command('dibs', 'close', task.id)}'. {hint}"
        if task.status in TERMINAL:
            hint = f"'{command('dibs', 'reopen', task.id)}' makes it ready again."
        raise IllegalMove(f"{task.id} is {task.status}; '{verb}' does not apply. {hint}")
    return rule


_PLACING = {
    (_B, _R): Verb.QUEUE,
    (_R, _B): Verb.SHELVE,
    (_C, _R): Verb.REOPEN,
    (_D, _R): Verb.REOPEN,
    (_K, _R): Verb.UNBLOCK,
    (_E, _R): Verb.UNBLOCK,
    (_P, _R): Verb.RESUME,
}


def verb_to(task: Task, status: Status) -> Verb:
    """The verb that takes an idle task to ready or backlog."""
    verb = _PLACING.get((task.status, status))
    if verb is None or (verb is Verb.RESUME and task.paused_from not in {None, status}):
        raise IllegalMove(f"{task.id} is {task.status}; an edit cannot make it {status}.")
    return verb


def moved(task: Task, move: Move, now: datetime) -> Task:
    """The task after the move. Raises if the move is not allowed; a repeated finish changes nothing."""
    if move.token is not None and not _proves(task, move, now):
        if _repeats(task, move):
            return task
        raise _lost(task, move, now)
    rule = rule_for(task, move.verb)
    if rule.verb in _NOT_MOVES:
        raise IllegalMove(f"'{rule.verb}' is not done by moving a task.")
    if rule.verb is Verb.CLOSE and task.blockers and not move.force:
        show = command("dibs", "show", task.id)
        raise Waiting(
            f"{task.id} waits for {task.blockers} unfinished prerequisite(s); see '{show}'. --force closes it."
        )
    if rule.verb is Verb.FAIL and _no_retry_left(task):
        rule = _BY_SOURCE[_A, Verb.EXHAUST]
    if rule.proof is Proof.LEASE and move.token is None and not move.force and not _named(task, move, now):
        raise _held(task, now, f"'{move.verb}' needs the token that its claim returned (--token or DIBS_TOKEN)")
    return _after(task, rule, move, now)


def claimed(task: Task, request: ClaimRequest, token: str, now: datetime) -> Task:
    """The task under a new lease, as a new attempt."""
    rule = rule_for(task, Verb.CLAIM)
    expires = None if request.holder is Holder.HUMAN else now + request.lease
    lease = Lease(token, task.attempt + 1, request.agent, request.run, request.holder, now, expires)
    return _after(task, rule, _CLAIM, now, lease)


def exhausted(task: Task, now: datetime) -> Task | None:
    """The escalated task if its lease has expired and no retry is left, else None."""
    if task.status is not _A or task.held(now) or not _no_retry_left(task):
        return None
    move = Move(Verb.EXHAUST, task.id, task.scope, reason=LEASE_RAN_OUT, force=True)
    return _after(task, _BY_SOURCE[_A, Verb.EXHAUST], move, now)


def refusal(task: Task, request: ClaimRequest, now: datetime) -> DibsError | None:
    """Why this task cannot be claimed by this request now, or None if it can."""
    if task.status in TERMINAL:
        return IllegalMove(f"{task.id} is {task.status}: it cannot be claimed.")
    if request.takes_over:
        return None
    if task.held(now):
        return _held(task, now, "pick another task, or try again later")
    if rule_for(task, Verb.CLAIM).proof is Proof.PERSON:
        why = f" ({task.reason})" if task.reason else ""
        return IllegalMove(f"{task.id} is {task.status}{why}: it cannot be claimed.")
    if task.blockers:
        show = command("dibs", "show", task.id)
        return Waiting(f"{task.id} waits for {task.blockers} unfinished prerequisite(s); see '{show}'.")
    if task.status is _R and task.not_before is not None and now < task.not_before:
        wait = task.not_before - now
        return Waiting(f"{task.id} is not due for another {in_words(wait)}.", retry_after_ms=_milliseconds(wait))
    return None if request.holder is Holder.HUMAN else _not_for(task, request)


def _not_for(task: Task, request: ClaimRequest) -> DibsError | None:
    """Why a task that is free is not for this agent."""
    if task.assigned_to != request.agent and (task.assigned_to is not None or request.assigned):
        return NotForYou(f"{task.id} is assigned to {task.assigned_to or 'nobody yet'}.")
    missing = sorted(set(task.requires) - request.can)
    if missing:
        return NotForYou(f"{task.id} requires {', '.join(missing)}; pass it with --can if you have it.")
    if not request.only.matches(task):
        return NotForYou(f"{task.id} does not match your filter: {request.only}.")
    return None


def _no_retry_left(task: Task) -> bool:
    return task.max_retries is not None and task.retries >= task.max_retries


def _proves(task: Task, move: Move, now: datetime) -> bool:
    lease = task.lease
    return lease is not None and lease.token == move.token and (move.late_ok or lease.live(now))


def _named(task: Task, move: Move, now: datetime) -> bool:
    lease = task.lease
    named = move.named and lease is not None and lease.agent == move.by.agent
    return named and (move.late_ok or task.held(now))


def _repeats(task: Task, move: Move) -> bool:
    """Whether this is the repetition of a finish whose answer was lost."""
    return task.lease is None and task.spent_token == move.token and task.ended == move.verb


def _takes_over(task: Task, move: Move, now: datetime) -> bool:
    """Whether a person takes over a live lease. The ended attempt had not failed, so it is not a retry."""
    return move.verb is Verb.CLAIM and task.held(now)


# How fields that a rule sets get their values. Fields not named here come from the move unchanged.
_COMPUTED: dict[str, Callable[[Task, Move, datetime], object]] = {
    "attempt": lambda task, _move, _now: task.attempt + 1,
    "retries": lambda task, move, now: task.retries if _takes_over(task, move, now) else task.retries + 1,
    "started_at": lambda _task, _move, now: now,
    "finished_at": lambda _task, _move, now: now,
    "finished_by": lambda task, move, _now: task.lease.agent if task.lease else move.by.agent,
    "ended": lambda _task, move, _now: str(move.verb),
    "spent_token": lambda task, _move, _now: task.lease.token if task.lease else None,
    "reason": lambda task, move, _now: task.reason_before if move.verb is Verb.RESUME else move.reason,
    "reason_before": lambda task, _move, _now: task.reason,
    "paused_from": lambda task, _move, _now: _R if task.status is _A else task.status,
    "lease": lambda task, move, now: _renewed(task.lease, move, now),
    "result": lambda task, move, _now: task.result if move.result is None else move.result,
    "artifacts": lambda task, move, _now: move.artifacts or task.artifacts,
}

_BLANK = Task._field_defaults


# What each rule clears and sets, by the field's place in a task: this runs for every claim and every finish.
_PLACE = {name: place for place, name in enumerate(Task._fields)}
_LEASE, _QUEUED_AT, _STATUS, _UPDATED_AT = (_PLACE[name] for name in ("lease", "queued_at", "status", "updated_at"))
_EXTRA, _ASSIGNED_TO = _PLACE["extra"], _PLACE["assigned_to"]
_CLEARING = {rule: [(_PLACE[name], _BLANK[name]) for name in rule.clears] for rule in RULES}
_SETTING = {rule: [(_PLACE[name], name, _COMPUTED.get(name)) for name in rule.sets] for rule in RULES}


def _after(task: Task, rule: Rule, move: Move, now: datetime, lease: Lease | None = None) -> Task:
    """The task after a rule was applied, under a new lease if one is given."""
    values: list[object] = list(task)
    for place, blank in _CLEARING[rule]:
        values[place] = blank
    for place, name, compute in _SETTING[rule]:
        values[place] = compute(task, move, now) if compute else getattr(move, name)
    if lease is not None:
        values[_LEASE] = lease
    if move.requeue:
        values[_QUEUED_AT] = now
    if move.assigned_to is not UNSET:
        values[_ASSIGNED_TO] = move.assigned_to
    if move.extra:
        values[_EXTRA] = {name: value for name, value in {**task.extra, **move.extra}.items() if value is not None}
    values[_STATUS] = rule.target or task.paused_from or _R
    values[_UPDATED_AT] = now
    return Task._make(values)


def _renewed(lease: Lease | None, move: Move, now: datetime) -> Lease | None:
    if lease is None or move.lease is None or lease.holder is Holder.HUMAN:
        return lease
    return lease._replace(expires_at=now + move.lease)


def _held(task: Task, now: datetime, advice: str) -> DibsError:
    lease = task.lease
    if lease is None or not lease.live(now):
        return IllegalMove(f"{task.id} is {task.status} and its lease has expired; claim it first.")
    if lease.expires_at is None:
        return Held(f"{task.id} is held by {lease.agent or 'a person'} (human); {advice}.", holder=lease.agent)
    left = lease.expires_at - now
    return Held(
        f"{task.id} is held by {lease.agent or 'an agent'} for another {in_words(left)}; {advice}.",
        holder=lease.agent,
        retry_after_ms=_milliseconds(left),
    )


def _lost(task: Task, move: Move, now: datetime) -> LostLock:
    lease = task.lease
    if lease is not None and lease.token == move.token and lease.expires_at is not None:
        late = in_words(now - lease.expires_at)
        return LostLock(f"Your lease on {task.id} expired {late} ago. Nothing was changed; stop working on it.")
    if lease is not None and lease.live(now):
        return LostLock(
            f"{task.id} is now held by {lease.agent} (attempt {lease.attempt}). Nothing was changed; stop here.",
            holder=lease.agent,
        )
    return LostLock(f"You no longer hold {task.id}; it is {task.status}. Nothing was changed; stop working on it.")


def _milliseconds(span: timedelta) -> int:
    return max(0, span // timedelta(milliseconds=1))


# A canceled prerequisite does not affect active or finished tasks.
_IDLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED, Status.ESCALATED})


class Consequences:
    """The effects of a move on other tasks."""

    def __init__(self) -> None:
        self.unblocked: list[str] = []
        self.escalated: list[str] = []
        self.canceled: list[str] = []

    def drawn(self, verb: Verb, task: str) -> None:
        (self.canceled if verb is Verb.CANCEL else self.escalated).append(task)

    def settle(self) -> None:
        """Tasks that were canceled or escalated with their prerequisite are not unblocked."""
        drawn = {*self.escalated, *self.canceled}
        self.unblocked = [task for task in self.unblocked if task not in drawn]


def pull(on_cancel: CanceledBlocker) -> Verb | None:
    """The verb that a canceled prerequisite applies to its dependent tasks, by the policy."""
    return {CanceledBlocker.CASCADES: Verb.CANCEL, CanceledBlocker.ESCALATES: Verb.ESCALATE}.get(on_cancel)


def goes_along(task: Task, verb: Verb) -> bool:
    return task.status in _IDLE and not (task.status is Status.ESCALATED and verb is Verb.ESCALATE)


def going_along(task: str, scope: str, verb: Verb, canceled: str, by: Actor) -> Move:
    return Move(verb, task, scope, by, reason=f"prerequisite {canceled} was canceled")


def refuse_unfinished(task: Task, children: Sequence[str]) -> None:
    """Raise if a parent has unfinished children; the error names some of them."""
    if children:
        raise IncompleteSubtasks(
            f"{task.id} has unfinished sub-tasks: {', '.join(children)}. Finish or cancel them first."
        )
