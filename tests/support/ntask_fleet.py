"""A fleet that runs `ntask pull` at an emulated Notion, in real time: conflicts, double holds, throughput.

PYTHONPATH=tests python -m support.ntask_fleet [--agents 1,4,8] [--tasks 40] [--strict] [--processes]

The agents are threads of this process, so that the delays of Notion are the limit and not the start of a process for
every command. With --processes, each command is a separate process.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.lab.emulator import Emulator, ntask_schema
from dibs.protocols.ntask.main import main as ntask
from dibs.stores.opening import open_store
from support.notion import select, title

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(sys.executable).with_name("ntask")
DELAYS = {"latency_before": (0.1, 0.3), "latency_after": (0.1, 0.3), "query_lag": 2.0}
_PATIENCE = 500.0
_SLOW = "window=120&settle=121"  # with an arbiter no claim waits for these, and a slow answer is not a lost one
_NAP = 1.0


class Figures(NamedTuple):
    """`conflicts` are claims that were written to a page, or asked of the arbiter, and lost."""

    agents: int
    tasks: int
    doubles: int
    conflicts: float
    per_minute: float
    requests: float  # for each task


class Fleet:
    def __init__(self, folder: Path, agents: int, tasks: int, *, strict: bool, processes: bool = True) -> None:
        self.agents, self.tasks, self.strict = agents, tasks, strict
        self._folder = folder
        self._processes = processes
        self._holders: dict[str, list[str]] = {}

    def run(self) -> Figures:
        with Emulator() as notion:
            notion.faults.set(DELAYS)
            database = notion.database(ntask_schema())
            for number in range(self.tasks):
                notion.page(database.id, {"Task name": title(f"T{number}"), "Status": select("READY")})
            environment = self._environment(notion, database.id)
            time.sleep(float(DELAYS["query_lag"]))  # type: ignore[arg-type]  # until lists show the pages
            with nullcontext() if self._processes else _inside(environment):
                took = self._work(environment)
            written = notion.requests.count("PATCH", status=200)
            requests = notion.requests.count() / self.tasks
        claims = sum(len(names) for names in self._holders.values())
        assert len(self._holders) == self.tasks, f"{len(self._holders)} of {self.tasks} tasks were done"
        # A claim writes its page once, and so does a finish: all other writes are claims that were lost.
        conflicts = (written - 2 * claims) / claims
        return Figures(self.agents, self.tasks, claims - self.tasks, conflicts, 60 * self.tasks / took, requests)

    def _work(self, environment: dict[str, str]) -> float:
        began = time.monotonic()
        with ThreadPoolExecutor(self.agents) as threads:
            names = [f"agent-{number}" for number in range(self.agents)]
            list(threads.map(lambda name: self._live(name, environment, began), names))
        return time.monotonic() - began

    def _environment(self, notion: Emulator, database: str) -> dict[str, str]:
        ours = ("NTASK_", "NOTION_", "DIBS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        arbiter = f"sqlite:///{self._folder}/arbiter.db"
        if self.strict:
            open_store(arbiter, create=True).close()
        return {
            **kept,
            "NOTION_TOKEN": notion.token,
            "NOTION_API_BASE_URL": notion.url,
            "XDG_CACHE_HOME": str(self._folder / "cache"),
            "NTASK_STORE": f"notion://{database}{f'?arbiter={arbiter}&{_SLOW}' if self.strict else ''}",
        }

    def _live(self, name: str, environment: dict[str, str], began: float) -> None:
        while len(self._holders) < self.tasks and time.monotonic() - began < _PATIENCE:
            task = self._ask(environment, "pull", "--run-id", name, "--agent-name", name)
            if task is None:
                time.sleep(_NAP)
                continue
            self._holders.setdefault(task["task_id"], []).append(name)
            words = (task["task_id"], "--run-id", name, "--lock-token", task["lock_token"], "--artifacts", "done")
            assert self._ask(environment, "complete", *words) is not None, "a confirmed claim was lost"

    def _ask(self, environment: dict[str, str], *words: str) -> dict[str, Any] | None:
        said = json.loads(in_a_process(words, environment) if self._processes else in_a_thread(words))
        return said["task"] if said["ok"] else None


def in_a_process(words: tuple[str, ...], environment: dict[str, str]) -> str:
    ran = subprocess.run(
        [SCRIPT, *words], capture_output=True, text=True, env=environment, timeout=_PATIENCE, check=False
    )
    return ran.stdout


def in_a_thread(words: tuple[str, ...]) -> str:
    """The same command in this process, which has the environment of all its agents."""
    with _OUTPUT.kept() as written:
        ntask(words)
    return written.getvalue()


class _Output(io.TextIOBase):
    """A standard output that keeps what each thread prints apart."""

    def __init__(self) -> None:
        self._own = threading.local()

    @contextmanager
    def kept(self) -> Iterator[io.StringIO]:
        self._own.text = io.StringIO()
        yield self._own.text

    def write(self, text: str) -> int:
        return int(self._own.text.write(text))


_OUTPUT = _Output()


@contextmanager
def _inside(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        with redirect_stdout(_OUTPUT):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default="1,4,8")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    say = sys.stdout.write
    heads = ("Agents", "Tasks", "Double holds", "Conflicts per claim", "Tasks per minute", "Requests per task")
    say(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    for agents in map(int, options.agents.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            fleet = Fleet(Path(folder), agents, options.tasks, strict=options.strict, processes=options.processes)
            done = fleet.run()
        row = (
            done.agents,
            done.tasks,
            done.doubles,
            f"{done.conflicts:.2f}",
            f"{done.per_minute:.0f}",
            f"{done.requests:.1f}",
        )
        say(f"| {' | '.join(map(str, row))} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
