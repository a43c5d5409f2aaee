"""Dispatch: assign each free task to an enrolled agent, round after round, and report tasks that cannot be assigned.

A round reads, decides and writes. The decision is `routing.place`; the write is `assign`, which checks the task and
the agent's limit again in one transaction. So a dispatcher with old data, or a second one, assigns no task twice and
no agent more than its limit.

Of several dispatchers one leads: it holds the lease of a task in a reserved scope, which requires a capability that no
agent has by accident. A dispatcher that wakes up late may still believe that it leads, so its writes must do no harm.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import AlreadyExists, DibsError, LostLock, StoreError, StoreReplaced
from dibs.core.events import Outcome
from dibs.core.fleet import Assignment, Member
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.sender import is_sender_hash
from dibs.core.task import Actor, Draft, LinkKind, Status, Task, is_internal
from dibs.core.times import in_words
from dibs.fleet.routing import ROUTING, Placement, QueuedTask, Roster, RoutingProblem, Unserved, place
from dibs.mail import Fact, Note, sender_box
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.desk import Desk


_REMEMBERED = 500  # events to estimate durations from
_TOLD_AT_ONCE = 20


class Overload:
    """Notifies each sender once of a task that waits because all capable agents are busy, with the expected delay."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._notified: set[tuple[str, str]] = set()

    def notify(self, queued: Sequence[QueuedTask], members: Sequence[Member]) -> timedelta | None:
        """The expected start of the first task. Each sender gets one note per task."""
        usual = usual_duration(self._desk.events(last=_REMEMBERED, anywhere=True))
        fresh = [one for one in queued if (one.task.scope, one.task.id) not in self._notified]
        for one in [one for one in fresh if is_sender_hash(one.task.scope)][:_TOLD_AT_ONCE]:
            self._notified.add((one.task.scope, one.task.id))
            delay = expected(one, members, usual)
            text = f"“{one.task.title}” waits: every agent that could do it is busy. {_expected_in_words(delay)}"
            extra = {"expected_seconds": None if delay is None else round(delay.total_seconds())}
            note = Note("delay", text, (Fact(f"delay.{one.task.id}", one.task.id),), extra)
            sender_box(self._desk, one.task.scope).report_once(note)
        return expected(queued[0], members, usual)


def expected(queued: QueuedTask, members: Sequence[Member], usual: timedelta | None) -> timedelta | None:
    """The turns of all agents with the role until this task's turn; None if unknown."""
    slots = sum(member.limit for member in members if member.role == queued.role)
    if usual is None or slots == 0:
        return None
    return usual * ceil((queued.ahead + 1) / slots)


def usual_duration(events: Sequence[Event]) -> timedelta | None:
    """The median time from claim to done in these events, the oldest first."""
    begun: dict[tuple[str, str], Event] = {}
    spans = []
    for event in events:
        place = (event.scope, event.task)
        if event.outcome is not Outcome.OK:
            continue
        if event.verb == "claim":
            begun[place] = event
        elif event.verb == "done" and place in begun:
            spans.append((event.at - begun.pop(place).at).total_seconds())
    return timedelta(seconds=median(spans)) if spans else None


def _expected_in_words(delay: timedelta | None) -> str:
    if delay is None:
        return "It is next in line as soon as one of them is free."
    return f"It should begin within about {in_words(max(delay, timedelta(minutes=1)))}."


_IDLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED})
_FAILED = frozenset({"fail", "exhaust"})  # the last verb of a task that has no retry left


class Failures:
    """Applies the rule for failed tasks, once per attempt."""

    def __init__(self, desk: Desk, scope: str | None, rule: CanceledBlocker) -> None:
        self._desk = desk
        self._scope = scope
        self._rule = rule
        self._settled: set[tuple[str, str, int]] = set()

    def settle(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Apply the rule; return the ids of escalated and canceled tasks."""
        escalated: list[str] = []
        canceled: list[str] = []
        while fresh := [task for task in self._escalated() if _attempt_key(task) not in self._settled]:
            self._settled.update(_attempt_key(task) for task in fresh)
            for task in fresh:
                if self._rule is CanceledBlocker.ESCALATES:
                    escalated += self._escalate_dependents(task)
                elif task.ended in _FAILED:
                    canceled += self._cancel(task)
        return tuple(escalated), tuple(canceled)

    def _escalated(self) -> list[Task]:
        return self._desk.find(Query(self._scope, (Status.ESCALATED,)))

    def _escalate_dependents(self, task: Task) -> list[str]:
        desk = self._desk.at(task.scope)
        links = desk.links(task.id)
        waiting = [link.task for link in links if link.on == task.id and link.kind is LinkKind.BLOCKS]
        idle = [each for each in waiting if desk.get(each).status in _IDLE]
        why = f"prerequisite {task.id} failed"
        asked = dict.fromkeys(idle)
        outcomes = desk.move_all(Verb.ESCALATE, asked, reason=why, on_cancel=self._rule).outcomes if idle else ()
        return [each for each, outcome in zip(idle, outcomes, strict=True) if not isinstance(outcome, DibsError)]

    def _cancel(self, task: Task) -> list[str]:
        """Cancel a failed task; the store applies the rule to its dependents."""
        why = f"failed for good: {task.reason}"
        try:
            moved = self._desk.at(task.scope).move(Verb.CANCEL, task.id, reason=why, on_cancel=self._rule)
        except DibsError:  # a person has changed it since
            return []
        return [task.id, *moved.canceled]


def _attempt_key(task: Task) -> tuple[str, str, int]:
    return task.scope, task.id, task.attempt


LEAD_LEASE = timedelta(seconds=2)  # a dispatcher takes over so long after the leader's death
_RENEW_AFTER = 0.6
_LEAD_TASK = "lead"
_LEAD_CAPABILITY = "leads"


class Lead:
    """The right to lead, a leased task in `place`. `name` identifies the dispatcher for people."""

    def __init__(
        self,
        desk: Desk,
        place: str,
        name: str,
        *,
        lease: timedelta = LEAD_LEASE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk.at(place, by=Actor(name), internal=True)
        self._lease = lease
        self._clock = clock
        self._token: str | None = None
        self._renewed = 0.0

    def have(self) -> bool:
        """Whether we lead: renew our lease, or claim a free one."""
        asked = self._clock()
        if self._token is not None and asked - self._renewed < _RENEW_AFTER:
            return True
        if self._token is not None and not self._renew():
            self._token = None
        if self._token is None:
            self._token = self._take()
        self._renewed = asked
        return self._token is not None

    def give_up(self) -> None:
        """Let another dispatcher lead at once."""
        if self._token is not None:
            with suppress(LostLock):  # then another one leads
                self._desk.move(Verb.RELEASE, _LEAD_TASK, token=self._token)
            self._token = None

    def _renew(self) -> bool:
        try:
            self._desk.renew(_LEAD_TASK, self._token, lease=self._lease)
        except LostLock:
            return False
        return True

    def _take(self) -> str | None:
        if (token := self._claim()) is not None:
            return token
        try:
            self._desk.add([Draft("The lead", _LEAD_TASK, requires=(_LEAD_CAPABILITY,))])
        except AlreadyExists:
            return None
        return self._claim()

    def _claim(self) -> str | None:
        claimed = self._desk.claim(str(self._desk.by.agent), lease=self._lease, can=(_LEAD_CAPABILITY,))
        lease = claimed[0].task.lease if claimed else None
        return None if lease is None else lease.token


RETRIES = 3  # of a task that sets none
MOST = 50  # assignments in one round
_FIRST_LOOK = 64
_WIDER = 8
_WIDEST = 250_000
_LOOK_BEYOND = timedelta(seconds=5)
_UNFINISHED = (Status.BACKLOG, Status.READY, Status.ACTIVE, Status.BLOCKED, Status.PAUSED, Status.REVIEW)


class Rules(NamedTuple):
    """How dispatch assigns work; `failed` is the rule for tasks that wait for one that failed for good."""

    scope: str | None = None
    routing: Mapping[str, str] = ROUTING
    retries: int = RETRIES
    failed: CanceledBlocker = CanceledBlocker.ESCALATES
    most: int = MOST


class GivenTask(NamedTuple):
    scope: str
    task: str
    agent: str


class DispatchRound(NamedTuple):
    """The results of one round, or of several."""

    given: tuple[GivenTask, ...] = ()
    troubles: tuple[RoutingProblem, ...] = ()
    queued: tuple[QueuedTask, ...] = ()
    taken_back: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    canceled: tuple[str, ...] = ()
    expected: timedelta | None = None

    def __bool__(self) -> bool:
        """Whether the round changed anything; tasks that still wait are no change."""
        return bool(self.given or self.troubles or self.taken_back or self.escalated or self.canceled)

    def after(self, before: DispatchRound) -> DispatchRound:
        """Both rounds in one, with the tasks that wait now; repeated errors count once."""
        known = {(each.task.scope, each.task.id): each for each in (*before.troubles, *self.troubles)}
        return self._replace(
            given=before.given + self.given,
            troubles=tuple(known.values()),
            taken_back=before.taken_back + self.taken_back,
            escalated=before.escalated + self.escalated,
            canceled=before.canceled + self.canceled,
        )


class Dispatcher:
    def __init__(self, desk: Desk, rules: Rules = Rules()) -> None:  # noqa: B008 - frozen
        self._desk = desk if rules.scope is None else desk.at(rules.scope)
        self._rules = rules
        self._roster = Roster(desk)
        self._failures = Failures(desk, rules.scope, rules.failed)
        self._overload = Overload(desk)
        self._demanding: Sequence[Task] = ()  # free tasks that require capabilities, as last read
        self._looked_at: datetime | None = None

    def round(self) -> DispatchRound:
        """Do all that is possible now, up to the limit of the rules."""
        now = self._desk.now()
        escalated, canceled = self._failures.settle()
        members = self._roster.members()
        taken_back = self._take_back(members, now)
        if taken_back:
            members = self._roster.members()
        placing = self._placed(members, now)
        given, refused = self._give(placing)
        expected = self._overload.notify(placing.queued, members) if placing.queued else None
        troubles = (*placing.troubles, *refused, *self._beyond_all(members, now))
        return DispatchRound(given, troubles, placing.queued, tuple(taken_back), escalated, canceled, expected)

    def _take_back(self, members: Sequence[Member], now: datetime) -> list[str]:
        """Unassign the tasks of agents that left."""
        gone = [member.agent for member in members if member.waiting and not member.present(now)]
        return [task for agent in gone for task in self._roster.take_back(agent, self._rules.scope)]

    def _placed(self, members: Sequence[Member], now: datetime) -> Placement:
        """Read more tasks until all room is used: the first may all be for agents without room."""
        can, anywhere = _abilities(members), self._rules.scope is None
        limit = _FIRST_LOOK
        while True:
            found = self._desk.ready(limit=limit, can=can, anywhere=anywhere)
            free = [task for task in found if not is_internal(task.scope)]
            placing = place(free, members, now, self._rules.routing)
            if placing.room == 0 or len(found) < limit or limit >= _WIDEST:
                return placing
            limit *= _WIDER

    def _beyond_all(self, members: Sequence[Member], now: datetime) -> tuple[RoutingProblem, ...]:
        """Tasks that need a capability no agent has. Read rarely, because it reads all scopes."""
        if self._looked_at is None or now >= self._looked_at + _LOOK_BEYOND:
            self._looked_at, self._demanding = now, [task for task in self._heads() if task.requires]
        can = _abilities(members)
        beyond = [task for task in self._demanding if not can.issuperset(task.requires)]
        return place(beyond, members, now, self._rules.routing).troubles

    def _heads(self) -> Iterable[Task]:
        """The first free tasks of each scope, for any capability."""
        scopes = [self._rules.scope] if self._rules.scope is not None else self._desk.scopes(claimable=True)
        for scope in scopes:
            yield from self._desk.at(scope).ready(limit=_FIRST_LOOK, unable=True)

    def _give(self, placing: Placement) -> tuple[tuple[GivenTask, ...], tuple[RoutingProblem, ...]]:
        """Assign each agent's tasks in one transaction. Tasks that were taken since are skipped."""
        given: list[GivenTask] = []
        troubles: list[RoutingProblem] = []
        for agent, tasks in _first(placing.given, self._rules.most).items():
            asked = Assignment(tuple((task.scope, task.id) for task in tasks), agent, retries=self._rules.retries)
            try:
                outcomes: Iterable[Task | DibsError] = self._roster.assign(asked)
            except DibsError as error:
                troubles += [RoutingProblem(task, error.message) for task in tasks]
                continue
            given += [GivenTask(one.scope, one.id, agent) for one in outcomes if isinstance(one, Task)]
        return tuple(given), tuple(troubles)

    @property
    def everywhere(self) -> bool:
        return self._rules.scope is None

    def settled(self) -> bool:
        """Whether no agent can work on any task: all are done, canceled, or need a person."""
        return not self._desk.find(Query(self._rules.scope, _UNFINISHED, limit=1))


def _abilities(members: Sequence[Member]) -> frozenset[str]:
    """All capabilities in the fleet."""
    return frozenset(capability for member in members for capability in member.can)


def _first(given: Mapping[str, Sequence[Task]], most: int) -> dict[str, list[Task]]:
    """At most so many tasks: the first of each agent, then the second of each."""
    depth = max((len(tasks) for tasks in given.values()), default=0)
    turns = ((agent, tasks[turn]) for turn in range(depth) for agent, tasks in given.items() if turn < len(tasks))
    chosen: dict[str, list[Task]] = {}
    for agent, task in islice(turns, most):
        chosen.setdefault(agent, []).append(task)
    return chosen


LOOK_EVERY = 0.25  # seconds between reads of free agents, for which no notification exists
_STANDING_BY = 0.4
_SHORTEST_PAUSE = 0.05  # at least, even if many events happen
_AFTER_TROUBLE = 2.0


class Watch:
    """`show` gets each round with changes, `trouble` each error."""

    def __init__(
        self,
        desk: Desk,
        dispatcher: Dispatcher,
        lead: Lead,
        show: Callable[[DispatchRound], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._dispatcher = dispatcher
        self._lead = lead
        self._show = show
        self._trouble = trouble
        self._known: set[tuple[str, str, str]] = set()
        self._unserved = None if dispatcher.everywhere else Unserved(desk, trouble)

    def run(self, stopped_within: Callable[[float], bool], *, until_done: bool) -> DispatchRound:
        """Dispatch until stopped, or until all is done. Returns the sum of all rounds.

        `stopped_within` waits so many seconds. The lead is given up at the end, so that the next one need not wait.
        """
        total, pause = DispatchRound(), _SHORTEST_PAUSE
        try:
            while not stopped_within(pause):
                pause = _SHORTEST_PAUSE
                try:
                    done = self._round(until_done=until_done)
                except StoreReplaced:
                    raise
                except StoreError as error:
                    self._trouble(error.message)
                    pause = _AFTER_TROUBLE
                    continue
                if done is not None:
                    total = done.after(total)
                    if until_done and not done.given and self._dispatcher.settled():
                        break
        finally:
            with suppress(StoreError):  # then it ends with its lease
                self._lead.give_up()
        return total

    def _round(self, *, until_done: bool) -> DispatchRound | None:
        """One round; None while another dispatcher leads."""
        if self._unserved is not None:
            self._unserved.look()
        if not self._lead.have():
            if until_done and self._dispatcher.settled():
                return DispatchRound()
            self._desk.wait(_STANDING_BY - _SHORTEST_PAUSE)
            return None
        done = self._dispatcher.round()
        news = self._news(done)
        if news:
            self._show(news)
        if not done.given:
            self._desk.wait(LOOK_EVERY - _SHORTEST_PAUSE)
        return done

    def _news(self, done: DispatchRound) -> DispatchRound:
        """The errors that the round before did not report."""
        known, self._known = self._known, {(one.task.scope, one.task.id, one.error) for one in done.troubles}
        fresh = (one for one in done.troubles if (one.task.scope, one.task.id, one.error) not in known)
        return done._replace(troubles=tuple(fresh))
