"""top: the desk at a glance, as it changes."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from dibs.cli.command import open_desk
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput
from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder, Status, Task, is_internal, order_key
from dibs.core.times import time_text
from dibs.core.wire import task_json
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

    from dibs.console.arguments import Parser
    from dibs.core.fleet import Member
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.stores.reports import Counts

_ROWS = 50
_PIPED = 100  # columns without a terminal
_QUICKEST = timedelta(milliseconds=100)


def _options(parser: Parser) -> None:
    parser.add_argument(
        "--once", action="store_true", help="print one snapshot as text and exit (the default without a terminal)"
    )
    parser.add_argument(
        "--interval", metavar="SPAN", type=span, default=timedelta(seconds=1), help="time between updates (default: 1s)"
    )
    parser.add_argument("--any-scope", action="store_true", help="show all scopes (default: only --scope)")


def top(args: argparse.Namespace) -> int:

    if args.interval < _QUICKEST:
        raise InvalidInput("Look at most ten times a second: --interval 0.1s or longer.")
    live = _interactive() and not (args.json or args.once)
    with Stop() if live else nullcontext() as stop, open_desk(args) as desk:
        glance = StorePoller(desk, anywhere=args.any_scope, rows=_ROWS)
        if stop is None:
            shot = glance.look()
            return emit(args, lambda: _data(shot), lambda: _lines(shot))
        from rich.console import Console

        from dibs.cli.screen import run

        run(glance.look, Console(), args.interval.total_seconds(), stop)
        return stop.status


def _interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _lines(shot: Snapshot) -> Iterable[str]:
    from rich.console import Console

    from dibs.cli.screen import page

    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else _PIPED
    console = Console(width=width, highlight=False)
    with console.capture() as caught:
        console.print(page(shot, width))
    return (line.rstrip() for line in caught.get().splitlines())


def _data(shot: Snapshot) -> dict[str, Json]:
    counts = shot.counts
    agents: list[Json] = [
        {"agent": one.name, "role": one.role, "there": one.there, "tasks": [task_json(task) for task in one.tasks]}
        for one in shot.agents
    ]
    numbers: dict[str, Json] = {status.value: number for status, number in counts.by_status.items() if number}
    derived = {"claimable": counts.claimable, "waiting": counts.waiting, "later": counts.later}
    return {
        "now": time_text(shot.now),
        "counts": {"by_status": numbers, **derived, "expired": counts.expired},
        "agents": agents,
        "ready": [task_json(task) for task in shot.ready],
        "people": [task_json(task) for task in shot.people],
        "finished_by_minute": None if shot.finished is None else list(shot.finished),
    }


COMMANDS = {"top": Command(_options, top)}

MINUTES = 30  # that are looked back at
PEOPLE = (Status.ESCALATED, Status.BLOCKED, Status.REVIEW)

_FIRST_LOOK = 2000  # events
_PAGE = 1000
_LATELY = 60
_OF_LATE = timedelta(minutes=5)
_COUNTED_FOR = 3.0  # seconds, where nothing has happened
_SPARING = 20  # times as long as counting took, until it is done again
_NOISE = frozenset({Verb.RENEW, "link", "unlink", "assign"})
_MOST_HELD = 200
_LOOKED_THROUGH = 100  # tasks that are called ready, to find those that are


class Agent(NamedTuple):
    """An agent that holds tasks or is enrolled; `there` is None for one that is not enrolled."""

    name: str
    role: str | None
    there: bool | None
    tasks: tuple[Task, ...]


class Snapshot(NamedTuple):
    """`finished` is how many tasks were in each of the last minutes, the latest last; None where no record is kept.

    `rate` is how many it were in a minute, of late. `lately` is what happened, the latest first.
    """

    scope: str | None
    now: datetime
    counts: Counts
    agents: tuple[Agent, ...]
    ready: tuple[Task, ...]
    people: tuple[Task, ...]
    finished: tuple[int, ...] | None
    rate: float
    lately: tuple[Event, ...]


class EventRate:
    """Events, and the number of tasks finished per minute; reads all events first, then only new ones."""

    def __init__(self) -> None:
        self._after: int | None = None
        self._times: deque[datetime] = deque()
        self._since: datetime | None = None  # the time of the first known event
        self._lately: deque[Event] = deque(maxlen=_LATELY)
        self.fresh = True  # there is an unread event

    def rate(self, now: datetime) -> float:
        """Tasks finished per minute, over the last five minutes or fewer."""
        if self._since is None:
            return 0.0
        span = max(timedelta(minutes=1), min(_OF_LATE, now - self._since))
        return sum(at >= now - span for at in self._times) / (span / timedelta(minutes=1))

    @property
    def lately(self) -> tuple[Event, ...]:
        return tuple(reversed(self._lately))

    def read(self, desk: Desk, scope: str | None, now: datetime) -> tuple[int, ...] | None:
        if not desk.capabilities.history:
            self.fresh = True  # unknown, so count
            return None
        new = [event for event in self._new(desk, scope) if scope is not None or not is_internal(event.scope)]
        self.fresh = self.fresh or bool(new)
        self._since = self._since or (new[0].at if new else None)
        self._times.extend(event.at for event in new if _finishes(event))
        self._lately.extend(event for event in new if event.verb not in _NOISE)
        while self._times and self._times[0] < now - timedelta(minutes=MINUTES):
            self._times.popleft()
        minutes = [0] * MINUTES
        for at in self._times:
            minutes[max(0, MINUTES - 1 - int((now - at).total_seconds() // 60))] += at <= now
        return tuple(minutes)

    def _new(self, desk: Desk, scope: str | None) -> Iterable[Event]:
        first = self._after is None
        while True:
            if self._after is None:
                events = desk.events(last=_FIRST_LOOK, anywhere=scope is None)
            else:
                events = desk.events(after=self._after, limit=_PAGE, anywhere=scope is None)
            yield from events
            self._after = events[-1].seq if events else self._after or 0
            if first or len(events) < _PAGE:
                return


def _finishes(event: Event) -> bool:
    return event.target is Status.DONE and event.source is not Status.DONE and event.outcome is Outcome.OK


class StorePoller:
    """Reads the store again and again, and keeps unchanged parts.

    Only counting all tasks takes longer with more tasks. It runs after an event or a due time, and rarely.
    """

    def __init__(self, desk: Desk, *, anywhere: bool, rows: int, clock: Callable[[], float] = monotonic) -> None:
        self._desk, self._rows, self._clock = desk, rows, clock
        self._scope = None if anywhere else desk.scope
        self._pulse = EventRate()
        self._can: set[str] = set()  # what tasks have been seen to require
        self._counted: tuple[Counts, float, float] | None = None  # when that was, and until when it is good enough

    def look(self) -> Snapshot:
        desk, scope = self._desk, self._scope
        now = desk.now()
        finished = self._pulse.read(desk, scope, now)
        counts = self._counts()
        members = desk.members() if desk.has_fleet else []
        held = desk.find(Query(scope, (Status.ACTIVE,), limit=_MOST_HELD))
        people = desk.find(Query(scope, PEOPLE, limit=self._rows))
        ready = self._ready(members, counts.claimable, now)
        agents = tuple(_agents(members, held, now))
        rate, lately = self._pulse.rate(now), self._pulse.lately
        return Snapshot(scope, now, counts, agents, ready, tuple(people), finished, rate, lately)

    def _counts(self) -> Counts:
        now = self._clock()
        if self._counted is not None:
            counts, at, until = self._counted
            if now < until or (not self._pulse.fresh and now < at + _COUNTED_FOR):
                return counts
        counts = self._desk.counts(anywhere=self._scope is None)
        spent = self._clock() - now
        self._counted = counts, now, now + spent * _SPARING
        self._pulse.fresh = False
        return counts

    def _ready(self, members: Iterable[Member], claimable: int, now: datetime) -> tuple[Task, ...]:
        """In order, for any agent: first tasks without unknown requirements, then the others."""
        self._can.update(capability for member in members for capability in member.can)
        anywhere, wanted = self._scope is None, min(self._rows, claimable)
        found = _claimable(self._desk.ready(limit=self._rows, can=self._can, anywhere=anywhere), now)
        if len(found) < wanted:
            others = self._desk.find(Query(self._scope, (Status.READY,), limit=_LOOKED_THROUGH))
            self._can.update(capability for task in others for capability in task.requires)
            found |= _claimable(others, now)
        return tuple(sorted(found.values(), key=order_key)[: self._rows])


def _claimable(tasks: Iterable[Task], now: datetime) -> dict[tuple[str, str], Task]:
    """Without what only looks like tasks: messages and notes."""
    return {(task.scope, task.id): task for task in tasks if not is_internal(task.scope) and _due(task, now)}


def _due(task: Task, now: datetime) -> bool:
    if task.status is Status.ACTIVE:
        return not task.held(now)
    return not task.blockers and (task.not_before is None or task.not_before <= now)


def _agents(members: Iterable[Member], held: Iterable[Task], now: datetime) -> Iterable[Agent]:
    """Holders first, the most urgent lease on top; then present agents, then absent ones."""
    tasks: dict[str, list[Task]] = {}
    for task in held:
        if task.lease is not None:
            tasks.setdefault(task.lease.agent, []).append(task)
    known: Mapping[str, Member] = {member.agent: member for member in members}
    found = [
        Agent(
            name,
            known[name].role if name in known else None,
            known[name].present(now) if name in known else None,
            tuple(sorted(tasks.get(name, ()), key=lambda task: _ends(task, now))),
        )
        for name in {*known, *tasks}
    ]
    return sorted(found, key=lambda agent: (not agent.tasks, not agent.there, agent.name))


def _ends(task: Task, now: datetime) -> float:
    """Seconds until the lease is over; a person's hold has no end."""
    left = time_left(task, now)
    return float("inf") if left is None else left.total_seconds()


def time_left(task: Task, now: datetime) -> timedelta | None:
    lease = task.lease
    if lease is None or lease.holder is Holder.HUMAN or lease.expires_at is None:
        return None
    return lease.expires_at - now


def share_left(task: Task, now: datetime) -> float:
    """How much of the lease is left, from 0 to 1: it was given, or renewed, when the task was last written."""
    lease, left = task.lease, time_left(task, now)
    if lease is None or lease.expires_at is None or left is None:
        return 1.0
    whole = lease.expires_at - max(lease.claimed_at, task.updated_at)
    return min(1.0, max(0.0, left / whole)) if whole > timedelta(0) else 0.0
