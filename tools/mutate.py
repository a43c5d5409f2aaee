"""Put mistakes into claims, finishes and links, one at a time, and check that a test fails.

    python tools/mutate.py [STORE ...] [--only WORDS]

The mistakes are listed in tests/mutation/mutants.toml. Each is made in a copy of the package, never in the checkout.
The tests of its store run against the copy until one fails, `first` before all others. That test is repeated with and
without the mistake, because a test may fail by chance on a busy machine. Undetected mistakes are listed at the end, and
the exit status is 1. It is also 1 if a mistake cannot be made because the text that it changes is gone.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from typing import NamedTuple

from maven import die_with

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MUTANTS = os.path.join(ROOT, "tests", "mutation", "mutants.toml")
PACKAGE = os.path.join(ROOT, "src", "dibs")

_TIMEOUT = 900.0
_ENDLESS = "(which did not come to an end)"
_NEXT = re.compile(r"^(?:-- name: |// name: |CREATE FUNCTION |def |class |    def |@)", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Mutant(NamedTuple):
    """`within` is the beginning of the statement or function that contains `old`; empty for the whole file. `first` are
    tests that detect the mistake, to run before the others."""

    store: str
    why: str
    file: str
    old: str
    new: str
    within: str = ""
    first: str = ""


class NotThere(Exception):
    """The mistake cannot be made: the text that it changes is missing or not unique."""


def load() -> dict[str, tuple[list[list[str]], list[Mutant]]]:
    """The tests, in their order, and the mistakes of each store."""
    with open(MUTANTS, "rb") as file:
        said = tomllib.load(file)
    return {
        store: (
            one["tests"],
            [
                Mutant(
                    store,
                    each["why"],
                    each["file"],
                    each["old"],
                    each["new"],
                    each.get("in", ""),
                    each.get("first", ""),
                )
                for each in mutants
            ],
        )
        for store, one in said.items()
        for mutants in (one["mutants"],)
    }


def mutated(text: str, mutant: Mutant) -> str:
    """The text of a file with the mistake in it."""
    start, end = 0, len(text)
    if mutant.within:
        if text.count(mutant.within) != 1:
            raise NotThere(f"{mutant.file} has '{mutant.within.strip()}' {text.count(mutant.within)} times")
        start = text.index(mutant.within)
        body = start + len(mutant.within)
        following = _NEXT.search(text, body) if not mutant.within.startswith("class ") else _next_class(text, body)
        end = following.start() if following else end
    part = text[start:end]
    if part.count(mutant.old) != 1:
        raise NotThere(
            f"'{mutant.old.strip()}' is there {part.count(mutant.old)} times in {mutant.file} {mutant.within}"
        )
    return text[:start] + part.replace(mutant.old, mutant.new) + text[end:]


def _next_class(text: str, start: int) -> re.Match[str] | None:
    return re.compile(r"^(?:def |class )", re.MULTILINE).search(text, start)


def copy_of_package(folder: str, mutant: Mutant | None) -> None:
    target = os.path.join(folder, "dibs")
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = os.path.join(target, mutant.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(mutated(text, mutant))


def noticed(tests: list[list[str]], mutant: Mutant) -> str | None:
    """The first test that fails with this mistake and not without it, or None."""
    for step in [shlex.split(mutant.first), *tests] if mutant.first else tests:
        chance: list[str] = []
        while (found := failing((*step, *chance), mutant)) is not None:
            if _for_sure(found, mutant):
                return found
            chance += ["--deselect", found]
    return None


def _for_sure(found: str, mutant: Mutant) -> bool:
    """Whether the test fails again, and passes without the mistake."""
    if found.endswith(_ENDLESS):
        return True
    test = found.partition("[")[0]
    if failing((test,), None) is not None:
        raise NotThere(f"{test} fails without any mistake in the code")
    return failing((test,), mutant) is not None


def failing(step: tuple[str, ...], mutant: Mutant | None) -> str | None:
    """The first of these tests that fails with a copy of the package that has this mistake, or none."""
    with tempfile.TemporaryDirectory(prefix="dibs-mutant-") as folder:
        copy_of_package(folder, mutant)
        # Python recognises outdated compiled files by time and size, which a mistake may leave unchanged.
        return _failing(step, {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"})


def _failing(step: tuple[str, ...], environment: dict[str, str]) -> str | None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *step]
    try:
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
            preexec_fn=partial(die_with, os.getpid()),
        )
    except subprocess.TimeoutExpired:
        return f"{step[0]} {_ENDLESS}"
    if ran.returncode == 0:
        return None
    failed = _FAILED.search(ran.stdout)
    if failed is None:
        raise NotThere(f"pytest {' '.join(step)} did not run:\n{(ran.stdout + ran.stderr)[-2000:]}")
    return failed[1]


def main() -> int:
    stores = load()
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(stores)}; all unless said")
    asked.add_argument("--only", default="", help="only mistakes that are described with these words")
    options = asked.parse_args()
    unknown = set(options.stores) - set(stores)
    if unknown:
        asked.error(f"no store is called {', '.join(sorted(unknown))}")
    survivors = []
    for store in options.stores or stores:
        tests, mutants = stores[store]
        survivors += _run(tests, [mutant for mutant in mutants if options.only in mutant.why])
    for mutant in survivors:
        print(f"SURVIVED {mutant.store}: {mutant.why} ({mutant.file})")
    return 1 if survivors else 0


def _run(tests: list[list[str]], mutants: list[Mutant]) -> list[Mutant]:
    """Run the mistakes and return the undetected ones."""
    survivors = []
    for mutant in mutants:
        began = time.monotonic()
        by = noticed(tests, mutant)
        told = f"noticed by {by}" if by else "SURVIVED"
        print(f"{mutant.store}: {mutant.why}: {told}, {time.monotonic() - began:.0f} s", flush=True)
        survivors += [] if by else [mutant]
    return survivors


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotThere as error:
        sys.exit(str(error))
