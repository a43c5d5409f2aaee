"""Handing work out: each free task to the member of the fleet that it is for, and what to do when that cannot be.

A round looks, decides and writes. The decision is `placing.place`; writing is `assign`, which looks again at the task
and at the member's room in one transaction. So a dispatcher that knows less than it believes, because it was stopped
for a while or because another one is at it, gives nothing twice and overloads nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError
from dibs.core.fleet import Assignment, Member
from dibs.core.policy import CanceledBlocker
from dibs.core.scopes import is_internal
from dibs.core.task import Status, Task
from dibs.fleet.failures import Failures
from dibs.fleet.overload import Overload
from dibs.fleet.placing import Placing, Queued, Trouble, place
from dibs.fleet.roster import Roster
from dibs.fleet.routing import ROUTING
from dibs.stores.port import Query

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.desk import Desk


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

    def after(self, before: "Round") -> "Round":
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
    def __init__(self, desk: "Desk", rules: Rules = Rules()) -> None:  # noqa: B008 - frozen
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

    def _take_back(self, members: Sequence[Member], now: "datetime") -> list[str]:
        """What waits for somebody who is gone."""
        gone = [member.agent for member in members if member.waiting and not member.present(now)]
        return [task for agent in gone for task in self._roster.take_back(agent, self._rules.scope)]

    def _placed(self, members: Sequence[Member], now: "datetime") -> Placing:
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

    def _beyond_all(self, members: Sequence[Member], now: "datetime") -> tuple[Trouble, ...]:
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
