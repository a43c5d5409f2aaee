"""The workers: real processes, each in a seat that somebody else takes when it is killed."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.history import has_begun, new_log
from dibs.lab.torture.worker import HABITS, Job

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATIENCE = 30.0


class Terms(NamedTuple):
    """What all workers of a crew have in common."""

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
        self.breakdowns: list[tuple[str, str]] = []  # who ended as nobody should, and its last words
        for seat in self.seats:
            self.hire(seat)

    @property
    def logs(self) -> list[str]:
        return [log for seat in self.seats for log in seat.logs]

    def hire(self, seat: Seat) -> None:
        """A new worker for a seat. It haunts the desk with what the one before it was given."""
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
        """The job goes in by stdin, for its URL may hold a password. Ctrl-C is for the conductor alone."""
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
        """Everyone has asked for something."""
        return all(map(has_begun, [seat.logs[-1] for seat in self.seats]))

    def kill(self, seat: Seat) -> None:
        """As the kernel would, without a word; somebody else takes the seat."""
        if seat.process is not None and seat.alive:
            seat.process.kill()
            seat.process.communicate(timeout=_PATIENCE)
            self.hire(seat)

    def tend(self) -> None:
        """Look after the seats: who broke down is noted, and replaced."""
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
        """Wait until all have gone home; who does not is made to."""
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
    """No file of this process may grow: to it, that is a disk without room."""
    _limit_files(process, 1)


def make_room(process: subprocess.Popen[bytes]) -> None:
    _limit_files(process, None)


def _limit_files(process: subprocess.Popen[bytes], most: int | None) -> None:
    if process.poll() is None:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard if most is None else most, hard))
