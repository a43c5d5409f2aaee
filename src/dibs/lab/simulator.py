"""The simulator: the real Desk and SQLite store, where one seed decides the schedule, the faults and the workload.

    python -m dibs.lab.simulator --seeds 1000

The workers of `dibs torture` run as threads of this process, one at a time. Before every SQL statement, and at every
wait of the store, the seed selects the thread that continues. Time is simulated. Actors take the place of processes and
own their locks and commit groups: they die before or after a statement, their clocks are wrong, their disks are slow or
fail, and answers are lost. The checker of the lab judges the answers that the workers got.

Everything else is real: SQLite, its files and locks, the store and the Desk. No result depends on the machine, so a
failing seed fails again.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import hashlib
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dibs import desk as desk_module
from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.lab.torture.checker import Assumptions, figures, violations
from dibs.lab.torture.experiments import AlteredStore, waves
from dibs.lab.torture.history import Log, Operation, in_order, operations
from dibs.lab.torture.reports import in_words
from dibs.lab.torture.worker import HABITS, SCOPE, Hold, Job, Recorder, Worker
from dibs.stores.sqlite import commits, database
from dibs.stores.sqlite.commits import FairLock, Request
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dibs.stores.port import Store

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_LEASE, _WORK, _PATIENCE = 1.0, 0.2, 30.0  # the shortest lease there is
_SKEW = 0.1  # seconds by which a clock is wrong at most
_PLANNED = 12  # tasks that are there at first
_LINKED = 3  # tasks between which a worker makes links
_RELINKED = 3  # times in a turn
_LOSES = frozenset({"claim", "move", "move_all", "add", "link", "unlink"})  # verbs whose answer may get lost


class Died(BaseException):
    """The process of this actor was killed. Nothing that it would have done after this counts."""


class Chances(NamedTuple):
    """How likely what is, in one simulation; the seed draws these too."""

    stay: float  # the same actor goes on
    die: float  # at a statement
    die_at_commit: float  # before it, and as likely after it
    slow: float  # the disk takes up to two seconds
    fail: float  # the disk fails
    lose: float  # an answer
    jump: float  # a clock is set to another wrong time
    together: float  # an actor shares a process, and its commits, with the one before it


def _drawn(dice: random.Random) -> Chances:
    return Chances(
        stay=dice.choice((0.0, 0.5, 0.9)),
        die=dice.choice((0.0, 0.0005, 0.003)),
        die_at_commit=dice.choice((0.0, 0.01, 0.05)),
        slow=dice.choice((0.0, 0.02, 0.1)),
        fail=dice.choice((0.0, 0.0, 0.01)),
        lose=dice.choice((0.0, 0.01, 0.05)),
        jump=dice.choice((0.0, 0.002)),
        together=dice.choice((0.0, 0.5, 1.0)),
    )


class Process:
    """What several actors may have in common: a life, and a clock that is wrong."""

    def __init__(self, number: int, skew: float) -> None:
        self.number = number
        self.skew = skew
        self.dead = False


class Player:
    """One thread that runs when it is its turn."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.turn = threading.Semaphore(0)
        self.until = 0.0  # it sleeps
        self.over = False


class Verdict(NamedTuple):
    """The result of a seed. `digest` covers all statements, times and answers."""

    seed: int
    faults: tuple[str, ...]  # violations and exceptions
    operations: int
    finished: int
    deaths: int
    digest: str


class Simulation:
    """One seed."""

    def __init__(self, seed: int, folder: str, *, players: int = 4, seconds: float = 3.0) -> None:
        self._seed, self._seconds, self._number_of_players = seed, seconds, players
        self._path = os.path.join(folder, "dibs.db")
        self._dice = random.Random(f"{seed} simulator")  # noqa: S311 - it can be repeated, and is no secret
        self._mint = random.Random(f"{seed} names")  # noqa: S311
        self._chances = _drawn(self._dice)
        self._time = 0.0
        self._trace = hashlib.sha256()
        self._players: list[Player] = []
        self._running: Player | None = None
        self._over = threading.Semaphore(0)
        self._lines: list[list[dict[str, Any]]] = []
        self._processes = self._deaths = 0
        self._broken: list[str] = []
        self._calm = False  # nothing fails while the store is made and looked at

    # Faults

    def run(self) -> Verdict:
        with _instead(self._substitutes()):
            self._calm = True
            self._lay()
            self._calm = False
            for number in range(self._number_of_players):
                self._add(f"w{number}", 1, number, ())
            self._switch(None)
            self._over.acquire()
            self._calm = True
            findings = self._look()
        history = in_order(each for lines in self._lines for each in operations(lines))
        found = violations(history, Assumptions(2 * _SKEW + 0.01, 2 * _SKEW + 0.01, patience=1e9))
        said = [f"{each.rule}: {each.message}{_told(each.proof)}" for each in found]
        self._trace.update(repr(history).encode())
        finished = figures(history).finishes
        faults = (*self._broken, *said, *findings)
        return Verdict(self._seed, faults, len(history), finished, self._deaths, self._trace.hexdigest())

    def _lay(self) -> None:
        with SqliteStore(self._path, create=True, clock=self._clock) as store:
            wave = next(waves(self._seed, _PLANNED))
            self._recorder(store).lay(wave, "p")

    def _look(self) -> list[str]:
        self._time += 2 * _SKEW  # whatever a clock that was ahead has opened is due by every clock now
        with SqliteStore(self._path, clock=self._clock) as store:
            self._recorder(store).look()
            return [f"check: {each.subject}: {each.problem}" for each in store.check(fix=False)]

    def _recorder(self, store: Store) -> Recorder:
        desk = Desk(store, scope=SCOPE, by=Actor("planner"))
        name = f"planner{len(self._lines)}"
        return Recorder(desk, self.log_of(name, "planner"), worker=name, agent="planner", lease=0.0)

    def _add(self, name: str, life: int, number: int, lost: Sequence[Hold]) -> None:
        """A new player; where chance has it, in the process of the one before."""
        before = self._players[-1].process if self._players else None
        if before is not None and not before.dead and self._dice.random() < self._chances.together:
            process = before
        else:
            self._processes += 1
            process = Process(self._processes, self._skew())
        player = Player(f"{name}.{life}", process)
        player.until = self._time + self._dice.uniform(0, 0.05)
        job = Job(
            url=self._path, folder="", log="", worker=player.name, agent=name, habit=HABITS[number % len(HABITS)],
            seed=f"{self._seed} {player.name}", lease=_LEASE, work=_WORK, parent=os.getppid(), mischief=3.0,
        )  # fmt: skip
        worker = _Simulated(job, self, lost)
        self._players.append(player)
        threading.Thread(target=self._live, args=(player, worker, name, life, number), daemon=True).start()

    def _live(self, player: Player, worker: _Simulated, name: str, life: int, number: int) -> None:
        player.turn.acquire()
        try:
            worker.run()
        except Died:
            if self.at_work:
                self._add(name, life + 1, number, worker.given)
        except BaseException:  # noqa: BLE001 - whatever it is, it is part of the verdict
            self._broken.append(f"{player.name} broke down: {traceback.format_exc()}")
        player.over = True
        self._switch(player)

    @property
    def at_work(self) -> bool:
        return self._time < self._seconds and not self._broken

    # The schedule

    def _switch(self, player: Player | None) -> None:
        """Choose who goes on, and wait until it is this one again."""
        alive = [each for each in self._players if not each.over]
        if not alive:
            self._over.release()
            return
        awake = [each for each in alive if each.until <= self._time]
        if not awake:
            self._time = min(each.until for each in alive)
            awake = [each for each in alive if each.until <= self._time]
        following = self._dice.choice(awake)
        if following is player:
            return
        self._running = following
        following.turn.release()
        if player is not None and not player.over:
            player.turn.acquire()

    def sleep(self, seconds: float) -> None:
        player = self._me()
        player.until = self._time + seconds
        self._switch(player)
        self._live_on(player)

    def wait_for(self, attempt: Callable[[], bool], seconds: float) -> bool:
        """Try again and again, as a waiting process would be woken at some time; False if the time is over."""
        limit, pause = self._time + seconds, 0.001
        while not attempt():
            if self._time > limit:
                return False
            self.sleep(pause * self._dice.uniform(0.5, 1.5))
            pause = min(2 * pause, 0.05)
        return True

    def _me(self) -> Player:
        assert self._running is not None
        return self._running

    def _live_on(self, player: Player) -> None:
        if player.process.dead:
            raise Died

    def _kill(self, player: Player) -> None:
        player.process.dead = True
        self._deaths += 1
        raise Died

    # What the store meets instead of a machine

    def before(self, statement: str) -> None:
        if self._calm:
            return
        player, chances = self._me(), self._chances
        self._live_on(player)
        self._time += self._dice.uniform(0.00001, 0.0005)
        self._trace.update(f"{self._time:.6f} {player.name} {statement[:60]}\n".encode())
        if self._dice.random() < chances.jump:
            player.process.skew = self._skew()
        if statement == "COMMIT":
            if self._dice.random() < chances.die_at_commit:
                self._kill(player)
            self._take_time()
        elif self._dice.random() < chances.die:
            self._kill(player)
        if self._dice.random() >= chances.stay:
            self._switch(player)
            self._live_on(player)

    def after(self, statement: str) -> None:
        if not self._calm and statement == "COMMIT" and self._dice.random() < self._chances.die_at_commit:
            self._kill(self._me())

    def now(self) -> float:
        """A clock that never returns the same time twice."""
        self._time += 0.000001
        return self._time

    def _clock(self) -> datetime:
        skew = self._running.process.skew if self._running is not None and not self._calm else 0.0
        return _EPOCH + timedelta(seconds=1000 + self._time + skew)

    def _skew(self) -> float:
        return self._dice.uniform(-_SKEW, _SKEW)

    def _take_time(self) -> None:
        """The disk is at work."""
        slow = self._dice.random() < self._chances.slow
        self.sleep(self._dice.uniform(0.2, 2.0) if slow else self._dice.uniform(0.0005, 0.005))

    def _sync(self, _descriptor: int) -> None:
        if self._calm:
            return
        self._take_time()
        if self._dice.random() < self._chances.fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def lost(self) -> bool:
        return self._dice.random() < self._chances.lose

    def _token(self) -> str:
        return f"{self._mint.getrandbits(128):032x}"

    def log_of(self, worker: str, agent: str) -> _MemoryLog:
        lines: list[dict[str, Any]] = []
        self._lines.append(lines)
        return _MemoryLog(self, lines, worker, agent)

    def opened(self) -> Store:
        store: Any = _LossyLine(SqliteStore(self._path, timeout=_PATIENCE, clock=self._clock), self)
        return cast("Store", store)

    def alive(self) -> bool:
        return self._calm or not self._me().process.dead

    def _substitutes(self) -> list[tuple[Any, str, Any]]:
        """Replaces the machine functions that the store uses."""

        def queue(lock: FairLock) -> None:
            if not self.wait_for(lambda: _seized(lock), _PATIENCE):
                raise StoreBusy("Another process has been writing for too long.", retry_after_ms=1000)

        def wait(request: Request, seconds: float) -> bool:
            signal = request._signal  # noqa: SLF001 - replaces its method
            return self.wait_for(lambda: signal.acquire(False), 1e9 if seconds < 0 else seconds)

        def process(path: str, *, durable: bool) -> tuple[object, ...]:
            number = 0 if self._calm else self._me().process.number
            return (number, path, durable)

        connect = sqlite3.connect

        def connected(path: str, **options: Any) -> Any:
            connection: Any = connect(path, **{**options, "timeout": 0.0, "factory": _Connection})
            connection.simulation = self
            return connection

        return [
            (FairLock, "_wait_in_line", queue),
            (Request, "wait", wait),
            (database, "_identity", process),
            (commits, "_sync", self._sync),
            (sqlite3, "connect", connected),
            (desk_module, "mint_token", self._token),
            (desk_module, "mint_id", lambda length=6: self._token()[:length]),
        ]


def _seized(lock: FairLock) -> bool:
    try:
        fcntl.flock(lock._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # noqa: SLF001 - replaces its method
    except BlockingIOError:
        return False
    return True


def _told(proof: Sequence[Operation]) -> str:
    return "".join(f"\n      {in_words(each, 0.0)}" for each in sorted(proof, key=lambda each: each.begin))


@contextmanager
def _instead(substitutes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    real = [(owner, name, getattr(owner, name)) for owner, name, _ in substitutes]
    try:
        for owner, name, value in substitutes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in real:
            setattr(owner, name, value)


class _Connection(sqlite3.Connection):
    simulation: Simulation

    def cursor(self, _factory: Any = None) -> Any:
        return super().cursor(_Cursor)


class _Cursor(sqlite3.Cursor):
    """Every statement passes here."""

    def execute(self, statement: str, *parameters: Any) -> Any:
        simulation = cast("_Connection", self.connection).simulation
        simulation.before(statement)
        super().execute(statement, *parameters)
        simulation.after(statement)
        return self


class _MemoryLog(Log):
    """What a worker saw, in memory. The dead write nothing down."""

    def __init__(self, simulation: Simulation, lines: list[dict[str, Any]], worker: str, agent: str) -> None:
        self._simulation, self._lines = simulation, lines
        self._who = {"worker": worker, "agent": agent}
        self._number = 0

    @property
    def full(self) -> bool:
        return False

    def now(self) -> float:
        return self._simulation.now()

    def _write(self, fields: Any) -> None:
        if not self._simulation.alive():
            raise Died
        self._lines.append(dict(fields))


class _LossyLine(AlteredStore):
    """A store that executes requests but loses some answers."""

    def __init__(self, store: Store, simulation: Simulation) -> None:
        super().__init__(store)
        self._simulation = simulation

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.store, name)
        if name not in _LOSES:
            return verb

        def ask(*asked: Any, **more: Any) -> Any:
            answer = verb(*asked, **more)
            if self._simulation.lost():
                raise StoreUnavailable("The answer was lost.")
            return answer

        return ask


class _Simulated(Worker):
    """The lab's worker, with a log in memory and time that the simulation passes."""

    def __init__(self, job: Job, simulation: Simulation, lost: Sequence[Hold]) -> None:
        self._simulation = simulation
        super().__init__(job, simulation.log_of(job.worker, job.agent), simulation.sleep)
        self._lost.extend(lost)
        self.given: list[Hold] = []

    def _told(self, word: str) -> bool:
        return word == "stop" and not self._simulation.at_work

    def _opened(self) -> Store:
        return self._simulation.opened()

    def _got(self, holds: list[Hold]) -> None:
        self.given += holds
        super()._got(holds)

    def _meddle(self) -> None:
        super()._meddle()
        for _ in range(_RELINKED):
            self._relink()

    def _some(self, number: int) -> list[str]:
        """A pair from a few tasks, so that workers use the same links."""
        known = sorted(set(self._known))[:_LINKED]
        return self._dice.sample(known, min(number, len(known)))


def simulate(seed: int) -> Verdict:
    """Run one seed in a temporary folder, in memory if possible."""
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a temporary folder is created in it
    folder = tempfile.mkdtemp(prefix="dibs-simulator-", dir=home)
    try:
        return Simulation(seed, folder).run()
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dibs.lab.simulator", description="Simulate fleets, seed by seed.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=1, help="the first one (1)")
    parser.add_argument("--digests", action="store_true", help="print a number for each seed, to compare runs")
    args = parser.parse_args()
    if sys.flags.hash_randomization:  # the order of sets is to be the same every time, too
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - ourselves
    asked = finished = deaths = 0
    for seed in range(args.first, args.first + args.seeds):
        verdict = simulate(seed)
        asked, finished = asked + verdict.operations, finished + verdict.finished
        deaths += verdict.deaths
        if args.digests:
            print(seed, verdict.digest)  # noqa: T201 - for a person
        if verdict.faults:
            print(f"seed {seed} failed; 'make simulate FIRST={seed} SEEDS=1' does the same again:")  # noqa: T201
            print(*(f"  {each}" for each in verdict.faults), sep="\n")  # noqa: T201
            return 1
    print(f"{args.seeds} seeds, {asked} operations, {finished} tasks done, {deaths} deaths: no violations")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
