"""Jobs a second and as a ratio to the bare floor, which is measured just before and just after each participant."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from bench.measure import median
from bench.postgres import participants as who
from bench.postgres.drain import Drained, Failed, drain
from bench.postgres.environments import NotInstalled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.postgres.options import Options
    from bench.postgres.participants import Participant
    from bench.postgres.server import Server

WORKERS = (1, 4, 8)


class Sample(NamedTuple):
    """One drain, and the floor around it."""

    drained: Drained
    floor: float

    @property
    def ratio(self) -> float:
        return self.drained.rate / self.floor


class Outcome(NamedTuple):
    """The results of one participant with a number of workers, or why there are none."""

    samples: tuple[Sample, ...] = ()
    absent: str = ""

    @property
    def rate(self) -> float:
        return median([sample.drained.rate for sample in self.samples])

    @property
    def ratio(self) -> float:
        return median([sample.ratio for sample in self.samples])

    def cell(self) -> str:
        if not self.samples:
            return self.absent
        faults = "; ".join(sample.drained.faults() for sample in self.samples if not sample.drained.exact)
        return f"{self.rate:,.0f} ({self.ratio:.2f})" + (f" **{faults}**" if faults else "")


class Race:
    """All participants one after the other on one server, with the floor in between."""

    def __init__(self, server: Server, jobs: int) -> None:
        self._server = server
        self._jobs = jobs
        self._samples: dict[tuple[Participant, int], list[Sample]] = {}
        self._absent: dict[Participant, str] = {}

    def enter(self, participants: Sequence[Participant]) -> list[Participant]:
        """Install the participants and return those that work; record why the others failed."""
        for one in participants:
            try:
                one.environment.install()
            except NotInstalled as error:
                self._absent[one] = f"not installed: {error}"
        return [one for one in participants if one not in self._absent]

    def round(self, participants: Sequence[Participant], workers: int) -> None:
        before = self._floor(workers)
        for one in participants:
            drained = self._drain(one, workers)
            after = self._floor(workers)
            if drained:
                self._keep(one, workers, Sample(drained, (before + after) / 2))
            before = after

    def outcome(self, participant: Participant, workers: int) -> Outcome:
        found = self._samples.get((participant, workers), [])
        return Outcome(tuple(found), self._absent.get(participant, "not measured"))

    def _floor(self, workers: int) -> float:
        drained = self._drain(who.FLOOR, workers)
        if not drained:
            raise SystemExit(f"The floor itself failed: {self._absent[who.FLOOR]}")
        self._keep(who.FLOOR, workers, Sample(drained, drained.rate))
        return drained.rate

    def _drain(self, participant: Participant, workers: int) -> Drained | None:
        try:
            drained = drain(self._server, participant, workers, self._jobs // participant.fewer)
        except Failed as error:
            self._absent[participant] = f"failed: {error}"
            print(f"  {workers} workers, {participant.name}: failed: {error}", file=sys.stderr)
            return None
        if not (drained.exact or participant.peer):
            raise SystemExit(f"{participant.name}, {workers} workers: {drained.faults()}")
        return drained

    def _keep(self, participant: Participant, workers: int, sample: Sample) -> None:
        self._samples.setdefault((participant, workers), []).append(sample)
        drained = sample.drained
        line = f"{participant.name}: {drained.rate:,.0f}/s ({sample.ratio:.2f}) {drained.faults()}"
        print(f"  {workers} workers, {line}", file=sys.stderr)


def race(server: Server, options: Options) -> Race:
    started = Race(server, options.jobs)
    started.enter([who.FLOOR])
    present = started.enter([one for one in who.EVERYONE if options.match in one.name])
    for _ in range(options.rounds):
        for workers in WORKERS:
            started.round(present, workers)
    return started
