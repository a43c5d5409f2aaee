"""A fleet over two clones: agents are killed at random, and started again, until all is done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import StoreBusy
from dibs.sync.git import folder

from .ahead import Ahead
from .clones import Machine, git, machine, new_remote
from .soundness import assert_sound, twice_in_one_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TESTS = Path(__file__).parents[2]


class Work(NamedTuple):
    """A line of the records."""

    what: str
    task: str
    attempt: int
    proof: str
    agent: str


def texts_for(tasks: int, dice: random.Random) -> dict[str, str]:
    """Bodies of many kinds, each its own."""
    odd = ["", "\r\n", "# heading", "---", "a <<<<<<< b", "ümläut 😀", "\ttabs  ", "| a | b |"]
    return {
        f"t{number:03}": f"# Task {number}\n\n" + "".join(f"{dice.choice(odd)} {dice.random()}\n" for _ in range(12))
        for number in range(tasks)
    }


class Fleet:
    """Two clones with agents at work in each."""

    def __init__(self, where: Path, *, agents: int, tasks: int, lease: float, seed: int) -> None:
        self._dice = random.Random(seed)
        self.texts = texts_for(tasks, self._dice)
        self.remote = new_remote(where, {f"Needs_Action/{name}.md": text for name, text in self.texts.items()})
        self._ahead = where / "ahead"
        self._ahead.write_text("0")
        self._clock = Ahead(self._ahead)
        self.machines = [machine(where, name, self.remote, clock=self._clock) for name in ("one", "two")]
        self.records = where / "records"
        self._noise = where / "noise"
        self._lease = lease
        names = [(clone, f"{clone.path.name}-{number}") for clone in self.machines for number in range(agents)]
        self._agents: dict[str, tuple[Machine, subprocess.Popen[bytes]]] = {
            name: (clone, self._start(clone, name)) for clone, name in names
        }
        self.kills = 0

    def _start(self, clone: Machine, name: str) -> subprocess.Popen[bytes]:
        with self._noise.open("ab") as noise:
            return subprocess.Popen(
                self.command(clone, name), env=self.environment(clone, name), stderr=noise, stdout=noise
            )

    def command(self, clone: Machine, name: str) -> list[str]:
        script = str(TESTS / "sync/git/worker.py")
        return [sys.executable, script, str(clone.path), name, str(self.records), str(self._lease), str(self._ahead)]

    def environment(self, clone: Machine, name: str) -> Mapping[str, str]:  # noqa: ARG002 - for other kinds of agents
        return os.environ | {"PYTHONPATH": str(TESTS)}

    def run(self, *, kills: int, every: float, patience: float, finished: Callable[[], bool]) -> None:
        """Kill one every now and then, sometimes with the git it has just started; replace it; until all is done.

        Leases last longer than the test. Those of killed agents expire when the clock is moved: in the middle, at the
        end, and after a long time without a record, because an agent killed just after the remote's answer leaves a
        claim without work.
        """
        deadline = time.monotonic() + patience
        recorded, since = 0, time.monotonic()
        try:
            while not finished():
                assert time.monotonic() < deadline, self.noise()
                if (now_recorded := len(self.works())) > recorded:
                    recorded, since = now_recorded, time.monotonic()
                elif self.kills >= kills and time.monotonic() > since + _QUIET:
                    self._clock.advance(self._lease + 1)
                    since = time.monotonic()
                time.sleep(every * (0.5 + self._dice.random()))
                if self.kills < kills:
                    self._kill(self._dice.choice(list(self._agents)))
                    if self.kills in {kills // 2, kills}:
                        self._clock.advance(self._lease + 1)
                self._replace_those_that_ended()
        finally:
            for _, process in self._agents.values():
                process.kill()
                process.wait()

    def _kill(self, name: str) -> None:
        clone, process = self._agents[name]
        if self._dice.random() < 0.3:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                _end(int(child))
        process.kill()
        process.wait()
        self.kills += 1
        self._agents[name] = clone, self._start(clone, name)

    def _replace_those_that_ended(self) -> None:
        """Nothing is left to claim, or it could not go on: a supervisor would start it again."""
        for name, (clone, process) in self._agents.items():
            if process.poll() is not None:
                self._agents[name] = clone, self._start(clone, name)

    def all_done(self) -> bool:
        names = git(self.remote, "ls-tree", "-r", "--name-only", "main", "Done").splitlines()
        return sum(name.endswith(".md") for name in names) == len(self.texts)

    def noise(self) -> str:
        return self._noise.read_text()[-3000:]

    # What must be true

    def assert_worked_once(self) -> None:
        done = [work for work in self.works() if work.what == "works"]
        claims = Counter((work.task, work.attempt) for work in done)
        twice = [claim for claim, times in claims.items() if times > 1]
        assert twice == [], [work for work in self.works() if (work.task, work.attempt) in twice]
        refused = {(work.task, work.attempt) for work in self.works() if work.what == "refused"}
        for task in self.texts:
            ended = self.ended(task)
            counted = [work for work in done if work.task == task and work.proof == ended]
            assert len(counted) == 1, (task, [work for work in self.works() if work.task == task])
            assert (task, counted[0].attempt) not in refused
            accepted = [work for work in self.works() if work.task == task and work.what == "accepted"]
            assert len(accepted) <= 1  # none: killed after the push, before it could record it
            assert all(work.proof == ended for work in accepted)

    def works(self) -> list[Work]:
        recorded = self.records.read_text() if self.records.exists() else ""
        lines = (line.split() for line in recorded.splitlines())
        return [Work(what, task, int(attempt), proof, agent) for what, task, attempt, proof, agent, _ in lines]

    def ended(self, task: str) -> str | None:
        """The proof of the claim under which it was finished."""
        place = f"Done/{task}.md"
        found = folder.read((place, (self.machines[0].path / place).read_bytes()))
        assert found is not None
        return found.task.spent_token

    def assert_sound(self) -> None:
        for clone in self.machines:
            _settle(clone)
        assert_sound(self.remote, self.machines, self.texts)
        for clone in self.machines:
            assert all(clone.find(f"{task}.md") == [f"Done/{task}.md"] for task in self.texts)
            assert clone.find("* kept-*") == []
        assert twice_in_one_commit(self.remote) == []


class AgentFleet(Fleet):
    """The same with `dibs vault agent`, whose command writes the record."""

    def command(self, clone: Machine, name: str) -> list[str]:
        line = (
            f'echo works "$DIBS_TASK_ID" "$DIBS_ATTEMPT" "$(printf %s "$DIBS_TOKEN" | sha256sum | cut -c-64)" {name} $$'
        )
        work = f"{line} | sed 's/ \\([0-9a-f]\\{{64\\}}\\) / sha256:\\1 /' >> {self.records}"
        dibs = [sys.executable, str(TESTS / "sync/git/ahead.py"), str(self._ahead)]
        agent = [*dibs, "vault", "agent", "--interval", "1s", "--lease", f"{self._lease:g}s"]
        return [*agent, "--agent", name, "--vault", str(clone.path), "--", "sh", "-c", work]

    def environment(self, clone: Machine, name: str) -> Mapping[str, str]:  # noqa: ARG002 - alike for all
        return os.environ | {"AGENT_ROLE": "LOCAL", "SYNC_INTERVAL": "1"}


def _settle(machine: Machine) -> None:
    """Try again, as the message asks: a killed git may have left a lock, which is stale after a minute."""
    deadline = time.monotonic() + _STALE_LOCK
    while True:
        try:
            machine.clone.settle()
        except StoreBusy:
            assert time.monotonic() < deadline
            time.sleep(1.0)
        else:
            return


_QUIET = 60.0  # seconds without a record after which what is still claimed belongs to the dead
_STALE_LOCK = 240.0  # seconds; a minute, and what a busy machine adds


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was through
