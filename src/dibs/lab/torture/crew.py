"""The workers, as real processes, and the faults. A killed worker is replaced by a new one in the same seat."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.history import has_begun, new_log, now
from dibs.lab.torture.worker import HABITS, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dibs.lab.torture.proxies import Proxy

    Act = Callable[[subprocess.Popen[bytes]], None]


_PATIENCE = 120.0  # seconds for a worker to end; a busy machine may be slow


class Terms(NamedTuple):
    """The settings of all workers of a crew."""

    url: str
    folder: str
    environment: Mapping[str, str]
    seed: int
    lease: float
    work: float
    skew: float
    rule: str
    mischief: float = 1.0


class Seat:
    def __init__(self, number: int, agent: str) -> None:
        self.number, self.agent = number, agent
        self.life = 0
        self.logs: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def worker(self) -> str:
        return f"w{self.number}.{self.life}"


class Crew:
    def __init__(self, size: int, terms: Terms) -> None:
        self._terms = terms
        self._dice = random.Random(f"{terms.seed} crew")  # noqa: S311 - an experiment that can be repeated
        shared = max(2, size // 3)
        self.seats = [Seat(one, "twin" if one < shared else f"agent-{one}") for one in range(size)]
        self.skewed = 0
        self.breakdowns: list[tuple[str, str]] = []  # workers that broke down, with their last output
        for seat in self.seats:
            self.hire(seat)

    @property
    def logs(self) -> list[str]:
        return [log for seat in self.seats for log in seat.logs]

    def hire(self, seat: Seat) -> None:
        """A new worker for a seat. It also tries the tokens of its predecessor."""
        terms = self._terms
        ghosts = tuple(seat.logs[-1:])
        seat.life += 1
        seat.logs.append(new_log(os.path.join(terms.folder, f"{seat.worker}.jsonl")))
        skew = self._dice.choice((-1, 1)) * terms.skew * self._dice.random() if terms.skew else 0.0
        self.skewed += bool(skew)
        job = Job(
            url=terms.url,
            folder=terms.folder,
            log=seat.logs[-1],
            worker=seat.worker,
            agent=seat.agent,
            habit=HABITS[seat.number % len(HABITS)],
            seed=f"{terms.seed} {seat.worker}",
            lease=terms.lease,
            work=terms.work,
            parent=os.getpid(),
            skew=skew,
            rule=terms.rule,
            ghosts=ghosts,
            mischief=terms.mischief,
        )
        seat.process = self._started(job)

    def _started(self, job: Job) -> subprocess.Popen[bytes]:
        """Start a worker. The job is passed on stdin, because its URL may contain a password."""
        process = subprocess.Popen(
            [sys.executable, "-m", "dibs.lab.torture.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # no file: those may be kept from growing
            env={**os.environ, **self._terms.environment},
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(job._asdict()).encode())
        process.stdin = None  # there is nothing more to say to it
        return process

    @property
    def at_work(self) -> bool:
        """Whether every worker has made a request."""
        return all(map(has_begun, [seat.logs[-1] for seat in self.seats]))

    def kill(self, seat: Seat) -> None:
        """Kill a worker with SIGKILL, and replace it."""
        if seat.process is not None and seat.alive:
            seat.process.kill()
            seat.process.communicate(timeout=_PATIENCE)
            self.hire(seat)

    def tend(self) -> None:
        """Record workers that broke down, and replace them."""
        for seat in self.seats:
            if seat.process is not None and not seat.alive:
                self._note(seat)
                self.hire(seat)

    def _note(self, seat: Seat) -> None:
        process = seat.process
        said = b"" if process is None else process.communicate()[1]
        if process is not None and process.returncode:
            told = said.decode(errors="replace").strip()
            self.breakdowns.append((seat.worker, told or f"it ended with status {process.returncode}"))

    def end(self) -> None:
        """Wait until all workers have ended, and kill the rest."""
        deadline = time.monotonic() + _PATIENCE
        for seat in self.seats:
            process = seat.process
            if process is None:
                continue
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.breakdowns.append((seat.worker, f"it did not end within {_PATIENCE:.0f} s"))
                process.kill()
                process.communicate(timeout=_PATIENCE)
            else:
                self._note(seat)
            seat.process = None


def stand_still(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)


def go_on(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)


def fill_the_disk(process: subprocess.Popen[bytes]) -> None:
    """Let no file of this process grow, as on a full disk."""
    _limit_files(process, 1)


def make_room(process: subprocess.Popen[bytes]) -> None:
    _limit_files(process, None)


def _limit_files(process: subprocess.Popen[bytes], most: int | None) -> None:
    if process.poll() is None:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard if most is None else most, hard))


_SECONDS_BETWEEN = {"kill": 1.5, "stop": 2.5, "restart": 20.0, "partition": 2.5, "disk": 5.0, "slow": 4.0}
_BREAKS = ("cut", "freeze", "refuse", "hole", "answer", "answer", "request")


class Mark(NamedTuple):
    """A fault that affected one seat or all of them."""

    fault: str
    what: str
    begin: float
    end: float
    seat: int | None = None


class Faults:
    """Causes and ends faults at their times, and records both."""

    def __init__(
        self,
        names: Iterable[str],
        crew: Crew,
        dice: random.Random,
        *,
        lease: float,
        calm: float,
        proxy: Proxy | None,
        restart: Callable[[], None] | None,
    ) -> None:
        self._crew, self._dice, self._lease, self._calm = crew, dice, lease, calm
        self._proxy, self._restart = proxy, restart
        self._strikes = {
            "kill": self._kill,
            "stop": self._stop,
            "restart": self._start_again,
            "partition": self._partition,
            "disk": self._fill_the_disk,
            "slow": self._slow_down,
        }
        self._names = [name for name in names if name in self._strikes]
        self._due: dict[str, float] = {}
        self._healing: list[tuple[float, Callable[[], None]]] = []
        self.marks: list[Mark] = []
        self.trouble: list[str] = []

    @property
    def counts(self) -> Counter[str]:
        return Counter(mark.fault for mark in self.marks)

    def tick(self) -> None:
        """Cause and end the faults that are due. The first call starts the clock."""
        if not self._due:
            self._due = {name: now() + self._soon(name) / 2 for name in self._names}
        for name, due in self._due.items():
            if now() > due:
                self._strikes[name]()
                self._due[name] = now() + self._soon(name)
        self._heal(now())

    def end(self) -> None:
        """End all faults."""
        self._cut_short(lambda _mark: True)
        self._heal(float("inf"))
        if self._proxy is not None:
            self._proxy.heal()

    def _soon(self, name: str) -> float:
        return self._dice.uniform(0.5, 1.5) * self._calm * _SECONDS_BETWEEN[name]

    def _heal(self, moment: float) -> None:
        due = [heal for until, heal in self._healing if until <= moment]
        self._healing = [(until, heal) for until, heal in self._healing if until > moment]
        for heal in due:
            heal()

    def _note(self, fault: str, what: str, seconds: float = 0.0, seat: int | None = None) -> None:
        begin = now()
        self.marks.append(Mark(fault, what, begin, begin + seconds, seat))

    def _kill(self) -> None:
        seat = self._dice.choice(self._crew.seats)
        self._cut_short(lambda mark: mark.seat == seat.number)
        self._note("kill", "killed", seat=seat.number)
        self._crew.kill(seat)

    def _cut_short(self, which: Callable[[Mark], bool]) -> None:
        """End all faults that last for a time."""
        self.marks = [mark._replace(end=min(mark.end, now())) if which(mark) else mark for mark in self.marks]

    def _stop(self) -> None:
        """Stop a worker for longer than a short lease. It then continues without noticing."""
        awake = self._awake()
        if awake:
            seat = self._dice.choice(awake)
            seconds = min(self._lease, 5.0) * self._dice.uniform(1.1, 1.8)
            self._note("stop", "stopped", seconds, seat.number)
            self._for(seconds, [seat], stand_still, go_on)

    def _awake(self) -> list[Seat]:
        """Workers that are not stopped already: ending the second stop would end the first one too early."""
        asleep = {mark.seat for mark in self.marks if mark.fault == "stop" and mark.end > now()}
        return [seat for seat in self._crew.seats if seat.number not in asleep]

    def _for(self, seconds: float, seats: Iterable[Seat], strike: Act, heal: Act) -> None:
        """Apply a fault to the workers in these seats, and end it later."""
        for process in [seat.process for seat in seats if seat.process is not None]:
            strike(process)
            self._healing.append((now() + seconds, partial(heal, process)))

    def _start_again(self) -> None:
        """Cause no other fault during this one."""
        if self._restart is None:
            return
        begin = now()
        try:
            self._restart()
        except Exception as error:  # noqa: BLE001 - the verdict reports it
            self.trouble.append(f"the server could not be started again: {error}")
        self.marks.append(Mark("restart", "server started again", begin, now()))

    def _partition(self) -> None:
        proxy, seconds = self._proxy, self._dice.uniform(0.3, 2.0)
        if proxy is None:
            return
        what = self._dice.choice(_BREAKS)
        if what == "cut":
            proxy.cut()
        elif what == "freeze":
            proxy.freeze()
        elif what == "refuse":
            proxy.refuse()
        elif what == "hole":
            proxy.black_hole()
        elif what == "answer":
            proxy.lose_answer(b"")
        else:
            proxy.lose_request(b"")
        lasting = what in {"refuse", "hole"}
        self._note("partition", _IN_WORDS[what], seconds if lasting else 0.0)
        if lasting:
            self._healing.append((now() + seconds, proxy.heal))

    def _slow_down(self) -> None:
        """A slow network. Stores without one get workers that stop for a moment, possibly with a lock."""
        seconds = self._dice.uniform(0.5, 2.0)
        if self._proxy is not None:
            self._proxy.delay = self._dice.uniform(0.02, 0.2)
            self._note("slow", "slow network", seconds)
            self._healing.append((now() + seconds, self._proxy.heal))
            return
        pause = self._dice.uniform(0.05, 0.4)
        self._note("slow", "all stand still", pause)
        self._for(pause, self._awake(), stand_still, go_on)

    def _fill_the_disk(self) -> None:
        seconds = self._dice.uniform(0.3, 1.5)
        self._note("disk", "no room", seconds)
        self._for(seconds, self._crew.seats, fill_the_disk, make_room)


_IN_WORDS = {
    "cut": "connections reset",
    "freeze": "connections half-open",
    "refuse": "server refuses",
    "hole": "nothing passes",
    "answer": "an answer is lost",
    "request": "a request is lost",
}
