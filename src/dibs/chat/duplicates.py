"""The same work said twice: what is surely the same is merged, what may be is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Merge, Question
from dibs.chat.analyst.duplicates import likeness, unmatched
from dibs.chat.analyst.embedders import cosine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.chat.analyst.analysis import Proposal, Relation, Thresholds
    from dibs.chat.analyst.duplicates import Words
    from dibs.chat.analyst.open_tasks import OpenTasks
    from dibs.chat.pieces import Gathered

_FAINTEST = 0.5  # what is farther apart than this is not compared word by word


def find_duplicates(
    gathered: Gathered, tasks: Sequence[Proposal], around: OpenTasks, told: Sequence[Relation], limits: Thresholds
) -> tuple[tuple[Merge, ...], tuple[Question, ...]]:
    """Each task with the one before it that it is most like. What was said to be in order, is two tasks."""
    words = [piece.words for piece in gathered.pieces]
    tied = {frozenset((link.task, link.on)) for link in told}
    merges: list[Merge] = []
    questions: list[Question] = []
    merged: dict[str, str] = {}
    for number, task in enumerate(tasks):
        others = [one for one in _others(number, tasks, words, around) if frozenset((task.ref, one[0])) not in tied]
        ref, title, their, score = max(others, key=lambda one: one[3], default=("", "", words[number], 0.0))
        if score > limits.merge:
            merged[task.ref] = merged.get(ref, ref)
            merges.append(Merge(task, merged[task.ref], round(score, 3), _why(words[number], their)))
        elif score > limits.high:
            questions.append(
                Question(
                    "duplicate",
                    (task.ref, ref),
                    f'Is "{task.title}" the same as "{title}"? They are alike ({score:.2f}).',
                )
            )
    return tuple(merges), tuple(questions)


def _others(
    number: int, tasks: Sequence[Proposal], words: Sequence[Words], around: OpenTasks
) -> Iterator[tuple[str, str, Words, float]]:
    own = tasks[number]
    for other, task in enumerate(tasks[:number]):
        angle = cosine(own.vector, task.vector)
        if angle > _FAINTEST:
            yield task.ref, task.title, words[other], likeness(words[number], words[other], angle)
    for known, angle in around.near(own.vector, _FAINTEST):
        yield known.id, known.title, around.words(known), likeness(words[number], around.words(known), angle)


def _why(mine: Words, theirs: Words) -> str:
    if not unmatched(mine, theirs) and not unmatched(theirs, mine):
        return "because every word of one has its counterpart in the other"
    return "because they are alike"
