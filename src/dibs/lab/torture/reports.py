"""A report in words: for a person, and for a program."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dibs.lab.torture.history import without_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Json
    from dibs.lab.torture.checking.story import Violation
    from dibs.lab.torture.experiments import Report
    from dibs.lab.torture.history import Operation

_SHOWN = 3  # violations of each rule
_TASKS_SHOWN = 4


def lines(report: Report) -> Iterator[str]:
    figures = report.figures
    yield _verdict(report)
    yield f"  operations    {figures.operations}, the slowest took {figures.slowest:.2f} s"
    yield f"  claims        {figures.claims}, finishes {figures.finishes}"
    yield f"  refused       {figures.lost_locks} words of holders who were late, and of impostors"
    yield f"  unanswered    {figures.unknown}"
    struck = ", ".join(f"{name} {number}" for name, number in report.struck.items())
    yield f"  faults        {struck or 'none'}"
    if not report.drained:
        yield "  unfinished    some tasks, when the time was over"
    for rule, found in _by_rule(report).items():
        yield ""
        yield f"{rule}: {len(found)} {'time' if len(found) == 1 else 'times'}"
        for violation in found[:_SHOWN]:
            yield f"  {violation.message}"
            yield from (f"    {line}" for line in history_lines(report, violation))
    if report.violations:
        yield ""
        yield "The same seed makes the same plan, workers and faults again; who wins a race is up to the machine."


def _verdict(report: Report) -> str:
    found = len(report.violations)
    said = f"{found or 'no'} violation{'' if found == 1 else 's'}"
    early = ", interrupted" if report.interrupted else ""
    workers, seed = report.experiment.workers, report.experiment.seed
    return f"{said} on {report.kind}: {workers} workers for {report.figures.seconds:.0f} s, seed {seed}{early}"


def _by_rule(report: Report) -> dict[str, list[Violation]]:
    found: dict[str, list[Violation]] = defaultdict(list)
    for violation in report.violations:
        found[violation.rule].append(violation)
    return found


def history_lines(report: Report, violation: Violation) -> list[str]:
    """The few operations that show it, in the order in which they were asked for."""
    start = report.operations[0].begin if report.operations else 0.0
    return [in_words(each, start) for each in without_tokens(sorted(violation.proof, key=lambda each: each.begin))]


def in_words(operation: Operation, start: float) -> str:
    end = "…" if operation.end is None else f"{operation.end - start:.3f}"
    when = f"{operation.begin - start:8.3f}..{end:<8}"
    what = " ".join(filter(None, (operation.verb, operation.task, operation.on and f"on {operation.on}")))
    return f"{when} {operation.worker:<8} {what} {_answer(operation)}".rstrip()


def _answer(operation: Operation) -> str:
    if operation.code:
        return f"→ {operation.code}"
    if operation.outcome == "unknown":
        return "→ no answer"
    if operation.verb == "claim":
        given = ", ".join(f"{task} (attempt {attempt})" for task, (attempt, _) in operation.given.items())
        return f"→ {given}, for {operation.lease:g} s" if given else "→ nothing"
    if operation.made:
        names = list(operation.made)
        more = f" and {len(names) - _TASKS_SHOWN} more" if len(names) > _TASKS_SHOWN else ""
        return f"{', '.join(names[:_TASKS_SHOWN])}{more} → accepted"
    return f"→ {len(operation.seen['tasks'])} tasks" if operation.seen else "→ accepted"


def data(report: Report) -> dict[str, Json]:
    experiment, figures = report.experiment, report.figures
    return {
        "store": report.kind,
        "seed": experiment.seed,
        "workers": experiment.workers,
        "seconds": round(figures.seconds, 3),
        "faults": dict(report.struck),
        "operations": figures.operations,
        "claims": figures.claims,
        "finishes": figures.finishes,
        "refused": figures.lost_locks,
        "unanswered": figures.unknown,
        "slowest": round(figures.slowest, 3),
        "outcomes": dict(figures.outcomes),
        "drained": report.drained,
        "interrupted": report.interrupted,
        "violations": [
            {"rule": each.rule, "task": each.task, "message": each.message, "history": history_lines(report, each)}
            for each in report.violations
        ],
    }
