"""A fleet test: dispatchers whose leader is killed at times, workers that claim above their limits, and a check of the
events."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.events import Outcome
from dibs.core.fleet import Profile
from dibs.core.task import Actor, Draft, Link, Status
from dibs.fleet.routing import ROUTING, role_for
from dibs.stores.opening import open_store
from dibs.stores.port import EventQuery, Query
from dibs.testing.conformance.builders import fleet_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.stores.port import Store

LEADERS = ".dispatch.*"
BY = Actor("maker")
_LATE = 6  # tasks that are added after the last kill
ROLES = ("developer", "writer", "researcher", "analyst", "ops")


class Fleet(NamedTuple):
    url: str
    tasks: int
    agents: int
    workers: int  # processes; several have one name between them
    dispatchers: int = 3
    kills: int = 1
    scopes: int = 3
    limit: int = 2
    work: float = 0.02
    deadline: float = 120.0
    seed: int = 1


class Kill(NamedTuple):
    at: datetime  # by the store's clock, before the signal
    dispatcher: str


class Report(NamedTuple):
    problems: Sequence[str]
    statuses: Counter[Status]
    seconds: float
    kills: Sequence[Kill]
    takeovers: Sequence[float]  # seconds from a kill to the next dispatcher's first assignment
    peak: int  # the most that any agent had at a time


def run(fleet: Fleet) -> Report:
    dice = random.Random(fleet.seed)
    started = time.monotonic()
    with open_store(fleet.url, create=True) as store:
        limits = _enrol(store, fleet)
        late = _fill(store, fleet, dice)
        kills = _play(store, fleet, dice, list(limits), late)
        seconds = time.monotonic() - started
        events = store.events(EventQuery())
        problems = [*_limits_kept(events, limits), *_given_once(events), *_done_once(events, fleet.tasks)]
        problems += [str(finding) for finding in store.check(fix=False)]
        statuses = Counter(task.status for task in store.find(Query()) if task.scope != LEADERS)
        held, _ = _replayed(events)
        return Report(problems, statuses, seconds, kills, _takeovers(events, kills), max(held.values(), default=0))


def _enrol(store: Store, fleet: Fleet) -> dict[str, int]:
    names = [f"{ROLES[number % len(ROLES)]}{number}" for number in range(fleet.agents)]
    for number, name in enumerate(names):
        fleet_of(store).enrol(Profile(name, ROLES[number % len(ROLES)], (), fleet.limit))
    return dict.fromkeys(names, fleet.limit)


def _fill(store: Store, fleet: Fleet, dice: random.Random) -> list[Draft]:
    """Add linked tasks in several scopes, of kinds that some agent accepts.

    Return some of the last scope instead, to add after the last kill.
    """
    late: list[Draft] = []
    roles = {ROLES[number % len(ROLES)] for number in range(fleet.agents)}
    kinds = sorted(kind for kind in ROUTING if role_for(kind) in roles)
    per_scope = fleet.tasks // fleet.scopes
    for scope in range(fleet.scopes):
        many = per_scope + (fleet.tasks - per_scope * fleet.scopes if scope == 0 else 0)
        drafts = [
            Draft(f"Task {number}", f"t{number:04}", deliverable=dice.choice(kinds), priority=dice.randint(0, 3))
            for number in range(many)
        ]
        pairs = {
            (number, dice.randrange(max(0, number - 40), number)) for number in range(1, many) if dice.random() < 0.5
        }
        if scope == fleet.scopes - 1:
            drafts, late = drafts[:-_LATE], drafts[-_LATE:]
        links = [Link(f"t{task:04}", f"t{on:04}") for task, on in sorted(pairs) if task < len(drafts)]
        store.add(f"sender{scope}", drafts, links, BY)
    return late


def _play(store: Store, fleet: Fleet, dice: random.Random, names: list[str], late: list[Draft]) -> list[Kill]:
    dispatchers: dict[str, subprocess.Popen[bytes]] = {}
    kills: list[Kill] = []
    workers = [_worker(fleet, names[number % len(names)]) for number in range(fleet.workers)]
    made = 0
    try:
        end = time.monotonic() + fleet.deadline
        next_kill = time.monotonic() + dice.uniform(1.0, 2.0)
        while not _settled(store, fleet) and time.monotonic() < end:
            while len(dispatchers) < fleet.dispatchers:
                made += 1
                dispatchers[f"d{made}"] = _dispatcher(fleet, f"d{made}")
            if len(kills) < fleet.kills and time.monotonic() > next_kill:
                leading = _leading(store)
                if leading in dispatchers:
                    kills.append(Kill(store.now(), leading))
                    process = dispatchers.pop(leading)
                    process.kill()
                    process.wait()
                    next_kill = time.monotonic() + dice.uniform(6.0, 9.0)
            if len(kills) == fleet.kills and late:
                store.add(f"sender{fleet.scopes - 1}", late, [], BY)
                late = []
            time.sleep(0.2)
    finally:
        for process in (*dispatchers.values(), *workers):
            process.send_signal(signal.SIGTERM)
        for process in (*dispatchers.values(), *workers):
            process.wait(120)
    return kills


def _settled(store: Store, fleet: Fleet) -> bool:
    return sum(store.counts(f"sender{scope}").by_status[Status.DONE] for scope in range(fleet.scopes)) == fleet.tasks


def _leading(store: Store) -> str:
    """Which dispatcher leads by the store's word, or none."""
    now = store.now()
    found = [task.lease for task in store.find(Query(LEADERS, (Status.ACTIVE,))) if task.held(now)]
    return found[0].agent.partition("-")[0] if found and found[0] is not None else ""


def _dispatcher(fleet: Fleet, name: str) -> subprocess.Popen[bytes]:
    command = ["-m", "dibs", "dispatch", "--store", fleet.url, "--watch", "--any-scope", "--json", "--agent", name]
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)


def _worker(fleet: Fleet, agent: str) -> subprocess.Popen[bytes]:
    script = os.path.join(os.path.dirname(__file__), "fleet_worker.py")
    return subprocess.Popen([sys.executable, script, fleet.url, agent, str(fleet.limit + 1), str(fleet.work)])


# The check of the events


def _replayed(events: Sequence[Event]) -> tuple[Counter[str], dict[str, int]]:
    """The most that each agent ever had at a time, and what each has at the end."""
    holder: dict[tuple[str, str], str] = {}
    most: Counter[str] = Counter()
    for event in _of_tasks(events):
        place = (event.scope, event.task)
        if event.verb == "claim":
            holder[place] = event.agent or ""
            most[holder[place]] = max(most[holder[place]], Counter(holder.values())[holder[place]])
        elif event.verb in {"done", "fail", "exhaust", "release"}:
            holder.pop(place, None)
    return most, dict(Counter(holder.values()))


def _of_tasks(events: Sequence[Event]) -> list[Event]:
    mine = [event for event in events if event.outcome is Outcome.OK and event.scope != LEADERS]
    return sorted(mine, key=lambda event: event.seq)


def _limits_kept(events: Sequence[Event], limits: dict[str, int]) -> list[str]:
    most, _ = _replayed(events)
    return [f"{agent} had {number} of {limits[agent]}" for agent, number in most.items() if number > limits[agent]]


def _given_once(events: Sequence[Event]) -> list[str]:
    """Every assignment begins where the one before ended, and only the assignee claims."""
    problems = []
    assignee: dict[tuple[str, str], object] = defaultdict(lambda: None)
    for event in _of_tasks(events):
        place = (event.scope, event.task)
        if event.verb == "assign":
            if event.detail["from"] != assignee[place] or event.detail["to"] == assignee[place]:
                problems.append(f"{place} was {assignee[place]}'s when it went from {event.detail['from']}")
            assignee[place] = event.detail["to"]
        elif event.verb == "claim" and event.agent != assignee[place]:
            problems.append(f"{place} was {assignee[place]}'s when {event.agent} claimed it")
    return problems


def _done_once(events: Sequence[Event], tasks: int) -> list[str]:
    done = Counter((event.scope, event.task) for event in _of_tasks(events) if event.verb == "done")
    often = [f"{place} was done {number} times" for place, number in done.items() if number != 1]
    return often if len(done) == tasks else [*often, f"{len(done)} of {tasks} were done"]


def _takeovers(events: Sequence[Event], kills: Sequence[Kill]) -> list[float]:
    given = [event for event in _of_tasks(events) if event.verb == "assign"]
    waits = []
    for kill in kills:
        later = [event.at for event in given if event.at > kill.at and event.agent != kill.dispatcher]
        if later:
            waits.append((min(later) - kill.at).total_seconds())
    return waits
