"""Real processes drain one large plan while they are killed and stopped; the lab's checker reads what they saw."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.plan import parse_jsonl
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.lab.torture import history
from dibs.lab.torture.checker import Assumptions, figures, violations
from dibs.lab.torture.worker import Recorder
from dibs.stores.opening import file_url, open_store
from interleave.stepper import child_environment
from torture.worker import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.lab.torture.checker import Figures, Violation
    from dibs.lab.torture.history import Operation
    from dibs.stores.reports import Finding

HABITS = ("chain", "plain", "batch", "picker")
_WINDOW = 300  # a task waits for some of those shortly before it, so that there is always much to do at once
_PATIENCE = 30.0


class Drain(NamedTuple):
    """What to play. Without a URL, a SQLite store is made for it."""

    url: str = ""
    scope: str = "s"
    tasks: int = 3_000
    links: int = 2
    processes: int = 16
    shared: int = 4  # so many of them go by one name
    work: float = 0.0  # seconds that a task takes at most
    kills: float = 0.0  # a second
    stops: float = 0.0  # a second
    most: int = 1_000_000  # kills, and stops: where a worker takes long to start, they would never be done
    lease: float = 600.0
    mischief: float = 0.001
    durable: bool = False
    seed: int = 1
    limit: float = 900.0  # seconds; a quiet machine needs a few of them


class Fault(NamedTuple):
    """Something that happens to all of them now and then, while they work."""

    rate: float  # a second
    strike: Callable[[random.Random], object]
    times: int = 1_000_000  # at most


class Report(NamedTuple):
    """The result of a drain."""

    violations: Sequence[Violation]
    findings: Sequence[Finding]
    statuses: Mapping[Status, int]
    endings: Sequence[int]
    killed: int
    stopped: int
    planning: float
    figures: Figures
    operations: Sequence[Operation]

    @property
    def shares(self) -> Mapping[str, int]:
        """How many tasks each worker has finished."""
        done = [each for each in self.operations if each.verb == "done" and each.ok and not each.repeated]
        return Counter(each.worker for each in done)

    @property
    def starved(self) -> bool:
        """Whether an operation took much of the time of the whole run, and not just long on a busy machine."""
        return self.figures.slowest > max(15.0, self.figures.seconds / 3)

    @property
    def per_second(self) -> float:
        return self.figures.finishes / self.figures.seconds


def plan_of(drain: Drain) -> dict[str, list[str]]:
    """Each task with those it waits for."""
    dice = random.Random(drain.seed)
    plan: dict[str, list[str]] = {}
    for number in range(drain.tasks):
        first = max(0, number - _WINDOW)
        wanted = dice.randint(0, 2 * drain.links) if number else 0
        before = {dice.randrange(first, number) for _ in range(wanted)}
        plan[f"t{number:05}"] = sorted(f"t{each:05}" for each in before)
    return plan


def run(drain: Drain, folder: str, *, through: str = "", faults: Sequence[Fault] = ()) -> Report:
    """`through` is the workers' own way to the store, where it differs from the planner's."""
    drain = drain if drain.url else drain._replace(url=_sqlite(drain, folder))
    plan = plan_of(drain)
    with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    log = history.new_log(os.path.join(folder, "planner.jsonl"))
    planner = history.Log(log, "planner", "planner")
    with _open(drain, create=True) as desk:
        planning = _lay(desk, plan, planner)
    crew = _Crew(drain, folder, through or drain.url, faults)
    try:
        crew.work()
    finally:
        crew.end()
    with _open(drain) as desk:
        Recorder(desk, planner, worker="planner", agent="planner", lease=0.0).look()
        operations = history.read([log, *crew.logs])
        return Report(
            violations=violations(operations, Assumptions(patience=_PATIENCE)),
            findings=desk.check(),
            statuses=desk._store.counts(drain.scope).by_status,
            endings=crew.endings,
            killed=crew.killed,
            stopped=crew.stopped,
            planning=planning,
            figures=figures(operations),
            operations=operations,
        )


def _lay(desk: Desk, plan: Mapping[str, Sequence[str]], log: history.Log) -> float:
    """Take the plan in; how many seconds that took."""
    began = time.monotonic()
    lines = [json.dumps({"id": task, "title": task, "deps": before}) for task, before in plan.items()]
    number = log.asked("add", made={task: (0, before) for task, before in plan.items()})
    desk.apply_plan(parse_jsonl("\n".join(lines)))
    log.answered(number, "ok")
    return time.monotonic() - began


def _sqlite(drain: Drain, folder: str) -> str:
    durability = "full" if drain.durable else "normal"
    return f"{file_url(os.path.join(folder, 'dibs.db'))}?durability={durability}"


def _open(drain: Drain, *, create: bool = False) -> Desk:
    return Desk(open_store(drain.url, create=create), scope=drain.scope, by=Actor("planner"))


class _Crew:
    """The workers, the replacements of killed ones, and the faults."""

    def __init__(self, drain: Drain, folder: str, url: str, faults: Sequence[Fault]) -> None:
        self._drain = drain
        self._folder = folder
        self._url = url
        ours = (Fault(drain.kills, self._kill_one, drain.most), Fault(drain.stops, self._stop_one, drain.most))
        self._faults = (*ours, *faults)
        self._dice = random.Random(drain.seed)
        self._deadline = time.monotonic() + drain.limit
        self._start = os.path.join(folder, "start")
        self._hired = 0
        self.logs: list[str] = []
        self.endings: list[int] = []
        self.killed = self.stopped = 0
        self._asleep: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._crew = [self._hire(seat, ()) for seat in range(drain.processes)]

    def work(self) -> None:
        """From when all are there until all have gone home by themselves."""
        while not all(os.path.exists(f"{log}.ready") for log in self.logs):
            assert time.monotonic() < self._deadline, "a worker does not start"
            time.sleep(0.005)
        open(self._start, "wb").close()
        due = [self._soon(fault.rate) for fault in self._faults]
        left = [fault.times for fault in self._faults]
        while any(process.poll() is None for process, _ in self._crew):
            moment = time.monotonic()
            for number, fault in enumerate(self._faults):
                if left[number] and moment > due[number]:
                    fault.strike(self._dice)
                    left[number] -= 1
                    due[number] = self._soon(fault.rate)
            self._wake_the_stopped(moment)
            assert moment < self._deadline + _PATIENCE, "the workers do not heed their deadline"
            time.sleep(0.005)
        self.endings += [process.returncode for process, _ in self._crew]

    def end(self) -> None:
        for process, _ in self._crew:
            if process.poll() is None:
                process.kill()
            process.wait(_PATIENCE)

    def _soon(self, rate: float) -> float:
        return time.monotonic() + self._dice.uniform(0.5, 1.5) / rate if rate else float("inf")

    def _hire(self, seat: int, ghosts: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], str]:
        self._hired += 1
        log = history.new_log(os.path.join(self._folder, f"{self._hired:04}.jsonl"))
        self.logs.append(log)
        drain = self._drain
        habit = HABITS[seat % len(HABITS)]
        job = Job(
            url=self._url,
            scope=drain.scope,
            log=log,
            plan=os.path.join(self._folder, "plan.json"),
            start=self._start,
            worker=f"{self._hired:03}-{habit}",
            agent="twin" if seat < drain.shared else f"agent-{seat}",
            habit=habit,
            seed=f"{drain.seed}-{self._hired}",
            total=drain.tasks,
            lease=drain.lease,
            deadline=self._deadline,
            work=drain.work,
            mischief=drain.mischief,
            ghosts=ghosts,
        )
        command = [sys.executable, "-c", "from torture.worker import main; main()", json.dumps(job._asdict())]
        return subprocess.Popen(command, env=child_environment()), log

    def _kill_one(self, dice: random.Random) -> None:
        """Another takes the seat, and haunts the desk with what the dead one held."""
        seat = dice.randrange(len(self._crew))
        process, log = self._crew[seat]
        if process.poll() is None:
            process.kill()
            process.wait(_PATIENCE)
            self.killed += 1
            self._crew[seat] = self._hire(seat, (log,))

    def _stop_one(self, dice: random.Random) -> None:
        """Stop a worker at any point for longer than a lease; it continues without noticing."""
        process, _ = dice.choice(self._crew)
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            self._asleep.append((time.monotonic() + 1.2 * self._drain.lease, process))
            self.stopped += 1

    def _wake_the_stopped(self, moment: float) -> None:
        for until, process in self._asleep:
            if moment > until and process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self._asleep = [(until, process) for until, process in self._asleep if moment <= until]
