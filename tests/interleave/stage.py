"""Races on SQLite: a prepared store, the players, and every schedule of two operations.

The allowed outcomes are computed: the two operations run one after the other, in one process, on the same store. The
comparison covers the whole store, history included.
"""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError
from dibs.core.task import Actor, Task
from dibs.desk import Desk
from dibs.stores.sqlite.rows import from_micros, to_micros
from dibs.stores.sqlite.store import SqliteStore
from interleave.mutants import IMPATIENT
from interleave.stepper import PATIENCE, Act, Answer, Order, Paused, Player, Waiting, settle
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from dibs.stores.reports import Finding, Record
    from interleave.stepper import Mutant


class SharedClock:
    """A clock in a file: all players read it, and the test sets it while they wait."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.set(Clock().time)

    def __call__(self) -> datetime:
        with open(self._path, encoding="ascii") as file:
            return from_micros(int(file.read()))

    def set(self, moment: datetime) -> None:
        fresh = f"{self._path}.new"
        with open(fresh, "w", encoding="ascii") as file:
            file.write(str(to_micros(moment)))
        os.replace(fresh, self._path)

    def advance(self, **span: float) -> None:
        self.set(self() + timedelta(**span))


class Outcome(NamedTuple):
    """Both answers, the store's content afterwards, and the findings of its check."""

    first: Answer
    second: Answer
    state: tuple[Record, ...]
    findings: tuple[Finding, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(record.item for record in self.state if isinstance(record.item, Task))

    def task(self, task_id: str) -> Task:
        return next(task for task in self.tasks if task.id == task_id)

    def events(self, verb: str) -> int:
        """The number of events with this verb."""
        return len([record for record in self.state if getattr(record.item, "verb", "") == verb])


class Stage:
    """Makes equal copies of a store and runs races on them."""

    def __init__(self, folder: str, players: tuple[Player, ...], setup: Callable[[Desk], object]) -> None:
        self._folder = folder
        self._count = 0
        self._template = os.path.join(folder, "template.db")
        self.players = players
        self.clock = SharedClock(os.path.join(folder, "clock"))
        with self.open(self._template, create=True) as desk:
            setup(desk)
        assert not os.path.exists(f"{self._template}-wal"), "the template is still in its log"
        self._time = self.clock()

    def later(self, **span: float) -> None:
        """Let time pass before every race."""
        self._time += timedelta(**span)

    def open(self, path: str, *, create: bool = False) -> Desk:
        store = SqliteStore(path, create=create, durable=False, clock=self.clock)
        return Desk(store, scope="s", by=Actor("tester"))

    def fresh(self) -> str:
        """A new copy of the prepared store."""
        self._count += 1
        self.clock.set(self._time)
        path = os.path.join(self._folder, f"{self._count}.db")
        shutil.copyfile(self._template, path)
        return path

    def order(self, path: str, act: Act, mutant: Mutant | None = None) -> Order:
        timeout = 0 if mutant in IMPATIENT else PATIENCE
        return Order(path, act, self.clock, timeout=timeout, mutant=mutant)

    def outcome(self, path: str, first: Answer, second: Answer) -> Outcome:
        with self.open(path) as desk:
            return Outcome(first, second, tuple(desk.dump()), tuple(desk.check()))

    def in_turn(self, first: Act, second: Act) -> Outcome:
        """Run both operations one after the other, in this process: the expected outcome."""
        path = self.fresh()
        with self.open(path) as desk:
            answers = [answer_of(desk, first), answer_of(desk, second)]
        return self.outcome(path, answers[0], answers[1])

    def places(self, act: Act, mutant: Mutant | None = None) -> list[str]:
        """The SQL statements of an undisturbed operation."""
        player = self.players[0]
        player.start(self.order(self.fresh(), act, mutant))
        seen = []
        while isinstance(player.sign, Paused):
            seen.append(player.sign.sql)
            player.step()
        return seen

    def races(self, first: Act, second: Act, mutant: Mutant | None = None) -> Iterator[Race]:
        """Every schedule that pauses the first at its n-th statement while the second runs up to its m-th.

        Once the second waits for the first, a larger m makes no difference.
        """
        last_of_first = len(self.places(first, mutant))
        last_of_second = len(self.places(second, mutant))
        for at in range(1, last_of_first + 1):
            for until in range(1, last_of_second + 2):
                race = self._race(first, second, at, until, mutant)
                yield race
                if race.second_waited:
                    break

    def always_serial(
        self, first: Act, second: Act, *, gives_way: bool = False, answers: bool = True
    ) -> tuple[Outcome, Outcome]:
        """Race both ways round: the later operation always waits, and sees all writes of the earlier one.

        Returns the outcomes with the first earlier and with the second earlier; answers in the order of the arguments.
        Here no session gives way, and the answers of a race are always those of a serial order.
        """
        del gives_way, answers
        found = []
        for one, other in ((first, second), (second, first)):
            expected = self.in_turn(one, other)
            assert expected.findings == ()
            for race in self.races(one, other):
                assert race.second_waited, race
                assert race.outcome == expected, race
            found.append(expected)
        swapped = found[1]._replace(first=found[1].second, second=found[1].first)
        return found[0], swapped

    def crowd(self, at: int, *acts: Act) -> list[Answer]:
        """Pause the first at its n-th statement, start the others, which all wait, then let all run in that order."""
        self._latest = path = self.fresh()
        there = self.players[: len(acts)]
        there[0].start(self.order(path, acts[0]))
        there[0].run_to(at)
        for player, act in zip(there[1:], acts[1:], strict=True):
            assert isinstance(player.start(self.order(path, act)), Waiting)
        return [player.finish() for player in there]

    def left(self) -> Desk:
        """A desk on the store as the latest crowd left it."""
        return self.open(self._latest)

    @property
    def began(self) -> datetime:
        """The time at which every race begins."""
        return self._time

    def _race(self, first: Act, second: Act, at: int, until: int, mutant: Mutant | None) -> Race:
        path = self.fresh()
        one, other = self.players[:2]
        one.start(self.order(path, first, mutant))
        one.run_to(at)
        other.start(self.order(path, second, mutant))
        waited = isinstance(other.run_to(until), Waiting)
        settle(one, other)
        return Race(at, until, waited, self.outcome(path, one.finish(), other.finish()))


class Race(NamedTuple):
    """A schedule and its outcome."""

    at: int
    until: int
    second_waited: bool
    outcome: Outcome


def answer_of(desk: Desk, act: Act) -> Answer:
    try:
        return Answer(act(desk))
    except DibsError as error:
        return Answer(None, error.code, error.message, error.retry_after_ms)
