"""Repeat the tests, under load if wanted, and list the tests that are not stable.

    repeat.py --times 5 --load 8 -- .venv/bin/python -m pytest -n 4 tests/fleet
    repeat.py --times 5 -- bash .ci/run

The command must run pytest, directly or not: each run leaves its results in a JUnit file. A run that exits with another
status than 0 is a failure, also if no test failed. Exit status: 0 if every run passed, else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator

# Ends with its parent, also when that is killed.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass\n"


class Run(NamedTuple):
    status: int
    seconds: float
    tests: int
    failed: tuple[str, ...]


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep so many processes busy."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(command: list[str], folder: str) -> Run:
    results = os.path.join(folder, "results.xml")
    if os.path.exists(results):
        os.remove(results)
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={results}".strip()
    began = time.monotonic()
    status = subprocess.run(command, env=os.environ | {"PYTEST_ADDOPTS": options}, check=False).returncode
    tests, failed = read(results)
    return Run(status, time.monotonic() - began, tests, failed)


def read(results: str) -> tuple[int, tuple[str, ...]]:
    """The number of tests, and the names of those that failed."""
    if not os.path.exists(results):
        return 0, ()
    cases = list(ET.parse(results).iter("testcase"))  # noqa: S314 - pytest has just written it
    return len(cases), tuple(_name(case) for case in cases if {"failure", "error"} & {child.tag for child in case})


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('@')[0]}"


def report(runs: list[Run]) -> list[str]:
    unstable = Counter(name for one in runs for name in one.failed)
    lines = [
        f"run {number}: {one.tests - len(one.failed)} passed, {len(one.failed)} failed, exit {one.status}, "
        f"{one.seconds / 60:.1f} min"
        for number, one in enumerate(runs, 1)
    ]
    lines += [f"failed in {failures} of {len(runs)}: {name}" for name, failures in unstable.most_common()]
    broken = sum(1 for one in runs if one.status)
    return [*lines, f"{len(runs) - broken} of {len(runs)} runs passed"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Repeat the tests and list those that are not stable.")
    parser.add_argument("--times", type=int, default=5, help="number of runs (5)")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside each run (0)")
    parser.add_argument("command", nargs="+", help="after --: the command that runs pytest")
    args = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder, load(args.load):
        for number in range(1, args.times + 1):
            print(f"run {number} of {args.times}, {args.load} busy processes beside it", flush=True)
            runs.append(run(args.command, folder))
            print("\n".join(report(runs)), flush=True)
    return 1 if any(one.status for one in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
