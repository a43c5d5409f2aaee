"""A report of a run: as text, as JSON, and as a page with a timeline of all workers."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import InvalidInput, StoreUnavailable
from dibs.lab.torture import history
from dibs.lab.torture.checker import Attempt, Story
from dibs.lab.torture.history import ENDINGS, without_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Json
    from dibs.lab.torture.checker import Violation
    from dibs.lab.torture.crew import Mark
    from dibs.lab.torture.experiments import Report
    from dibs.lab.torture.history import Operation


_MOST = 1500  # holds in one picture; with more, the lines merge
_WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _BAR = 1600, 90, 30, 30, 26, 16
_TICKS = 10
_ABOUT = "What each worker held, second by second"


class Window(NamedTuple):
    """The part of the run that is shown."""

    begin: float
    end: float

    def x(self, moment: float) -> float:
        share = (min(max(moment, self.begin), self.end) - self.begin) / max(self.end - self.begin, 0.001)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def svg(report: Report) -> str:
    """A self-contained page, without external scripts, fonts or styles."""
    attempts = [each for of in Story(report.operations, report.assumptions).attempts.values() for each in of]
    window = _window(report, sorted(attempts, key=lambda each: each.claim.begin))
    seats = sorted({_seat(each.claim.worker) for each in attempts} | {mark.seat for mark in report.marks if mark.seat})
    lanes = {seat: _TOP + place * _LANE for place, seat in enumerate(seats)}
    height = _TOP + len(lanes) * _LANE + 10
    bad = {operation.key for violation in report.violations for operation in violation.proof}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_ABOUT}">',
        *_axis(window, report.operations[0].begin if report.operations else 0.0, height),
        *(_lane(seat, y) for seat, y in lanes.items()),
        *(_struck(mark, window, lanes, height) for mark in report.marks if _shows(window, mark.begin, mark.end)),
        *(_held(each, window, lanes, bad=each.claim.key in bad) for each in attempts if _shows(window, *_span(each))),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _window(report: Report, attempts: list[Attempt]) -> Window:
    """All of it, or as much around the first violation as can be shown."""
    if not attempts:
        return Window(0.0, 1.0)
    place = 0
    proof = next((violation.proof for violation in report.violations if violation.proof), ())
    if proof:
        place = sum(each.claim.begin < proof[0].begin for each in attempts)
    first = max(0, min(place - _MOST // 2, len(attempts) - _MOST))
    shown = attempts[first : first + _MOST]
    return Window(shown[0].claim.begin, max(_span(each)[1] for each in shown))


def _shows(window: Window, begin: float, end: float) -> bool:
    return end >= window.begin and begin <= window.end


def _seat(worker: str) -> int:
    return int(worker.removeprefix("w").partition(".")[0]) if worker.startswith("w") else -1


def _span(attempt: Attempt) -> tuple[float, float]:
    """From the claim's answer to its end, or to that of its lease."""
    begin = attempt.claim.end or attempt.claim.begin
    return begin, max(begin, min(attempt.ended, attempt.leased))


def _end(attempt: Attempt) -> str:
    last = next((word for word in attempt.words if word.verb in ENDINGS and word.ok), None)
    if last is None:
        return "lost"
    return "done" if last.verb == "done" else "back"


def _axis(window: Window, start: float, height: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        moment = window.begin + (window.end - window.begin) * tick / _TICKS
        x = window.x(moment)
        yield f'<line class="tick" x1="{x}" y1="{_TOP - 6}" x2="{x}" y2="{height}"/>'
        yield f'<text class="time" x="{x}" y="{_TOP - 12}">{moment - start:.1f} s</text>'


def _lane(seat: int, y: int) -> str:
    return f'<text class="seat" x="8" y="{y + _BAR - 3}">worker {seat}</text>'


def _held(attempt: Attempt, window: Window, lanes: dict[int, int], *, bad: bool) -> str:
    begin, end = _span(attempt)
    x, y = window.x(begin), lanes[_seat(attempt.claim.worker)]
    told = escape(f"{attempt.task}, attempt {attempt.number}, {attempt.claim.worker}: {_end(attempt)}")
    kind = f"hold {_end(attempt)}{' bad' if bad else ''}"
    width = max(1.0, round(window.x(end) - x, 1))
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{_BAR}"><title>{told}</title></rect>'


def _struck(mark: Mark, window: Window, lanes: dict[int, int], height: int) -> str:
    """On its lane, or across all of them."""
    x, told = window.x(mark.begin), escape(mark.what)
    width = max(1.5, round(window.x(mark.end) - x, 1))
    if mark.seat is None:
        top, tall = _TOP - 4, height - _TOP
    else:
        top, tall = lanes[mark.seat] - 3, _BAR + 6
    return (
        f'<rect class="fault {mark.fault}" x="{x}" y="{top}" width="{width}" height="{tall}">'
        f"<title>{told}</title></rect>"
    )


_SHOWN = 3  # violations of each rule
_TASKS_SHOWN = 4


def lines(report: Report) -> Iterator[str]:
    figures = report.figures
    yield _verdict(report)
    yield f"  operations    {figures.operations}, the slowest took {figures.slowest:.2f} s"
    yield f"  claims        {figures.claims}, finishes {figures.finishes}"
    yield f"  refused       {figures.lost_locks} late or foreign writes"
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


_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --soft: #8885; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem; }
pre { overflow-x: auto; } svg { width: 100%; height: auto; } .key span { margin-right: 1.5em; }
.key i { display: inline-block; width: 1em; height: 1em; margin-right: .4em; vertical-align: -.1em; }
.tick { stroke: var(--soft); } .time { font-size: 11px; text-anchor: middle; fill: var(--ink); }
.seat { font-size: 12px; fill: var(--ink); }
.done { fill: #2e8b57; background: #2e8b57; } .back { fill: #4a78b5; background: #4a78b5; }
.lost { fill: #d08a1d; background: #d08a1d; } .bad { stroke: #e0f; stroke-width: 2; border: 2px solid #e0f; }
.fault { fill: #999; background: #999; opacity: .35; } .kill { fill: #d11; background: #d11; opacity: .9; }
.restart { fill: #7a3db8; background: #7a3db8; } .partition { fill: #c2417c; background: #c2417c; }
.disk { fill: #6b4f2a; background: #6b4f2a; } .slow { fill: #c9b400; background: #c9b400; }
"""
_KEY = (
    ("done", "held and done"),
    ("back", "held and given back, set aside or canceled"),
    ("lost", "held until the lease was over"),
    ("bad", "shows a violation"),
    ("fault", "stopped"),
    ("fault kill", "killed"),
    ("fault restart", "server started again"),
    ("fault partition", "network broken"),
    ("fault slow", "slow"),
    ("fault disk", "disk full"),
)


def claim_folder(folder: str) -> None:
    """Before anything begins: a report overwrites nothing."""
    try:
        os.makedirs(folder, exist_ok=True)
        there = os.listdir(folder)
    except OSError as error:
        raise StoreUnavailable(f"The report cannot be written to {folder}: {error.strerror}.") from None
    if there:
        raise InvalidInput(f"{folder} is not empty; a report overwrites nothing.")


def write(report: Report, folder: str) -> None:
    with open(os.path.join(folder, "report.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines(report))
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump(data(report), file, indent=1)
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _page(report))
    judged = {"assumptions": report.assumptions._asdict()}
    history.save(history.without_tokens(report.operations), os.path.join(folder, "history.jsonl"), judged)


def _page(report: Report) -> Iterator[str]:
    first, *rest = lines(report)
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(first)}</title>"
    yield f"<style>{_STYLE}</style><h1>{escape(first)}</h1>"
    key = "".join(f"<span><i class='{kind}'></i>{escape(told)}</span>" for kind, told in _KEY)
    yield f"<p class='key'>{key}</p>"
    yield svg(report)
    yield f"<pre>{escape(chr(10).join(line for line in rest if not line.startswith('    ')))}</pre>"
    for violation in report.violations:
        shown = escape("\n".join(history_lines(report, violation)))
        yield f"<h2>{escape(violation.rule)}</h2><p>{escape(violation.message)}</p><pre>{shown}</pre>"
    yield "</html>"
