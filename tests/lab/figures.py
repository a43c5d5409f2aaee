"""The lab on every kind of store, with all that each can suffer; what came of it as a table for the guarantees' page.

python -m lab.figures --minutes 5 [--only sqlite,notion]       (with tests/ and tools/ on PYTHONPATH)

Servers are started for it and ended afterwards. The exit status is 1 if anything was violated.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
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

COLUMNS = (
    "Store",
    "Minutes",
    "Operations",
    "Claims",
    "Finishes",
    "Faults",
    "Late words",
    "Unanswered",
    "Violations",
)


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


def _row(name: str, report: Report) -> str:
    figures = report.figures
    faults = ", ".join(f"{fault} {number}" for fault, number in report.struck.items())
    cells = (
        name,
        f"{figures.seconds / 60:.1f}",
        figures.operations,
        figures.claims,
        figures.finishes,
        faults,
        figures.lost_locks,
        figures.unknown,
        len(report.violations),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _played(name: str, minutes: float, seed: int, into: str) -> Report:
    with tempfile.TemporaryDirectory(prefix="dibs-lab-") as folder, GROUNDS[name](folder) as ground:
        if not ground.url.startswith("notion"):
            open_store(ground.url, create=True).close()
        experiment = Experiment(
            ground.url, minutes * 60, seed, tasks=ground.tasks, lease=ground.lease, calm=ground.calm
        )
        report = run(experiment._replace(restart=ground.restart))
    if into:
        place = os.path.join(into, name.replace(", ", "-").replace(" ", "-").lower())
        claim_folder(place)
        write(report, place)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description="Torture every kind of store, and print the figures.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"of {', '.join(GROUNDS)}, joined by ';'")
    parser.add_argument("--report", default="", help="a folder for all reports")
    args = parser.parse_args()
    names = [name for name in GROUNDS if not args.only or name in args.only.split(";")]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)  # noqa: T201 - for a person
    violated = 0
    for name in names:
        report = _played(name, args.minutes, args.seed, args.report)
        violated += len(report.violations)
        print(_row(name, report), flush=True)  # noqa: T201 - for a person
        if report.violations:
            print(*reports.lines(report), sep="\n", flush=True)  # noqa: T201 - for a person
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
