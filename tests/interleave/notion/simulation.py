"""Agents that share one page, in virtual time, with every failure that real systems have.

A schedule is a number: it determines how many agents there are, how the network and the machines behave, and when. The
agents work as in production: they read a list that may be two minutes old, claim, work, renew, finish or release,
stall, crash. The time in which an agent believes that it holds the task is a span, and no two spans may overlap.
"""

from __future__ import annotations

import heapq
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, LostLock, StoreError, StoreUnavailable
from dibs.core.task import Holder, Status
from dibs.stores.notion import guard
from dibs.stores.notion.guard import Bounds, Failed, Read, Seen, Wait, Write
from interleave.notion.page import Page, leaving, moment, taking

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from dibs.stores.notion.guard import Answer, Ask, Step, Steps, View

    Claim = Callable[[str, Ask, Bounds], Steps]

TIMEOUT = 10.0  # after which a client stops waiting for an answer
QUERY_LAG = 120.0
SKEW = 10.0  # seconds by which an agent's estimate of Notion's time may be wrong


class Belief(NamedTuple):
    """The span in which an agent believed that it held the task."""

    agent: str
    start: float
    end: float


class Pace(NamedTuple):
    """The speed of the agents. RUSH makes them compete for the task all the time; HAUL is about leases."""

    horizon: float
    lengths: tuple[int, ...]  # of leases, in minutes
    pauses: tuple[float, ...]  # after a failed claim
    works: tuple[float, ...]  # as parts of a lease
    stalls: tuple[float, ...]


RUSH = Pace(900.0, (4,), (0.1, 1.0, 3.0), (0.0, 0.02), (1.0, 2.0, 4.0, 4.0, 8.0, 100.0))
HAUL = Pace(7_200.0, (4, 5, 20), (2.0, 20.0, 120.0), (0.1, 0.5, 1.0), (1.0, 4.0, 10.0, 170.0, 2_000.0))


class Weather(NamedTuple):
    """The probability of each failure, per request."""

    latency: float
    stall: float
    hang: float
    lost: float  # 503 or 409, before or after the write was made
    limited: float  # 429
    crash: float  # for each piece of work
    person: float  # for each piece of work


class Simulation:
    def __init__(self, seed: int, claim: Claim = guard.claim) -> None:
        self.random = Random(seed)
        self.claim = claim
        self.now = 0.0
        self.page = Page(heartbeats=self.random.random() < 0.5)
        self.late = False  # the page's lease was written late, so a reader cannot compute from it how long to wait
        self.beliefs: list[Belief] = []
        self.claimed = 0
        self._log: list[tuple[float, str, str]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        pick = self.random
        self.calm = pick.random() < 0.05
        self.weather = (
            Weather(0.05, 0, 0, 0, 0, 0, 0)
            if self.calm
            else Weather(
                pick.choice((0.05, 0.3, 1.0)),
                pick.choice((0.0, 0.02, 0.1, 0.2)),
                pick.choice((0.0, 0.02, 0.1)),
                pick.choice((0.0, 0.02, 0.1)),
                pick.choice((0.0, 0.02, 0.1)),
                pick.choice((0.0, 0.2, 0.5)),
                pick.choice((0.0, 0.0, 0.1)),
            )
        )
        staleness = pick.choice((0.0, 0.0, 1.0))
        self.bounds = Bounds(window=4, settle=5 + 2 * staleness, staleness=staleness)
        self.pace = pick.choice((RUSH, HAUL))
        mixed = pick.random() < 0.2
        self.lengths = self.pace.lengths if mixed else (pick.choice(self.pace.lengths),)
        self.margin = self.bounds.guard_band.total_seconds()
        self.agents = [Agent(self, f"agent-{number}") for number in range(pick.randint(2, 8))]

    def run(self) -> Simulation:
        for agent in self.agents:
            self.at(self.random.choice((0.0, 1.0, 5.0, 60.0)) * self.random.random(), agent.begin)
        while self._heap and self._heap[0][0] < self.pace.horizon:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        for agent in self.agents:
            agent.let_go(self.pace.horizon)
        return self

    def at(self, delay: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, act))

    def tell(self, who: str, what: str) -> None:
        self._log.append((self.now, who, what))

    @property
    def log(self) -> list[str]:
        return [f"{at:9.2f}  {who:8}  {what}" for at, who, what in self._log]

    def overlaps(self) -> list[tuple[Belief, Belief]]:
        spans = sorted(self.beliefs, key=lambda belief: belief.start)
        return [
            (one, two)
            for place, one in enumerate(spans)
            for two in spans[place + 1 :]
            if two.start < one.end and one.agent != two.agent
        ]

    def overruled(self) -> None:
        """A person's change ends every claim, even if the holder does not know it yet."""
        for agent in self.agents:
            agent.let_go(self.now)
            agent.overruled = True


class Agent:
    """One process: a generator of steps, each answered after its own delay."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.world, self.name = world, name
        self.skew = world.random.uniform(-SKEW, SKEW)
        self.length = timedelta(minutes=world.random.choice(world.lengths))
        self.since: float | None = None
        self.until = 0.0
        self.overruled = False  # by a person, unknown to the agent
        self._tokens = 0
        self._life = self._live()

    def begin(self) -> None:
        self._go(None)

    # Beliefs

    def hold(self, view: View) -> None:
        end = guard.trusted_until(view, self.world.bounds)
        assert end is not None
        if self.since is None and not self.overruled:
            self.since = self.world.now
        self.until = (end - moment(0)).total_seconds() - self.skew
        if len(self.world.lengths) > 1:  # an agent with a longer lease than others must not trust it for longer
            self.until = min(self.until, self.world.now + 60 * min(self.world.lengths) - self.world.margin)

    def let_go(self, at: float) -> None:
        if self.since is not None and self.since < min(at, self.until):
            self.world.beliefs.append(Belief(self.name, self.since, min(at, self.until)))
        self.since = None

    # Life of an agent

    def _live(self) -> Generator[Step, Answer, None]:
        world, pick = self.world, self.world.random
        while True:
            hint = world.page.as_of(world.now - pick.random() * QUERY_LAG)
            if hint.status not in {Status.READY, Status.ACTIVE}:
                yield Wait(60 + QUERY_LAG * pick.random())
                continue
            self._tokens += 1
            token = f"{self.name}#{self._tokens}"
            ask = taking(self.name, token, world.bounds, self.length)
            try:
                held = yield from world.claim(token, ask, world.bounds)
            except DibsError as error:
                world.tell(self.name, f"no claim: {error.code}")
                free = (error.retry_after_ms or 0) / 1000
                yield Wait((free if pick.random() < 0.5 else 0.0) + pick.choice(world.pace.pauses) * pick.random())
            else:
                world.tell(self.name, "HOLDS")
                world.claimed += 1
                self.overruled = False
                self.hold(held.view)
                yield from self._work(token)

    def _work(self, token: str) -> Generator[Step, Answer, None]:
        """Work for a while, with renewals, maybe until the lease ends, and report the result."""
        world, pick = self.world, self.world.random
        try:
            for _ in range(pick.choice((0, 0, 1, 2))):
                yield self._busy()
                self._may_die()
                yield from self._renew(token)
            yield self._busy()
            self._may_die()
            self.let_go(world.now)  # it has stopped working; only the report follows
            yield from self._finish(token, pick.choice((Status.READY, Status.READY, Status.READY, Status.DONE)))
        except LostLock:
            world.tell(self.name, "LOST")
        self.let_go(world.now)

    def _busy(self) -> Wait:
        pick, left = self.world.random, self.until - self.world.now
        return Wait(max(0.0, left * pick.choice(self.world.pace.works) - 5 * pick.random()))

    def _renew(self, token: str) -> Generator[Step, Answer, None]:
        """Renew, or work on under the current lease if the renewal fails."""
        try:
            renewed = yield from guard.renew(token, None, self.length, self.world.bounds)
        except StoreError as error:
            self.world.tell(self.name, f"not renewed: {error.code}")
        else:
            self.world.tell(self.name, "renewed")
            self.hold(renewed.view)

    def _finish(self, token: str, target: Status) -> Generator[Step, Answer, None]:
        for pause in (2.0, 4.0, 8.0):
            try:
                yield from guard.finish(token, None, leaving(target), self.world.bounds)
            except StoreError as error:
                self.world.tell(self.name, f"not sure that it is {target}: {error.code}")
                yield Wait(pause)
            else:
                self.world.tell(self.name, f"left it {target}")
                return

    def _may_die(self) -> None:
        if self.world.random.random() < self.world.weather.person:
            self.world.at(self.world.random.random() * 60, self._person)
        if self.world.random.random() < self.world.weather.crash:
            self.world.tell(self.name, "DIES")
            self.world.at(self.world.random.random() * 60 * 20, self._retouch)
            self.let_go(self.world.now)
            raise _Died

    def _retouch(self) -> None:
        """A person edits an abandoned page, for example its title, which changes no lease."""
        if not self.world.late:
            self.world.tell("person", "mends a word")
            self.world.page.retouch(self.world.now)

    def _person(self) -> None:
        self.world.tell("person", "takes over")
        self.world.overruled()
        self.world.page.write({"status": Status.ACTIVE}, self.world.now)
        self.world.page.view = self.world.page.view._replace(holder=Holder.HUMAN, agent="pat")
        self.world.page.history[-1] = (self.world.now, self.world.page.view)

    # Answers

    def _go(self, answer: Answer) -> None:
        try:
            step = self._life.send(answer)
        except StopIteration:
            return
        except _Died:
            return
        if isinstance(step, Wait):
            self.world.at(step.seconds + self._stalled(), lambda: self._go(None))
        elif isinstance(step, Read):
            self._read()
        else:
            self.world.at(self._stalled(), lambda: self._write(step))

    def _read(self) -> None:
        world, sent = self.world, self.world.now
        age = world.random.random() * world.bounds.staleness

        def serve() -> None:
            view = world.page.as_of(world.now - age) if age else world.page.view
            trouble = world.random.random() < world.weather.lost + world.weather.limited
            back = self._latency() + self._stalled()
            world.at(back, lambda: self._hear(None if trouble else view, sent))

        world.at(self._latency() + self._stalled(), serve)

    def _write(self, step: Write) -> None:
        world, sent, luck = self.world, self.world.now, self.world.random.random()
        weather = world.weather
        if sent > step.by or luck < weather.limited:
            world.at(self._latency(), lambda: self._go(_failed(sent=False)))
            return
        heard = [False]

        def hear(view: View | None) -> None:
            if not heard[0]:
                heard[0] = True
                self._hear(view, sent)

        def commit() -> None:
            view = world.page.write(step.changes, world.now)
            world.late = world.now > step.by
            world.tell(self.name, f"wrote {', '.join(step.changes)}")
            lost = world.random.random() < weather.lost
            world.at(self._latency() + self._stalled(), lambda: hear(None if lost else view))

        world.at(TIMEOUT, lambda: hear(None))
        if luck < weather.limited + weather.lost / 2:
            world.at(self._latency(), lambda: hear(None))  # 409, or a 503 that made nothing
        else:
            world.at(self._latency() + self._held_up(step), commit)

    def _hear(self, view: View | None, sent: float) -> None:
        world = self.world
        if view is None:
            self._go(_failed())
        else:
            self._go(Seen(view, sent, world.now, moment(int(world.now + self.skew))))

    # Delays

    def _latency(self) -> float:
        return self.world.random.expovariate(1 / self.world.weather.latency)

    def _stalled(self) -> float:
        return self._long() if self.world.random.random() < self.world.weather.stall else 0.0

    def _long(self) -> float:
        pick = self.world.random
        return pick.choice(self.world.pace.stalls) * pick.random()

    def _held_up(self, step: Write) -> float:
        """The delay of a request. A release may be late by no more than the margins of a lease."""
        pick, weather = self.world.random, self.world.weather
        if pick.random() >= weather.hang + weather.stall:
            return 0.0
        margins = (self.world.bounds.guard_band + self.world.bounds.steal_after).total_seconds() - 2 * SKEW
        return min(self._long(), margins) if step.changes.get("status") is Status.READY else self._long()


def _failed(*, sent: bool = True) -> Failed:
    """A new error for each failure: a reused one keeps alive every frame that it has passed through."""
    return Failed(StoreUnavailable("no answer"), sent)


class _Died(Exception):
    """The process crashed during its work."""
