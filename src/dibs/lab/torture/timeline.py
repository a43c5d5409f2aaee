"""A picture of the run: a lane for each worker's seat, what it held and how that ended, and what befell it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.checking.story import Attempt, Story
from dibs.lab.torture.history import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.torture.experiments import Report
    from dibs.lab.torture.faults import Mark

_MOST = 1500  # holds in one picture; more than that nobody can tell apart
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
    """Stands for itself: no script, no font, no style from elsewhere."""
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
