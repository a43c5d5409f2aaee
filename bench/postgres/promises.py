"""Compare the promised throughput with the measured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.measure import Figure
from bench.postgres import participants as who
from bench.postgres.throughput import WORKERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.postgres.participants import Participant
    from bench.postgres.throughput import Race


def figures(race: Race) -> list[Figure]:
    found = [
        _at_least(race, who.APART, who.FLOOR, 0.85),
        _ahead(race, "one at a time", who.APART, who.ONE_AT_A_TIME),
        _at_least(race, who.TOGETHER, who.FLOOR, 1.4),
    ]
    for size in (10, 100):
        rivals = [one for one in who.IN_BATCHES[size] if one.name.startswith(("pg-boss", "pgqueuer"))]
        found += [
            _ahead(race, f"batches of {size}", who.BATCHES[size], rivals),
            _at_least(race, who.BATCHES[size], who.FLOOR_BATCHES[size], 0.8),
        ]
    return [figure for figure in found if figure]


def _ratios(race: Race, participant: Participant) -> list[float]:
    """Ratios to the floor, by the number of workers; empty unless all were measured."""
    outcomes = [race.outcome(participant, workers) for workers in WORKERS]
    return [outcome.ratio for outcome in outcomes] if all(outcome.samples for outcome in outcomes) else []


def _at_least(race: Race, ours: Participant, base: Participant, promise: float) -> Figure | None:
    ratios = [mine / its for mine, its in zip(_ratios(race, ours), _ratios(race, base), strict=False)]
    if not ratios:
        return None
    what = f"{ours.name}, ratio to {base.name}, {_workers()}"
    return Figure(what, _listed(ratios), f"≥ {promise}", min(ratios) >= promise)


def _first(ratios: Mapping[Participant, Sequence[float]], place: int) -> Participant:
    return max(ratios, key=lambda one: ratios[one][place])


def _ahead(race: Race, what: str, ours: Participant, rivals: Sequence[Participant]) -> Figure | None:
    """The ratio to the fastest rival at each number of workers."""
    mine = _ratios(race, ours)
    theirs = {one: ratios for one in rivals if (ratios := _ratios(race, one))}
    if not mine or not theirs:
        return None
    best = [_first(theirs, place) for place in range(len(WORKERS))]
    ratios = [mine[place] / theirs[one][place] for place, one in enumerate(best)]
    names = ", ".join(one.name.partition(",")[0] for one in best)
    absent = len(rivals) - len(theirs)
    value = f"{_listed(ratios)} (the best: {names}{f'; {absent} could not be measured' if absent else ''})"
    return Figure(f"{ours.name}, ratio to the best peer, {what}, {_workers()}", value, "> 1", min(ratios) > 1)


def _workers() -> str:
    return f"{'/'.join(str(workers) for workers in WORKERS)} workers"


def _listed(ratios: Sequence[float]) -> str:
    return " / ".join(f"{ratio:.2f}" for ratio in ratios)
