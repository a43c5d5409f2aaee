"""The desk's rules once more, in the plainest words: dictionaries, no indexes, nothing derived and kept.

It shares value types and errors with dibs, but not one line of logic: what the stores do is compared with this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dibs.core.errors import (
    AlreadyExists,
    CycleDetected,
    DibsError,
    Held,
    IllegalMove,
    IncompleteSubtasks,
    LostLock,
    NotForYou,
    NotFound,
    Waiting,
)
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import UNSET, Actor, Claimed, Holder, Input, Lease, Link, LinkKind, Status, Task
from dibs.stores.port import Moved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.task import Draft, Edit

Answer = TypeVar("Answer")

OVER = (Status.DONE, Status.CANCELED)
HOPELESS = "lease expired and no retry is left"
CLASSES = ("expedite", "fixed_date", "standard", "intangible")
KINDS = ("parallel_ok", "feeds_into", "blocks")  # each stronger than the one before

# Where each verb leads from where. `active` is dealt with apart, for there the lease comes into it.
FROM_IDLE = {
    Verb.BLOCK: ("backlog ready blocked escalated", Status.BLOCKED),
    Verb.CANCEL: ("backlog ready blocked paused review escalated", Status.CANCELED),
    Verb.PAUSE: ("backlog ready blocked review escalated", Status.PAUSED),
    Verb.ESCALATE: ("backlog ready blocked paused", Status.ESCALATED),
    Verb.UNBLOCK: ("blocked escalated", Status.READY),
    Verb.APPROVE: ("review", Status.DONE),
    Verb.REWORK: ("review", Status.READY),
    Verb.QUEUE: ("backlog", Status.READY),
    Verb.SHELVE: ("ready", Status.BACKLOG),
    Verb.REOPEN: ("canceled done", Status.READY),
    Verb.CLOSE: ("backlog ready blocked paused review escalated", Status.DONE),
}
FROM_ACTIVE = {
    Verb.DONE: Status.DONE,
    Verb.FAIL: Status.READY,
    Verb.BLOCK: Status.BLOCKED,
    Verb.REVIEW: Status.REVIEW,
    Verb.CANCEL: Status.CANCELED,
    Verb.RELEASE: Status.READY,
    Verb.PAUSE: Status.PAUSED,
    Verb.CLOSE: Status.DONE,
}


class Told(NamedTuple):
    """An event, as far as stores must agree on it."""

    scope: str
    task: str
    verb: str
    outcome: str = "ok"
    agent: str | None = None
    run: str | None = None
    attempt: int | None = None
    source: str | None = None
    target: str | None = None
    reason: str | None = None


class Oracle:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.tasks: dict[tuple[str, str], Task] = {}
        self.edges: dict[tuple[str, str, str], Link] = {}
        self.told: list[Told] = []

    @property
    def now(self) -> datetime:
        return self.clock()

    # Looking

    def get(self, scope: str, name: str) -> Task:
        if (scope, name) not in self.tasks:
            raise NotFound(name)
        return self.tasks[scope, name]._replace(blockers=len(self.waits_for(scope, name)))

    def all(self) -> list[Task]:
        return sorted((self.get(*key) for key in self.tasks), key=place)

    def edges_of(self, scope: str, name: str) -> list[Link]:
        """Its prerequisites of any kind."""
        return [edge for (of, task, _), edge in self.edges.items() if (of, task) == (scope, name)]

    def waits_for(self, scope: str, name: str) -> list[str]:
        """Its unfinished prerequisites."""
        gates = [edge.on for edge in self.edges_of(scope, name) if edge.kind is LinkKind.BLOCKS]
        return [on for on in gates if self.tasks[scope, on].status not in OVER]

    def waiting_for(self, scope: str, name: str) -> list[str]:
        """Its dependent tasks, finished or not."""
        return sorted(
            t for (s, t, on), e in self.edges.items() if (s, on) == (scope, name) and e.kind is LinkKind.BLOCKS
        )

    def live(self, task: Task) -> bool:
        if task.lease is None:
            return False
        if task.lease.holder is Holder.HUMAN:
            return True
        return task.lease.expires_at is not None and self.now < task.lease.expires_at

    def hopeless(self, task: Task) -> bool:
        """Expired, and no retry is left."""
        return task.status is Status.ACTIVE and not self.live(task) and not retries_left(task)

    def early(self, task: Task) -> bool:
        return task.status is Status.READY and task.not_before is not None and task.not_before > self.now

    def next_due(self) -> datetime | None:
        """When the next lease ends or the next task is due."""
        leases = [t.lease.expires_at for t in self.all() if t.lease is not None and self.live(t) and t.lease.expires_at]
        return min([*leases, *(t.not_before for t in self.all() if self.early(t) and t.not_before)], default=None)

    def up_for_work(self, task: Task) -> bool:
        if task.blockers:
            return False
        if task.status is Status.READY:
            return not self.early(task)
        return task.status is Status.ACTIVE and not self.live(task) and not self.hopeless(task)

    def peek(self, request: ClaimRequest, *, unable: bool = False) -> list[Task]:
        return [
            task
            for task in self.all()
            if request.scope in {None, task.scope}
            and self.up_for_work(task)
            and task.assigned_to in {None, request.agent}
            and (unable or set(task.requires) <= request.can)
        ]

    # Writing

    def atomically(self, act: Callable[[], Answer]) -> Answer:
        tasks, edges, told = dict(self.tasks), dict(self.edges), list(self.told)
        try:
            return act()
        except DibsError:
            self.tasks, self.edges, self.told = tasks, edges, told
            raise

    def put(self, task: Task) -> None:
        self.tasks[task.scope, task.id] = task

    def add(self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor) -> list[Task]:
        def act() -> list[Task]:
            for draft in drafts:
                self._insert(scope, draft, by)
            for draft in drafts:
                if draft.parent is not None:
                    self.get(scope, draft.parent)
                    self._refuse_cycle(scope, draft.parent, draft.id)
            for link in links:
                self._link(scope, link, by)
            return [self.get(scope, draft.id) for draft in drafts]

        return self.atomically(act)

    def _insert(self, scope: str, draft: Draft, by: Actor) -> None:
        if (scope, draft.id) in self.tasks:
            raise AlreadyExists(draft.id)
        now = self.now
        self.put(Task(scope=scope, created_at=now, updated_at=now, queued_at=now, **draft._asdict()))
        self.told.append(Told(scope, draft.id, "add", "ok", by.agent, by.run, target=draft.status))

    def link(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        return self.atomically(lambda: [link for link in links if self._link(scope, link, by)])

    def _link(self, scope: str, link: Link, by: Actor) -> bool:
        self.get(scope, link.task)
        self.get(scope, link.on)
        known = self.edges.get((scope, link.task, link.on))
        if known is not None and KINDS.index(known.kind) >= KINDS.index(link.kind):
            return False
        if link.kind is not LinkKind.PARALLEL_OK:
            self._refuse_cycle(scope, link.task, link.on)
        self._put_link(scope, link, by)
        return True

    def _put_link(self, scope: str, link: Link, by: Actor) -> None:
        self.edges[scope, link.task, link.on] = link
        self.told.append(Told(scope, link.task, "link", "ok", by.agent, by.run))

    def unlink(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        return self.atomically(lambda: [self._unlink(scope, link, by) for link in links])

    def _unlink(self, scope: str, link: Link, by: Actor) -> Link:
        self.get(scope, link.task)
        self.get(scope, link.on)
        known = self.edges.get((scope, link.task, link.on))
        if known is None or known.kind is not link.kind:
            raise NotFound(link.task)
        self.told.append(Told(scope, link.task, "unlink", "ok", by.agent, by.run))
        return self.edges.pop((scope, link.task, link.on))

    def _before(self, scope: str, name: str) -> set[str]:
        """Its prerequisites and children."""
        links = {edge.on for edge in self.edges_of(scope, name) if edge.kind is not LinkKind.PARALLEL_OK}
        return links | {child.id for child in self.tasks.values() if (child.scope, child.parent) == (scope, name)}

    def _refuse_cycle(self, scope: str, name: str, on: str) -> None:
        """`name` is to wait for `on`: that must not already, near or far, wait for `name`."""
        seen: set[str] = set()
        look = [on]
        while look:
            here = look.pop()
            if here == name:
                raise CycleDetected([name, on])
            if here not in seen:
                seen.add(here)
                look += self._before(scope, here)

    def amend(self, scope: str, name: str, edit: Edit, by: Actor) -> Task:
        task = self.get(scope, name)
        changes = self._differences(task, edit)
        if not changes:
            return task
        if task.status in OVER:
            raise IllegalMove(name)
        return self.atomically(lambda: self._amend(task, changes, by))

    def _differences(self, task: Task, edit: Edit) -> dict[str, Any]:
        wanted = {name: value for name, value in edit._asdict().items() if value is not UNSET}
        return {name: value for name, value in wanted.items() if value != getattr(task, name)}

    def _amend(self, task: Task, changes: dict[str, Any], by: Actor, *, check: bool = True) -> Task:
        self.put(task._replace(updated_at=self.now, **changes))
        if check and changes.get("parent") is not None:
            self.get(task.scope, changes["parent"])
            self._refuse_cycle(task.scope, changes["parent"], task.id)
        self.told.append(Told(task.scope, task.id, "edit", "ok", by.agent, by.run))
        return self.get(task.scope, task.id)

    # Claiming

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return self._claim_named(request) if request.ids else self._claim_next(request)

    def _claim_next(self, request: ClaimRequest) -> list[Claimed]:
        self._give_up()
        chosen = self.peek(request)[: len(request.tokens)]
        return [self._lease(task, request, token) for task, token in zip(chosen, request.tokens, strict=False)]

    def _give_up(self) -> None:
        for task in self.all():
            self.give_up(task.scope, task.id)

    def give_up(self, scope: str, name: str) -> None:
        """A lease beyond hope goes to a person. A claim must see to that; any other write may."""
        task = self.get(scope, name)
        if self.hopeless(task) and task.lease is not None:
            after = self._without_lease(task, Verb.EXHAUST)._replace(
                status=Status.ESCALATED, reason=HOPELESS, retries=task.retries + 1, updated_at=self.now
            )
            self.put(after)
            self._tell(task, "exhaust", Actor(task.lease.agent), Status.ESCALATED, HOPELESS)

    def _claim_named(self, request: ClaimRequest) -> list[Claimed]:
        scope = request.scope or ""
        by_force = request.force and request.holder is Holder.HUMAN
        for name in request.ids:
            task = self.get(scope, name)
            error = self._refusal(task, request)
            if error is None and self.hopeless(task) and not by_force:
                self._give_up()
                task = self.get(scope, name)
                error = IllegalMove(name)
            if error is not None:
                self._tell(task, "claim", request.by, task.status, error.code, "refused")
                raise error
        pairs = zip(request.ids, request.tokens, strict=True)
        return [self._lease(self.get(scope, name), request, token) for name, token in pairs]

    def _refusal(self, task: Task, request: ClaimRequest) -> DibsError | None:
        human = request.holder is Holder.HUMAN
        if task.status in OVER:
            return IllegalMove(task.id)
        if human and request.force:
            return None
        if self.live(task):
            return Held(task.id)
        if task.status not in {Status.READY, Status.ACTIVE}:
            return IllegalMove(task.id)
        if task.blockers or self.early(task):
            return Waiting(task.id)
        misfit = task.assigned_to not in {None, request.agent} or not set(task.requires) <= request.can
        return NotForYou(task.id) if misfit and not human else None

    def _lease(self, task: Task, request: ClaimRequest, token: str) -> Claimed:
        now = self.now
        ends = None if request.holder is Holder.HUMAN else now + request.lease
        attempt = task.attempt + 1
        after = task._replace(
            status=Status.ACTIVE,
            lease=Lease(token, attempt, request.agent, request.run, request.holder, now, ends),
            attempt=attempt,
            started_at=now,
            updated_at=now,
            retries=task.retries + (task.status is Status.ACTIVE and not self.live(task)),  # a takeover is no retry
            reason=None,
            unblock_action=None,
            next_check_at=None,
            not_before=None,
            ended=None,
            spent_token=None,
            finished_at=None,
            finished_by=None,
        )
        if task.status not in {Status.READY, Status.ACTIVE}:
            after = after._replace(paused_from=None, reason_before=None)
        self.put(after)
        self._tell(task._replace(attempt=attempt), "claim", request.by, Status.ACTIVE, None)
        return Claimed(after, self._inputs(task))

    def _inputs(self, task: Task) -> tuple[Input, ...]:
        links = [
            e for (s, t, _), e in self.edges.items() if (s, t) == (task.scope, task.id) and e.kind != "parallel_ok"
        ]
        before = [self.tasks[task.scope, on] for on in sorted(link.on for link in links)]
        return tuple(Input(b.id, b.title, b.result, b.artifacts) for b in before if b.status is Status.DONE)

    # Moving

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None) -> Moved:
        task = self.get(move.scope, move.id)
        try:
            repeated = self._repeated_or_refused(task, move)
        except DibsError as error:
            lost = isinstance(error, LostLock)
            if move.verb is not Verb.RENEW or lost:
                self._tell(task, move.verb, move.by, task.status, error.code, "lost" if lost else "refused")
            raise
        moved = Moved(task, repeated=True) if repeated else self._carry_out(task, move, on_cancel)
        held = [t for t in self.all() if t.lease is not None and then is not None and t.lease.token in then.tokens]
        if repeated and held:
            return moved._replace(next=tuple(Claimed(t, self._inputs(t)) for t in held))
        return moved if then is None else moved._replace(next=tuple(self._claim_next(then)))

    def _repeated_or_refused(self, task: Task, move: Move) -> bool:
        """Raise why not; True if this very move has been made already."""
        live = self.live(task)
        in_time = live or move.late_ok
        proven = move.force
        if move.token is not None:
            proven = task.lease is not None and task.lease.token == move.token and in_time
            if not proven:
                if task.lease is None and task.spent_token == move.token and task.ended == move.verb:
                    return True
                raise LostLock(task.id)
        elif move.named and task.lease is not None and task.lease.agent == move.by.agent and in_time:
            proven = True
        self._refuse_illegal(task, move)
        if task.status is Status.ACTIVE and not proven:
            raise Held(task.id) if live else IllegalMove(task.id)
        if move.verb is Verb.CLOSE and task.blockers and not move.force:
            raise Waiting(task.id)
        if move.verb in {Verb.DONE, Verb.APPROVE, Verb.CLOSE}:
            family = [t for t in self.tasks.values() if (t.scope, t.parent) == (task.scope, task.id)]
            if any(child.status not in OVER for child in family):
                raise IncompleteSubtasks(task.id)
        return False

    def _refuse_illegal(self, task: Task, move: Move) -> None:
        if move.verb not in verbs_from(task.status):
            raise IllegalMove(task.id)

    def _carry_out(self, task: Task, move: Move, on_cancel: CanceledBlocker) -> Moved:
        after = self._after(task, move)._replace(updated_at=self.now)
        if move.requeue:
            after = after._replace(queued_at=self.now)
        self.put(after)
        if move.verb is not Verb.RENEW:
            gave_up = move.verb is Verb.FAIL and after.status is Status.ESCALATED
            self._tell(task, "exhaust" if gave_up else move.verb, holder_or(task, move.by), after.status, move.reason)
        drawn: list[str] = []
        if after.status is Status.CANCELED and on_cancel is not CanceledBlocker.RESOLVES:
            drawn = self._draw_along(after, move.by, on_cancel)
        over = [after.id, *drawn] if after.status in OVER else []
        freed = {name for gone in over for name in self.waiting_for(task.scope, gone)}
        unblocked = sorted(name for name in freed if name not in drawn and self.up_for_work(self.get(task.scope, name)))
        cascading = on_cancel is CanceledBlocker.CASCADES
        return Moved(
            self.get(task.scope, task.id),
            tuple(unblocked),
            () if cascading else tuple(sorted(drawn)),
            tuple(sorted(drawn)) if cascading else (),
        )

    def _after(self, task: Task, move: Move) -> Task:
        if task.status is Status.ACTIVE:
            return self._after_work(task, move)
        if move.verb is Verb.RESUME:
            status, reason = task.paused_from or Status.READY, task.reason_before
            return task._replace(status=status, reason=reason, paused_from=None, reason_before=None)
        after = self._after_idling(task, move)._replace(status=FROM_IDLE[move.verb][1])
        return after if after.status is Status.PAUSED else after._replace(reason_before=None)

    def _after_work(self, task: Task, move: Move) -> Task:
        assert task.lease is not None
        if move.verb is Verb.RENEW:
            if move.lease is None or task.lease.holder is Holder.HUMAN:
                return task
            return task._replace(lease=task.lease._replace(expires_at=self.now + move.lease))
        after = self._without_lease(task, move.verb)._replace(status=FROM_ACTIVE[move.verb], reason=move.reason)
        if move.verb in {Verb.DONE, Verb.REVIEW, Verb.CLOSE}:
            after = after._replace(
                result=task.result if move.result is None else move.result,
                artifacts=move.artifacts or task.artifacts,
                finished_by=task.lease.agent,
            )
        return self._after_attempt(after, move)

    def _after_attempt(self, after: Task, move: Move) -> Task:
        match move.verb:
            case Verb.DONE | Verb.CLOSE:
                return after._replace(finished_at=self.now, reason=None)
            case Verb.CANCEL:
                return after._replace(finished_at=self.now)
            case Verb.FAIL if retries_left(after):
                return after._replace(retries=after.retries + 1, not_before=move.not_before)
            case Verb.FAIL:
                return after._replace(retries=after.retries + 1, status=Status.ESCALATED)
            case Verb.RELEASE:
                return after._replace(not_before=move.not_before)
            case Verb.BLOCK:
                return after._replace(unblock_action=move.unblock_action, next_check_at=move.next_check_at)
            case Verb.PAUSE:
                return after._replace(paused_from=Status.READY)
        return after

    def _after_idling(self, task: Task, move: Move) -> Task:
        match move.verb:
            case Verb.BLOCK:
                return task._replace(
                    reason=move.reason, unblock_action=move.unblock_action, next_check_at=move.next_check_at
                )
            case Verb.CANCEL:
                return task._replace(reason=move.reason, finished_at=self.now)
            case Verb.PAUSE:
                return task._replace(reason=move.reason, paused_from=task.status, reason_before=task.reason)
            case Verb.ESCALATE:
                return task._replace(reason=move.reason)
            case Verb.UNBLOCK:
                after = task._replace(reason=None, unblock_action=None, next_check_at=None)
                return after._replace(retries=0, paused_from=None) if task.status is Status.ESCALATED else after
            case Verb.APPROVE:
                return task._replace(reason=None, finished_at=self.now)
            case Verb.CLOSE:
                return self._after_closing(task, move)
            case Verb.REWORK:
                return task._replace(reason=move.reason, finished_by=None)
            case Verb.REOPEN:
                return _reopened(task)
        return task

    def _after_closing(self, task: Task, move: Move) -> Task:
        if task.status is Status.REVIEW:
            return task._replace(reason=None, finished_at=self.now)
        after = task._replace(reason=None, unblock_action=None, next_check_at=None, paused_from=None)
        return after._replace(
            finished_at=self.now,
            finished_by=move.by.agent,
            result=task.result if move.result is None else move.result,
            artifacts=move.artifacts or task.artifacts,
        )

    def _without_lease(self, task: Task, verb: Verb) -> Task:
        return task._replace(lease=None, ended=str(verb), spent_token=task.lease.token if task.lease else None)

    def _draw_along(self, canceled: Task, by: Actor, on_cancel: CanceledBlocker) -> list[str]:
        drawn: list[str] = []
        gone = [canceled.id]
        touched = {Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED}
        cascading = on_cancel is CanceledBlocker.CASCADES
        while gone:
            cause = gone.pop()
            for name in self.waiting_for(canceled.scope, cause):
                task = self.get(canceled.scope, name)
                if task.status not in touched | ({Status.ESCALATED} if cascading else set()):
                    continue
                why = f"prerequisite {cause} was canceled"
                after = task._replace(status=Status.ESCALATED, reason=why, updated_at=self.now)
                if cascading:
                    after = after._replace(status=Status.CANCELED, finished_at=self.now)
                    gone.append(name)
                self.put(after)
                self._tell(task, "cancel" if cascading else "escalate", by, after.status, why)
                drawn.append(name)
        return drawn

    def _tell(self, task: Task, verb: str, by: Actor, target: Status, reason: str | None, outcome: str = "ok") -> None:
        """Something happened to a task, which is given as it was before."""
        attempt = task.attempt or None
        self.told.append(
            Told(task.scope, task.id, str(verb), outcome, by.agent, by.run, attempt, task.status, target, reason)
        )


def _reopened(task: Task) -> Task:
    after = task._replace(reason=None, unblock_action=None, next_check_at=None, finished_at=None, finished_by=None)
    after = after._replace(merged_into=None, retries=0)
    return after._replace(ended=None, spent_token=None) if task.status is Status.DONE else after


def verbs_from(status: Status) -> list[Verb]:
    if status is Status.ACTIVE:
        return [*FROM_ACTIVE, Verb.RENEW]
    ways = [verb for verb, (sources, _) in FROM_IDLE.items() if status in sources.split()]
    return [*ways, Verb.RESUME] if status is Status.PAUSED else ways


def holder_or(task: Task, by: Actor) -> Actor:
    """The actor of an event: the caller, or else the holder."""
    return by if by.agent or task.lease is None else Actor(task.lease.agent, by.run)


def retries_left(task: Task) -> bool:
    return task.max_retries is None or task.retries < task.max_retries


def place(task: Task) -> tuple[Any, ...]:
    """The position of a task in the order."""
    first = 0 if task.override else 1
    return (CLASSES.index(task.service_class), first, task.priority, task.queued_at, task.id, task.scope)
