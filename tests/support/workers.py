"""A desk, and real workers on it: every one is a process, and so is everything that it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store
from support.host_clock import HostClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.task import Link, Task

PATIENCE = 120.0  # seconds: a limit for waits that end in a moment, unless the machine is busy
LONG = ("--lease", "1h")  # real time alone does not end it: a test moves the clock
BIN = Path(sys.executable).parent
_WORKER, _SUPERVISOR = "dibs work ", "dibs.fleet.supervisor"


class Ended(NamedTuple):
    status: int
    said: str


class Place:
    """One store. Commands leave files in the folder `proof` that show their work."""

    def __init__(self, url: str, folder: Path, schema: str = "") -> None:
        self.url = url
        self.schema = schema
        self.bin = BIN
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.workers: list[Working] = []
        theirs = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        # The mark is inherited by all that a worker starts: so it can be found, wherever it has gone.
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.clock = HostClock(folder)
        self.environ = theirs | {"DIBS_STORE": url, "TMPDIR": str(self.scratch), "MARK": self.mark} | self.clock.environ
        open_store(url, create=True).close()

    def desk(self) -> Desk:
        return Desk(open_store(self.url, clock=self.clock), by=Actor("tester"))

    def add(self, *ids: str, links: tuple[Link, ...] = (), **fields: Any) -> None:
        with self.desk() as desk:
            desk.add([Draft(f"Task {name}", name, **fields) for name in ids], links)

    def scripts(self, scripts: Mapping[str, str], **fields: Any) -> tuple[str, ...]:
        """A task for each, and the last words of a worker that runs for each task what is meant for it."""
        for name, script in scripts.items():
            (self.folder / f"script-{name}").write_text(script)
        self.add(*scripts, **fields)
        return ("--", "sh", "-c", 'exec sh "script-$DIBS_TASK_ID"')

    def task(self, name: str) -> Task:
        with self.desk() as desk:
            return desk.get(name)

    def events(self, name: str | None = None) -> list[Event]:
        with self.desk() as desk:
            return desk.events(ref=name)

    def told(self, name: str) -> list[str]:
        """The events of a task as `verb` or `verb outcome`."""
        found = [(event.verb, event.outcome) for event in self.events(name)]
        return [verb if outcome == "ok" else f"{verb} {outcome}" for verb, outcome in found if verb != "add"]

    def work(
        self, *words: str, agent: str = "ann", under: tuple[str, ...] = (), store: str | None = None, **environ: str
    ) -> Working:
        """Start a worker, and do not wait for it."""
        log = self.folder / f"said-{len(self.workers)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*under, BIN / "dibs", "work", *(("--agent", agent) if agent else ()), *words],
                env=self.environ | {"DIBS_STORE": store or self.url} | environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.workers.append(Working(process, log))
        return self.workers[-1]

    def worked(self, *words: str, agent: str = "ann") -> Ended:
        """A worker that exits when it is done."""
        one = self.work(*words, agent=agent)
        return Ended(one.leaves(), one.said)

    def marked(self) -> dict[int, str]:
        """Every process that a worker of this place has started, and the workers: by id, with its command line."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if f"MARK={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    if line:  # and not a zombie
                        found[int(pid)] = line.decode(errors="replace").strip()
            except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone, or not ours
                continue
        return found

    def supervisors(self) -> list[int]:
        return [pid for pid, line in self.marked().items() if _SUPERVISOR in line]

    def commands(self) -> dict[int, str]:
        """All that runs for a task: every process but the workers and their supervisors."""
        return {pid: line for pid, line in self.marked().items() if _SUPERVISOR not in line and _WORKER not in line}

    def commands_end(self) -> None:
        until(lambda: not self.commands(), lambda: f"still there: {self.commands()}")

    def expires_at(self, name: str) -> datetime:
        lease = self.task(name).lease
        assert lease is not None
        assert lease.expires_at is not None
        return lease.expires_at

    def stop_clock_before_expiry(self, name: str) -> None:
        """So short before it that a worker takes its lease to be over, and the store does not."""
        self.clock.stop_at(self.expires_at(name) - timedelta(seconds=0.5))

    def cut_lease_short(self, name: str) -> None:
        """At the store, whose clock may be a server's; the worker that holds the task does not hear of it."""
        with self.desk() as desk:
            lease = desk.get(name).lease
            assert lease is not None
            desk.renew(name, lease.token, lease=timedelta(seconds=1))

    def nothing_runs(self, patience: float = PATIENCE) -> None:
        until(lambda: not self.marked(), lambda: f"still there: {self.marked()}", patience)
        assert list(self.scratch.iterdir()) == []

    def close(self) -> None:
        for worker in self.workers:
            worker.process.send_signal(signal.SIGCONT)
            worker.process.kill()
            worker.process.wait()
        for pid, line in self.marked().items():
            if _WORKER in line:  # it ran below the process that was started for it
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.nothing_runs()


class Working:
    """A worker."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def says(self, text: str, patience: float = PATIENCE) -> None:
        until(lambda: text in self.said, lambda: f"{text!r} is not in\n{self.said}", patience)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def leaves(self) -> int:
        return self.process.wait(PATIENCE)


def until(holds: Callable[[], object], why: Callable[[], str], patience: float = PATIENCE) -> None:
    give_up_at = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < give_up_at, why()
        time.sleep(0.02)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def shell(script: str) -> tuple[str, ...]:
    """As the last words of a worker: this script for each task."""
    return ("--", "sh", "-c", script)


def python(script: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", script)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
