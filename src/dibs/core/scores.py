"""The scores of agents, computed from the events."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT, Verb
from dibs.core.task import Json

SCORE = "score"  # the key of a rating in the details of an event; its columns are those of the Agent Task Log
AGENT, POINTS = "Agent", "Points Earned"

LEAST_RATING = 90  # the lowest score that earns points
FULL_RATING = 100
REWORK_COST = 10  # points


class Rating(NamedTuple):
    """Two scores of a finished task, from 0 to 100, and the number of reworks."""

    confidence: float
    coherence: float
    reworks: int = 0

    @property
    def good(self) -> bool:
        """Whether both scores are high enough to earn points."""
        return min(self.confidence, self.coherence) >= LEAST_RATING


def points(priority: float, rating: Rating) -> float:
    """The points of the mesh: the priority times the mean score, less a deduction for each rework."""
    earned = priority * (rating.confidence + rating.coherence) / (2 * FULL_RATING) - REWORK_COST * rating.reworks
    return round(earned, 6)


class Tally(NamedTuple):
    """One agent's counts: `lost` are its expired leases; `duration` is the median from claim to finish."""

    agent: str
    finished: int = 0
    failed: int = 0
    lost: int = 0
    duration: timedelta | None = None
    points: float = 0


class Scores(NamedTuple):
    """All tallies, most finished tasks first. `since` is the time from which events were counted."""

    since: datetime | None
    tallies: tuple[Tally, ...]


class _Held(NamedTuple):
    agent: str
    attempt: int | None
    at: datetime


class _Counting:
    """Reads events in order. Events before `since` are needed too, for durations of tasks that started earlier."""

    def __init__(self, since: datetime | None) -> None:
        self.since = since
        self._held: dict[tuple[str, str], _Held] = {}
        self._seconds: dict[str, list[float]] = {}
        self._tallies: dict[str, Tally] = {}

    def read(self, event: Event) -> None:
        if event.outcome is not Outcome.OK:
            return
        counts = self.since is None or event.at >= self.since
        task = (event.scope, event.task)
        if event.verb == Verb.CLAIM:
            lost_by = event.detail.get("taken_from")
            if counts and isinstance(lost_by, str) and not event.detail.get("forced"):
                self._add(lost_by, lost=1)
            self._held[task] = _Held(event.agent or "", event.attempt, event.at)
        elif event.verb in _ENDS:
            self._end(event, self._held.pop(task, None), counts=counts)
        if counts and SCORE in event.detail:
            self._score(event.detail[SCORE])

    def _end(self, event: Event, held: _Held | None, *, counts: bool) -> None:
        agent = held.agent if held else event.agent or ""
        if event.verb == Verb.REVIEW:  # finished once it is approved
            self._held[event.scope, event.task] = _Held(agent, event.attempt, held.at if held else event.at)
        elif not counts or (held is None and event.verb == Verb.APPROVE):
            return
        elif event.verb in {Verb.DONE, Verb.APPROVE}:
            self._add(agent, finished=1)
            if held is not None and event.verb == Verb.DONE:
                self._seconds.setdefault(agent, []).append((event.at - held.at).total_seconds())
        elif event.verb == Verb.EXHAUST and event.reason == LEASE_RAN_OUT:
            self._add(agent, lost=1)
        elif event.verb in {Verb.FAIL, Verb.EXHAUST}:
            self._add(agent, failed=1)

    def _score(self, entry: Json) -> None:
        earned = entry.get(POINTS) if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(earned, int | float):
            self._add(self._known(str(entry.get(AGENT) or "")), points=earned)

    def _known(self, name: str) -> str:
        """The mesh spells names in any case."""
        return next((agent for agent in self._tallies if agent.casefold() == name.casefold()), name)

    def _add(self, agent: str, **more: float) -> None:
        tally = self._tallies.get(agent, Tally(agent))
        self._tallies[agent] = tally._replace(**{name: getattr(tally, name) + value for name, value in more.items()})

    def tallies(self) -> tuple[Tally, ...]:
        found = [
            tally._replace(duration=self._median(tally.agent), points=round(tally.points, 6))
            for tally in self._tallies.values()
        ]
        return tuple(sorted(found, key=lambda tally: (-tally.finished, -tally.points, tally.agent)))

    def _median(self, agent: str) -> timedelta | None:
        taken = self._seconds.get(agent)
        return timedelta(seconds=median(taken)) if taken else None


_ENDS = frozenset(
    {Verb.DONE, Verb.FAIL, Verb.EXHAUST, Verb.REVIEW, Verb.APPROVE, Verb.REWORK, Verb.BLOCK, Verb.RELEASE, Verb.CANCEL}
    | {Verb.PAUSE, Verb.CLOSE}
)


def scores(events: Iterable[Event], since: datetime | None = None) -> Scores:
    """The scores of all agents since then. `events` must be complete, oldest first."""
    counting = _Counting(since)
    oldest = None
    for event in events:
        oldest = oldest or event.at
        counting.read(event)
    return Scores(since or oldest, counting.tallies())
