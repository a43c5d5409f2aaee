"""Run the lab on every kind of store with all faults, and print the table for docs/explanation/guarantees.md.

python -m lab.figures --minutes 5 [--only "SQLite;Notion"]       (with tests/ and tools/ on PYTHONPATH)
python -m lab.figures --minutes 10 --operations 1000000 --calm 3 --work 0.01 --only SQLite

With `--operations`, it repeats the run with the next seed until the sum is reached; a row shows the sum.
It starts and stops the servers. The exit status is 1 after a violation.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import neo4j_server
from dibs.lab.emulator import Emulator
from dibs.lab.torture import reports
from dibs.lab.torture.experiments import Experiment, run
from dibs.lab.torture.reports import claim_folder, write
from dibs.stores.opening import open_store
from lab.notion import a_page
from support import postgres_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.lab.torture.experiments import Report

COLUMNS = ("Store", "Seeds", "Minutes", "Operations", "Claims", "Done", "Faults", "Late", "Unanswered", "Violations")
_COUNTED = ("operations", "claims", "finishes", "lost_locks", "unknown")


class Ground(NamedTuple):
    url: str
    restart: Callable[[], None] | None = None
    tasks: int = 200
    lease: float = 0.0
    calm: float = 1.0


@contextmanager
def _sqlite(folder: str) -> Iterator[Ground]:
    yield Ground(f"sqlite:///{folder}/dibs.db")


@contextmanager
def _vault(folder: str) -> Iterator[Ground]:
    yield Ground(f"vault:///{folder}/vault", tasks=80)


@contextmanager
def _postgres(_folder: str) -> Iterator[Ground]:
    server = postgres_server.Server(durable=True)
    try:
        yield Ground(server.url, lambda: _again(server))
    finally:
        server.remove()


@contextmanager
def _neo4j(_folder: str) -> Iterator[Ground]:
    server = neo4j_server.Server()
    try:
        url = f"bolt://{server.user}:{server.password}@127.0.0.1:{server.port}"
        yield Ground(url, lambda: _again(server), tasks=40, lease=4.0, calm=3.0)
    finally:
        server.remove()


def _again(server: postgres_server.Server | neo4j_server.Server) -> None:
    """As a power cut would end it."""
    server.stop()
    server.start()


@contextmanager
def _notion(folder: str) -> Iterator[Ground]:
    with Emulator(seed=1) as notion:
        notion.faults.requests_per_minute = None
        notion.faults.latency_before = (0.0, 0.1)
        notion.faults.latency_after = (0.0, 0.1)
        notion.faults.rates = {"conflict": 0.01, "unavailable_after_commit": 0.01, "drop_after_commit": 0.01}
        os.environ.update(NOTION_TOKEN=notion.token, NOTION_API_BASE_URL=notion.url, XDG_CACHE_HOME=folder)
        yield Ground(f"notion://?parent={a_page(notion)}&layout=dibs&window=1&settle=1.2", tasks=30, calm=3.0)


@contextmanager
def _arbitrated(folder: str) -> Iterator[Ground]:
    arbiter = f"sqlite:///{folder}/arbiter.db"
    open_store(arbiter, create=True).close()
    with _notion(folder) as ground:
        yield ground._replace(url=f"{ground.url}&arbiter={arbiter}", lease=4.0)


GROUNDS = {
    "SQLite": _sqlite,
    "PostgreSQL": _postgres,
    "Neo4j": _neo4j,
    "vault": _vault,
    "Notion": _notion,
    "Notion, arbiter SQLite": _arbitrated,
}


class Row:
    """One line of the table: the sum of the runs added to it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seeds: list[int] = []
        self._minutes = 0.0
        self._struck = Counter[str]()
        self._numbers = Counter[str]()

    def add(self, report: Report) -> None:
        figures = report.figures
        self._seeds.append(report.experiment.seed)
        self._minutes += figures.seconds / 60
        self._struck.update(report.struck)
        self._numbers.update({name: getattr(figures, name) for name in _COUNTED})
        self._numbers["violations"] += len(report.violations)

    @property
    def runs(self) -> int:
        return len(self._seeds)

    @property
    def violations(self) -> int:
        return self._numbers["violations"]

    def __str__(self) -> str:
        seeds = str(self._seeds[0]) if self.runs == 1 else f"{self._seeds[0]} to {self._seeds[-1]}"
        faults = ", ".join(f"{fault} {number}" for fault, number in self._struck.items())
        before, after = [self._numbers[name] for name in _COUNTED[:3]], [self._numbers[name] for name in _COUNTED[3:]]
        cells = (self._name, seeds, f"{self._minutes:.1f}", *before, faults, *after, self.violations)
        return f"| {' | '.join(map(str, cells))} |"


def _played(name: str, args: argparse.Namespace, seed: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="dibs-lab-") as folder, GROUNDS[name](folder) as ground:
        if not ground.url.startswith("notion"):
            open_store(ground.url, create=True).close()
        experiment = Experiment(
            ground.url,
            args.minutes * 60,
            seed,
            args.workers,
            ground.tasks,
            work=args.work,
            lease=ground.lease,
            calm=args.calm or ground.calm,
        )
        report = run(experiment._replace(restart=ground.restart))
    if args.report:
        place = os.path.join(args.report, f"{name.replace(', ', '-').replace(' ', '-').lower()}-{seed}")
        claim_folder(place)
        write(report, place)
    return report


def _runs(name: str, args: argparse.Namespace) -> Iterator[Report]:
    """One run, or as many as needed, each with the next seed."""
    operations = 0
    for seed in itertools.count(args.seed):
        report = _played(name, args, seed)
        operations += report.figures.operations
        yield report
        if operations >= args.operations:
            return


def _shown(name: str, args: argparse.Namespace) -> int:
    """Print a row for each run, and their sum; return how many violations there were."""
    whole = Row(name)
    for report in _runs(name, args):
        row = Row(name)
        row.add(report)
        whole.add(report)
        print(row, flush=True)  # noqa: T201 - for a person
        if report.violations:
            print(*reports.lines(report), sep="\n", flush=True)  # noqa: T201 - for a person
    if whole.runs > 1:
        print(whole, flush=True)  # noqa: T201 - for a person
    return whole.violations


def main() -> int:
    parser = argparse.ArgumentParser(description="Torture every kind of store, and print the figures.")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each run")
    parser.add_argument("--operations", type=int, default=0, help="go on with the next seed until there were as many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8, help="processes at work; more of them make more operations")
    parser.add_argument("--work", type=float, default=0.05, help="seconds that a task takes at most")
    parser.add_argument("--calm", type=float, default=0.0, help="times as long between faults (1; 3 on slow stores)")
    parser.add_argument("--only", default="", help=f"of {', '.join(GROUNDS)}, joined by ';'")
    parser.add_argument("--report", default="", help="a folder for all reports")
    args = parser.parse_args()
    names = [name for name in GROUNDS if not args.only or name in args.only.split(";")]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)  # noqa: T201 - for a person
    return 1 if sum(_shown(name, args) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
