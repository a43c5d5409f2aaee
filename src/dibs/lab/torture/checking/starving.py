"""Nobody is told again and again that there is nothing to do, while something lies there."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.checking.story import NEVER, Violation
from dibs.lab.torture.history import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.lab.torture.checking.story import Story
    from dibs.lab.torture.history import Operation

_TIMES = 5
_LAST_WORDS = 5.0  # seconds for which a server may still be at what a killed worker had asked for
_FREE = frozenset({"fail", "release"})


class Span(NamedTuple):
    begin: float
    end: float


def no_starvation(story: Story) -> Iterator[Violation]:
    empty = [each for each in story.operations if each.verb == "claim" and each.ok and not (each.given or each.named)]
    begins = [each.begin for each in empty]
    anybody = _by_anybody(story)
    for task, additions in story.additions.items():
        if not any(addition.ok for addition in additions):
            continue
        taken = list(_taken(story, task))
        if not any(_too_long(story, _within(empty, begins, span)) for span in _gaps(taken)):
            continue
        for span in _gaps([*taken, *anybody]):
            passed = _within(empty, begins, span)
            if _too_long(story, passed):
                long = passed[-1].begin - passed[0].begin
                message = (
                    f"{task} lay ready for {long:.1f} s, and {len(passed)} times there was said to be nothing to do"
                )
                held = [each.claim for each in story.attempts.get(task, ()) if each.claim.begin < span.begin]
                yield Violation("no starvation", task, message, ((held or additions)[-1], passed[0], passed[-1]))
                break


def _too_long(story: Story, passed: Sequence[Operation]) -> bool:
    return len(passed) >= _TIMES and passed[-1].begin - passed[0].begin > story.assumptions.patience


def _within(empty: Sequence[Operation], begins: Sequence[float], span: Span) -> list[Operation]:
    found = empty[bisect_left(begins, span.begin) : bisect_left(begins, span.end)]
    return [each for each in found if each.over < span.end]


def _by_anybody(story: Story) -> list[Span]:
    """A claim whose answer was lost may have taken any task."""
    unknown = [each for each in story.operations if each.verb == "claim" and each.outcome == "unknown"]
    late = story.assumptions.late + story.assumptions.unanswered
    spans = [Span(each.begin, (each.end or each.begin) + _LAST_WORDS + each.lease + late) for each in unknown]
    return _merged(spans)


def _taken(story: Story, task: str) -> Iterator[Span]:
    """When the task may have been out of reach: before it was there, held, set aside, finished, waiting."""
    yield Span(-NEVER, min(each.over for each in story.additions[task]))
    for attempt in story.attempts.get(task, ()):
        freed = (word.over for word in attempt.words if word.ok and word.verb in _FREE and not story.echoes(word))
        yield Span(attempt.claim.begin, min([attempt.lapsed, *freed]))
    yield Span(story.maybe_finished(task), NEVER)
    for word in story.words[task]:
        if word.verb == "block" and word.possible:
            back = [each.over for each in story.words[task] if each.verb == "unblock" and each.ok]
            yield Span(word.begin, min((over for over in back if over > word.begin), default=NEVER))
        elif word.outcome == "unknown" and word.verb in ENDINGS:
            yield Span(word.begin, word.begin + story.assumptions.patience)
    for tie in story.ties.get(task, ()):
        yield Span(tie.from_, min(tie.gone, story.surely_finished(tie.on)))


def _merged(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _gaps(spans: Sequence[Span]) -> Iterator[Span]:
    before = -NEVER
    for span in _merged(spans):
        if span.begin > before:
            yield Span(before, span.begin)
        before = max(before, span.end)
    if before < NEVER:
        yield Span(before, NEVER)
