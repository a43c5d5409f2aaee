"""Attempts and trends, read from events: throughput, waiting and run times, failures, expiries and stuck tasks.

At most 20,000 of the newest events are read, so the cost does not grow with the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import NotFound
from dibs.core.events import Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT, Verb
from dibs.core.task import LinkKind, Status
from dibs.core.times import in_words, time_text
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.core.events import Event
    from dibs.core.task import Json, Link, Task
    from dibs.desk import Desk

BUCKETS = 30
_FIRST, _MOST = 500, 20_000  # events to read
_LABELED, _LINKS = 500, 200  # tasks whose labels are read, and whose links are read at once
_MOST_STUCK = 20
_LONG = 3  # an attempt is long from this many times the run time of 95 % of attempts,
_LEAST_LONG = timedelta(minutes=5)  # and at least this,
_ENOUGH = 5  # if there were so many attempts

# The outcome of an attempt, by the verb that ended it.
_ENDED: Mapping[str, str] = {
    Verb.DONE: "done", Verb.REVIEW: "review", Verb.FAIL: "failed", Verb.EXHAUST: "failed", Verb.BLOCK: "blocked",
    Verb.RELEASE: "released", Verb.PAUSE: "paused", Verb.CANCEL: "canceled",
}  # fmt: skip
_OPENING = frozenset({"add", "import"} | {
    Verb.QUEUE, Verb.UNBLOCK, Verb.RESUME, Verb.REWORK, Verb.RELEASE, Verb.FAIL, Verb.REOPEN,
})  # fmt: skip
_WORKED = frozenset({"done", "review"})
_FINISHING = frozenset({Verb.DONE, Verb.APPROVE, Verb.CLOSE})


class Attempt(NamedTuple):
    """One holder's time with a task. `outcome` is "running" until it ends; `waited` is the time before, if known."""

    task: str
    agent: str
    number: int
    claimed_at: datetime
    ended_at: datetime | None = None
    outcome: str = "running"
    waited: timedelta | None = None

    @property
    def ran(self) -> timedelta | None:
        return None if self.ended_at is None else self.ended_at - self.claimed_at


class Percentiles(NamedTuple):
    """Seconds in which half, 90 % and 95 % of the attempts ended."""

    p50: float
    p90: float
    p95: float
    samples: int


class Bucket(NamedTuple):
    at: datetime
    finished: int
    failed: int
    expired: int


class Share(NamedTuple):
    """The work of one agent or with one label."""

    name: str
    finished: int = 0
    failed: int = 0
    expired: int = 0
    run: Percentiles | None = None


class Stuck(NamedTuple):
    """A task that makes no progress, since when, and why."""

    task: str
    title: str
    since: datetime
    why: str


class Trends(NamedTuple):
    """`since` is later than requested if `whole` is false: there were too many events to read."""

    since: datetime
    until: datetime
    whole: bool
    added: int
    claims: int
    finished: int
    failed: int
    expired: int
    wait: Percentiles | None
    run: Percentiles | None
    buckets: tuple[Bucket, ...]
    agents: tuple[Share, ...]
    labels: tuple[Share, ...]


class _Reading:
    """Reads events in order."""

    def __init__(self, links: Iterable[Link]) -> None:
        self.ended: list[Attempt] = []
        self.running: dict[str, Attempt] = {}
        self._ready: dict[str, datetime] = {}
        self._finished: dict[str, datetime] = {}
        self._needs: dict[str, list[str]] = defaultdict(list)
        for link in links:
            if link.kind is LinkKind.BLOCKS:
                self._needs[link.task].append(link.on)

    def read(self, event: Event) -> None:
        if event.outcome is not Outcome.OK:
            return
        if event.verb == Verb.CLAIM:
            self._claimed(event)
        elif event.verb in _ENDED:
            outcome = "expired" if event.reason == LEASE_RAN_OUT else _ENDED[event.verb]
            self._end(event.task, event.at, outcome)
        if event.verb in _OPENING:
            self._ready[event.task] = event.at
        if event.verb in _FINISHING:
            self._finished[event.task] = event.at

    def _claimed(self, event: Event) -> None:
        taken = event.task in self.running or "taken_from" in event.detail
        if taken:
            self._end(event.task, event.at, "taken over" if event.detail.get("forced") else "expired")
        waited = None if taken else self._waited(event)
        self.running[event.task] = Attempt(event.task, event.agent or "", event.attempt or 0, event.at, waited=waited)

    def _waited(self, event: Event) -> timedelta | None:
        """The time when it became claimable: added or opened, with its last prerequisite finished."""
        ready = self._ready.get(event.task)
        if ready is None:
            return None
        finished = [self._finished[one] for one in self._needs.get(event.task, ()) if one in self._finished]
        return max(event.at - max([ready, *finished]), timedelta())

    def _end(self, task: str, at: datetime, outcome: str) -> None:
        attempt = self.running.pop(task, None)
        if attempt is not None:
            self.ended.append(attempt._replace(ended_at=at, outcome=outcome))


def attempts(events: Iterable[Event], links: Iterable[Link] = ()) -> list[Attempt]:
    """The attempts whose claim is among these events of one scope, in the order of their claims."""
    reading = _Reading(links)
    for event in events:
        reading.read(event)
    return sorted((*reading.ended, *reading.running.values()), key=lambda one: (one.claimed_at, one.task))


def percentiles(values: Iterable[timedelta | None]) -> Percentiles | None:
    seconds = sorted(value.total_seconds() for value in values if value is not None)
    if not seconds:
        return None
    half, most, nearly_all = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.9, 0.95))
    return Percentiles(half, most, nearly_all, len(seconds))


def summed(
    events: Sequence[Event],
    since: datetime,
    until: datetime,
    *,
    links: Iterable[Link] = (),
    labels: Mapping[str, Sequence[str]] | None = None,
    whole: bool = True,
) -> Trends:
    """The events between two moments. Earlier events only give the start of attempts that ended after `since`."""
    tried = attempts(events, links)
    inside = [event for event in events if event.at >= since and event.outcome is Outcome.OK]
    finished = [event for event in inside if event.verb in _FINISHING]
    ended = [one for one in tried if one.ended_at is not None and one.ended_at >= since]
    holder = {one.task: one.agent for one in tried}
    failed = [one for one in ended if one.outcome == "failed"]
    expired = [one for one in ended if one.outcome == "expired"]
    names = labels or {}
    return Trends(
        since,
        until,
        whole,
        sum(event.verb in {"add", "import"} for event in inside),
        sum(event.verb == Verb.CLAIM for event in inside),
        len(finished),
        len(failed),
        len(expired),
        percentiles(one.waited for one in tried if one.claimed_at >= since),
        percentiles(one.ran for one in ended if one.outcome in _WORKED),
        _buckets(since, until, [one.at for one in finished], failed, expired),
        _shares([(holder.get(one.task, one.agent or ""),) for one in finished], [((one.agent,), one) for one in ended]),
        _shares([names.get(one.task, ()) for one in finished], [(names.get(one.task, ()), one) for one in ended]),
    )


def _shares(finished: Iterable[Sequence[str]], ended: Sequence[tuple[Sequence[str], Attempt]]) -> tuple[Share, ...]:
    """Totals by name, most finished first; each task and attempt is given with its names."""
    done = Counter(name for names in finished for name in names)
    bad: Counter[tuple[str, str]] = Counter((name, one.outcome) for names, one in ended for name in names)
    runs: dict[str, list[timedelta | None]] = defaultdict(list)
    for names, one in ended:
        for name in names:
            if one.outcome in _WORKED:
                runs[name].append(one.ran)
    known = dict.fromkeys([*done, *(name for name, outcome in bad if outcome in {"failed", "expired"})])
    found = [
        Share(name, done[name], bad[name, "failed"], bad[name, "expired"], percentiles(runs[name])) for name in known
    ]
    return tuple(sorted((one for one in found if one.name), key=lambda one: (-one.finished, -one.failed, one.name)))


def _buckets(
    since: datetime,
    until: datetime,
    finished: Sequence[datetime],
    failed: Sequence[Attempt],
    expired: Sequence[Attempt],
) -> tuple[Bucket, ...]:
    width = max((until - since) / BUCKETS, timedelta(microseconds=1))

    def counted(moments: Iterable[datetime | None]) -> Counter[int]:
        return Counter(min(BUCKETS - 1, int((at - since) / width)) for at in moments if at is not None)

    done, bad, late = (
        counted(finished),
        counted(one.ended_at for one in failed),
        counted(one.ended_at for one in expired),
    )
    return tuple(Bucket(since + place * width, done[place], bad[place], late[place]) for place in range(BUCKETS))


def stuck(
    tasks: Iterable[Task], now: datetime, *, run: Percentiles | None = None, abilities: frozenset[str] | None = None
) -> list[Stuck]:
    """Tasks that make no progress, the oldest first. `abilities` are those of enrolled agents, None without agents."""
    found = [Stuck(task.id, task.title, *told) for task in tasks if (told := _stuck(task, now, run, abilities))]
    return sorted(found, key=lambda one: one.since)[:_MOST_STUCK]


def _stuck(
    task: Task, now: datetime, run: Percentiles | None, abilities: frozenset[str] | None
) -> tuple[datetime, str] | None:
    if task.status in _ASKING:
        return task.updated_at, f"{_ASKING[task.status]}{': ' + task.reason if task.reason else ''}"
    if task.status is Status.ACTIVE and task.lease is not None:
        lease = task.lease
        if lease.expires_at is not None and lease.expires_at <= now:
            return lease.expires_at, f"The lease of {lease.agent} expired, and no agent has claimed it."
        if (
            run is not None
            and run.samples >= _ENOUGH
            and now - lease.claimed_at > max(_LONG * timedelta(seconds=run.p95), _LEAST_LONG)
        ):
            usual = in_words(timedelta(seconds=round(run.p95)))
            return lease.claimed_at, f"{lease.agent} is at work on it; 95 % of attempts end within {usual}."
    missing = set(task.requires) - abilities if abilities is not None and task.status is Status.READY else set()
    if missing:
        return task.updated_at, f"It requires {', '.join(sorted(missing))}, which no enrolled agent can do."
    return None


_ASKING = {
    Status.BLOCKED: "Blocked",
    Status.REVIEW: "Waits for a review",
    Status.ESCALATED: "Waits for a decision",
}


# Read from a desk


def recent(desk: Desk, since: datetime) -> tuple[list[Event], bool]:
    """The newest events back to a moment, oldest first, and whether that is all of them."""
    last = _FIRST
    while True:
        found = desk.events(last=last)
        if len(found) < last or found[0].at < since:
            return found, True
        if last >= _MOST:
            return found, False
        last = min(4 * last, _MOST)


def trends(desk: Desk, span: timedelta) -> Trends:
    """The trends of a scope over this span."""
    now = desk.now()
    events, whole = recent(desk, now - span)
    since = _begin(events, now - span)
    worked = dict.fromkeys(event.task for event in reversed(events) if event.task and event.verb in _TOLD)
    labels = _labels(desk, list(worked)[:_LABELED])
    return summed(events, since, now, links=_links(desk, list(worked)), labels=labels, whole=whole)


_TOLD = frozenset({Verb.CLAIM, *_ENDED, *_FINISHING})


def _labels(desk: Desk, tasks: Iterable[str]) -> dict[str, tuple[str, ...]]:
    exact, found = desk.exact, {}
    for task in tasks:
        with suppress(NotFound):
            found[task] = exact.get(task).labels
    return found


def _links(desk: Desk, tasks: Sequence[str]) -> list[Link]:
    if not desk.capabilities.links:
        return []
    exact, parts = desk.exact, (tasks[place : place + _LINKS] for place in range(0, len(tasks), _LINKS))
    return [link for part in parts for link in exact.links(*part)]


def attempts_of(desk: Desk, span: timedelta) -> tuple[list[Attempt], datetime]:
    """The attempts that ended within this span or are running, and the start of complete data."""
    since = desk.now() - span
    events, _ = recent(desk, since)
    tried = [one for one in attempts(events) if one.ended_at is None or one.ended_at >= since]
    return tried, _begin(events, since)


def _begin(events: Sequence[Event], since: datetime) -> datetime:
    """The start of complete data: the first event of a young scope, or the oldest event read."""
    return max(since, events[0].at) if events else since


def stuck_tasks(desk: Desk, run: Percentiles | None = None) -> list[Stuck]:
    """Tasks that make no progress, with reasons. Of the ready tasks, only the first few hundred are read."""
    held = desk.find(Query(desk.scope, (Status.ACTIVE, *_ASKING)))
    ready = desk.find(Query(desk.scope, (Status.READY,), limit=_LABELED))
    members = desk.members() if desk.has_fleet else []
    abilities = frozenset(skill for member in members for skill in member.can) if members else None
    return stuck([*held, *ready], desk.now(), run=run, abilities=abilities)


# As JSON


def trends_json(found: Trends) -> dict[str, Json]:
    return {
        "since": time_text(found.since),
        "until": time_text(found.until),
        "whole": found.whole,
        **{name: getattr(found, name) for name in ("added", "claims", "finished", "failed", "expired")},
        "wait_seconds": _times(found.wait),
        "run_seconds": _times(found.run),
        "buckets": [{**one._asdict(), "at": time_text(one.at)} for one in found.buckets],
        "agents": [_share(one) for one in found.agents],
        "labels": [_share(one) for one in found.labels],
    }


def _times(found: Percentiles | None) -> Json:
    return None if found is None else {name: round(value, 3) for name, value in found._asdict().items()}


def _share(one: Share) -> Json:
    return {**one._asdict(), "run": _times(one.run)}


def stuck_json(found: Iterable[Stuck]) -> list[Json]:
    return [{**one._asdict(), "since": time_text(one.since)} for one in found]


def attempt_json(one: Attempt) -> dict[str, Json]:
    out: dict[str, Json] = {"task": one.task, "agent": one.agent, "attempt": one.number, "outcome": one.outcome}
    out["claimed_at"] = time_text(one.claimed_at)
    if one.ended_at is not None:
        out["ended_at"] = time_text(one.ended_at)
    return out
