"""Dispatch: assign each free task to an enrolled agent, round after round, and report tasks that cannot be assigned.

A round looks, decides and writes. The decision is `routing.place`; the write is `assign`, which checks the task and
the agent's limit again in one transaction. So a dispatcher with old data, because it was stopped for a while or because
another one is running, assigns no task twice and no agent more than its limit.

Of several dispatchers one leads. The lead is a task in a scope of its own, and to lead is to hold its lease. It
requires a capability that no agent has by accident. A dispatcher that was stopped and wakes up late believes for a
moment that it still leads: its writes then must do no harm.
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
from dibs.core.scopes import is_internal
from dibs.core.sender import is_sender_hash
from dibs.core.task import Actor, Draft, LinkKind, Status, Task
from dibs.core.times import in_words
from dibs.fleet.routing import ROUTING, Placing, Queued, Roster, Trouble, place
from dibs.mail import Fact, Note, sender_box
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.desk import Desk


_REMEMBERED = 500  # events from which to tell how long a task takes
_TOLD_AT_ONCE = 20


class Overload:
    """Tells each sender once that a task waits because all capable agents are busy, and how long that may take."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: set[tuple[str, str]] = set()

    def tell(self, queued: Sequence[Queued], members: Sequence[Member]) -> timedelta | None:
        """Until when the first of them is expected to begin. Senders get a note for each task, once, whoever leads."""
        usual = usual_duration(self._desk.events(last=_REMEMBERED, anywhere=True))
        fresh = [one for one in queued if (one.task.scope, one.task.id) not in self._told]
        for one in [one for one in fresh if is_sender_hash(one.task.scope)][:_TOLD_AT_ONCE]:
            self._told.add((one.task.scope, one.task.id))
            delay = expected(one, members, usual)
            text = f"“{one.task.title}” has to wait: everybody who could do it is busy. {_expected_in_words(delay)}"
            extra = {"expected_seconds": None if delay is None else round(delay.total_seconds())}
            note = Note("delay", text, (Fact(f"delay.{one.task.id}", one.task.id),), extra)
            sender_box(self._desk, one.task.scope).tell_once(note)
        return expected(queued[0], members, usual)


def expected(queued: Queued, members: Sequence[Member], usual: timedelta | None) -> timedelta | None:
    """As many turns of everybody who has the role as it takes until this one's; None if nothing is known of that."""
    slots = sum(member.limit for member in members if member.role == queued.role)
    if usual is None or slots == 0:
        return None
    return usual * ceil((queued.ahead + 1) / slots)


def usual_duration(events: Sequence[Event]) -> timedelta | None:
    """The median from claim to done among these events, which are in their order."""
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
_FAILED = frozenset({"fail", "exhaust"})  # how the last attempt of a task ended that has no retry left


class Failures:
    """Each is dealt with once by one that looks again and again; a second time would change nothing either."""

    def __init__(self, desk: Desk, scope: str | None, rule: CanceledBlocker) -> None:
        self._desk = desk
        self._scope = scope
        self._rule = rule
        self._settled: set[tuple[str, str, int]] = set()

    def settle(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What was escalated and what was canceled."""
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
        """What failed is called off; the store does with those that wait for it as the rule says."""
        why = f"failed for good: {task.reason}"
        try:
            moved = self._desk.at(task.scope).move(Verb.CANCEL, task.id, reason=why, on_cancel=self._rule)
        except DibsError:  # a person has decided otherwise in the meantime
            return []
        return [task.id, *moved.canceled]


def _attempt_key(task: Task) -> tuple[str, str, int]:
    return task.scope, task.id, task.attempt


LEAD_LEASE = timedelta(seconds=2)  # so long after the death of one who leads another can
_RENEW_AFTER = 0.6
_LEAD_TASK = "lead"
_LEAD_CAPABILITY = "leads"


class Lead:
    """One who would lead. `place` is the scope, `name` is for people to see who does."""

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
        """Whether it is ours: kept if we had it, taken if nobody has."""
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
        """Leave it to the next one at once."""
        if self._token is not None:
            with suppress(LostLock):  # then it is somebody else's already
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


RETRIES = 3  # of a task for which nobody has said how many
MOST = 50  # assignments in one round
_FIRST_LOOK = 64
_WIDER = 8
_WIDEST = 250_000
_LOOK_BEYOND = timedelta(seconds=5)
_UNFINISHED = (Status.BACKLOG, Status.READY, Status.ACTIVE, Status.BLOCKED, Status.PAUSED, Status.REVIEW)


class Rules(NamedTuple):
    """How work is handed out. `failed` is what becomes of those that wait for a task which failed for good."""

    scope: str | None = None
    routing: Mapping[str, str] = ROUTING
    retries: int = RETRIES
    failed: CanceledBlocker = CanceledBlocker.ESCALATES
    most: int = MOST


class Given(NamedTuple):
    scope: str
    task: str
    agent: str


class Round(NamedTuple):
    """What one round, or several, have done."""

    given: tuple[Given, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    queued: tuple[Queued, ...] = ()
    taken_back: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    canceled: tuple[str, ...] = ()
    expected: timedelta | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to tell; that tasks still wait is no news."""
        return bool(self.given or self.troubles or self.taken_back or self.escalated or self.canceled)

    def after(self, before: Round) -> Round:
        """Both in one, with what waits now. Trouble that goes on is one trouble."""
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
        self._demanding: Sequence[Task] = ()  # what was free and took capabilities, at the last look for that
        self._looked_at: datetime | None = None

    def round(self) -> Round:
        """Everything that can be done now, up to the rules' most."""
        now = self._desk.now()
        escalated, canceled = self._failures.settle()
        members = self._roster.members()
        taken_back = self._take_back(members, now)
        if taken_back:
            members = self._roster.members()
        placing = self._placed(members, now)
        given, refused = self._give(placing)
        expected = self._overload.tell(placing.queued, members) if placing.queued else None
        troubles = (*placing.troubles, *refused, *self._beyond_all(members, now))
        return Round(given, troubles, placing.queued, tuple(taken_back), escalated, canceled, expected)

    def _take_back(self, members: Sequence[Member], now: datetime) -> list[str]:
        """What waits for somebody who is gone."""
        gone = [member.agent for member in members if member.waiting and not member.present(now)]
        return [task for agent in gone for task in self._roster.take_back(agent, self._rules.scope)]

    def _placed(self, members: Sequence[Member], now: datetime) -> Placing:
        """Look at as many tasks as it takes to use all the room: the first may all be for those who have none."""
        can, anywhere = _abilities(members), self._rules.scope is None
        limit = _FIRST_LOOK
        while True:
            found = self._desk.ready(limit=limit, can=can, anywhere=anywhere)
            free = [task for task in found if not is_internal(task.scope)]
            placing = place(free, members, now, self._rules.routing)
            if placing.room == 0 or len(found) < limit or limit >= _WIDEST:
                return placing
            limit *= _WIDER

    def _beyond_all(self, members: Sequence[Member], now: datetime) -> tuple[Trouble, ...]:
        """What takes something that nobody in the fleet can do. Looked for now and then: it is a look at all scopes."""
        if self._looked_at is None or now >= self._looked_at + _LOOK_BEYOND:
            self._looked_at, self._demanding = now, [task for task in self._heads() if task.requires]
        can = _abilities(members)
        beyond = [task for task in self._demanding if not can.issuperset(task.requires)]
        return place(beyond, members, now, self._rules.routing).troubles

    def _heads(self) -> Iterable[Task]:
        """What is free and first in its scope, whatever it takes."""
        scopes = [self._rules.scope] if self._rules.scope is not None else self._desk.scopes(claimable=True)
        for scope in scopes:
            yield from self._desk.at(scope).ready(limit=_FIRST_LOOK, unable=True)

    def _give(self, placing: Placing) -> tuple[tuple[Given, ...], tuple[Trouble, ...]]:
        """Each member's part in one transaction. What another has taken or given meanwhile is no trouble."""
        given: list[Given] = []
        troubles: list[Trouble] = []
        for agent, tasks in _first(placing.given, self._rules.most).items():
            asked = Assignment(tuple((task.scope, task.id) for task in tasks), agent, retries=self._rules.retries)
            try:
                outcomes: Iterable[Task | DibsError] = self._roster.assign(asked)
            except DibsError as error:
                troubles += [Trouble(task, error.message) for task in tasks]
                continue
            given += [Given(one.scope, one.id, agent) for one in outcomes if isinstance(one, Task)]
        return tuple(given), tuple(troubles)

    def settled(self) -> bool:
        """Whether nothing is left that anybody could still work on: all is done, canceled, or a person's to decide."""
        return not self._desk.find(Query(self._rules.scope, _UNFINISHED, limit=1))


def _abilities(members: Sequence[Member]) -> frozenset[str]:
    """Whatever somebody in the fleet can do."""
    return frozenset(capability for member in members for capability in member.can)


def _first(given: Mapping[str, Sequence[Task]], most: int) -> dict[str, list[Task]]:
    """So many of them and no more: of each agent's the first, then of each the second."""
    depth = max((len(tasks) for tasks in given.values()), default=0)
    turns = ((agent, tasks[turn]) for turn in range(depth) for agent, tasks in given.items() if turn < len(tasks))
    chosen: dict[str, list[Task]] = {}
    for agent, task in islice(turns, most):
        chosen.setdefault(agent, []).append(task)
    return chosen


LOOK_EVERY = 0.25  # seconds between looks for whoever was freed, which nobody gives notice of
_STANDING_BY = 0.4
_SHORTEST_PAUSE = 0.05  # at least, however much happens
_AFTER_TROUBLE = 2.0


class Watch:
    """`show` is told of every round in which something happened, `trouble` of what went wrong."""

    def __init__(
        self,
        desk: Desk,
        dispatcher: Dispatcher,
        lead: Lead,
        show: Callable[[Round], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._dispatcher = dispatcher
        self._lead = lead
        self._show = show
        self._trouble = trouble
        self._known: set[tuple[str, str, str]] = set()

    def run(self, stopped_within: Callable[[float], bool], *, until_done: bool) -> Round:
        """Dispatch until stopped, or until all is done. Returns the sum of all rounds.

        `stopped_within` waits so many seconds. The lead is given up at the end, so that the next one need not wait.
        """
        total, pause = Round(), _SHORTEST_PAUSE
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
            self._lead.give_up()
        return total

    def _round(self, *, until_done: bool) -> Round | None:
        """None for who only stands by."""
        if not self._lead.have():
            if until_done and self._dispatcher.settled():
                return Round()
            self._desk.wait(_STANDING_BY - _SHORTEST_PAUSE)
            return None
        done = self._dispatcher.round()
        news = self._news(done)
        if news:
            self._show(news)
        if not done.given:
            self._desk.wait(LOOK_EVERY - _SHORTEST_PAUSE)
        return done

    def _news(self, done: Round) -> Round:
        """Without the trouble that was told of the round before."""
        known, self._known = self._known, {(one.task.scope, one.task.id, one.error) for one in done.troubles}
        fresh = (one for one in done.troubles if (one.task.scope, one.task.id, one.error) not in known)
        return done._replace(troubles=tuple(fresh))
