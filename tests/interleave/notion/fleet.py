"""Real processes on one emulated Notion, and the log of an outside witness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.emulator import ntask_schema
from dibs.stores.opening import open_store
from dibs.stores.port import Query

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from dibs.core.task import Status
    from dibs.lab.emulator import Emulator

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE = 200.0  # seconds before a test gives up
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")


class Span(NamedTuple):
    """An agent worked on a task; without a logged end the span is infinite."""

    task: str
    agent: str
    begin: float
    end: float


class Fleet:
    """Agents and their database."""

    def __init__(self, folder: Path, notion: Emulator, tasks: int) -> None:
        self._folder, self._notion = folder, notion
        self.database = notion.database(ntask_schema()).id
        self.pages = [
            notion.page(
                self.database,
                {
                    "Task name": {"title": [{"text": {"content": f"Task {number}"}}]},
                    "Status": {"select": {"name": "READY"}},
                    "Priority": {"number": number},
                },
            )
            for number in range(tasks)
        ]

    def drain(self, agents: int, *options: str, url: str = "", work: float = 0.3, stalls: Random | None = None) -> None:
        """Run `agents` processes until they find no more tasks; `stalls` suspends them at random."""
        store, witness = f"notion://{self.database}?{url}", str(self._folder / "witness")
        processes = [
            subprocess.Popen(
                [sys.executable, WORKER, store, f"agent-{one}", witness, str(one), str(work), *options],
                env={**os.environ, "PYTHONPATH": TESTS},
            )
            for one in range(agents)
        ]
        try:
            while stalls is not None and any(process.poll() is None for process in processes):
                _stall(stalls.choice(processes), stalls)
            endings = [process.wait() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        assert endings == [0] * agents, "a worker broke down"

    def wait_until_working(self, agents: int) -> None:
        """Wait until `agents` spans have begun."""
        deadline = time.monotonic() + PATIENCE
        while sum(line[1] == "begin" for line in self._lines()) < agents:
            assert time.monotonic() < deadline, self._lines()
            time.sleep(0.02)

    def spans(self) -> list[Span]:
        open_: dict[tuple[str, str], float] = {}
        spans = []
        for moment, what, task, agent in self._lines():
            if what == "begin":
                open_[task, agent] = float(moment)
            elif what == "end":
                spans.append(Span(task, agent, open_.pop((task, agent)), float(moment)))
        return spans + [Span(task, agent, begin, float("inf")) for (task, agent), begin in open_.items()]

    def doubles(self) -> list[tuple[Span, Span]]:
        """Pairs of spans of one task that overlap."""
        return [
            (one, two)
            for one, two in combinations(self.spans(), 2)
            if one.task == two.task and one.begin < two.end and two.begin < one.end
        ]

    def statuses(self) -> Counter[Status]:
        """The number of pages per status in Notion."""
        with open_store(f"notion://{self.database}") as store:
            return Counter(task.status for task in store.find(Query()))

    def _lines(self) -> list[list[str]]:
        witness = self._folder / "witness"
        lines = witness.read_text(encoding="utf-8").splitlines() if witness.exists() else []
        return sorted((line.split() for line in lines), key=lambda line: float(line[0]))


def _stall(process: subprocess.Popen[bytes], pick: Random) -> None:
    """Suspend a process at a random moment, possibly for longer than any window."""
    time.sleep(0.2 * pick.random())
    process.send_signal(signal.SIGSTOP)
    time.sleep(pick.choice((0.3, 1.5)) * pick.random())
    process.send_signal(signal.SIGCONT)
