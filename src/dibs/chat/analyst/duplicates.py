"""Similarity of requests, and duplicates: certain ones are merged, likely ones become questions.

The cosine of two vectors shows whether two requests have the same subject. Their words show whether they are the same
work: "restart the server in Oslo" and "… in Bergen" have almost equal vectors, but are two tasks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.analysis import Merge, Question
from dibs.chat.analyst.embedders import Builtin, cosine
from dibs.chat.language.words import NEGATIONS, are_distinct, are_synonyms, keywords, same_root, stem, straight, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.chat.analyst.analysis import Proposal, Relation, Thresholds
    from dibs.chat.analyst.open_tasks import OpenTasks
    from dibs.chat.analyst.requests import Gathered


# Verbs that add nothing to their noun: place an order, do research, put labels on.
_LIGHT = frozenset(
    map(
        stem,
        "get place put make do perform conduct carry give take have come bring additional extra further regarding concerning"
        " need want like quick quickly properly finally new please together create".split(),
    )
)
_TURNED = ("off", "down")  # particles that reverse the meaning of a request
SAME_WORD = 0.64  # the cosine from which two words that are not names have the same meaning

# Upper limits of the likeness where the words differ.
MOST_IF_ONE_SAYS_MORE = 0.90
MOST_IF_BOTH_DIFFER = 0.75


class Words(NamedTuple):
    """The words of a text, prepared once for all comparisons."""

    text: str
    stems: tuple[str, ...]
    light: tuple[str, ...]
    names: frozenset[str]
    negated: bool


def words_of(text: str) -> Words:
    plain = straight(text)
    stems = [*keywords(plain), *_letters(plain), *(word for word in _TURNED if f" {word} " in f" {plain.lower()} ")]
    light = tuple(one for one in stems if one in _LIGHT)
    telling = tuple(one for one in stems if one not in _LIGHT) or light
    return Words(plain, telling, light, _names(plain), any(word in NEGATIONS for word in words(plain)))


def _letters(text: str) -> list[str]:
    """Single letters that are names, as in "tank A"; keywords omit them."""
    return [letter.lower() for letter in re.findall(r"(?<=[a-z] )[A-Z](?![\w'])", text) if letter != "I"]


_NAME = re.compile(r"(?<=\S )(?:[A-Z][^\W_]*|[^\W\d_]*\d[^\W_]*)")


def _names(text: str) -> frozenset[str]:
    """Words with a capital inside the sentence, numbers, and single letters."""
    named = {stem(word.lower()) for word in _NAME.findall(text)}
    return frozenset(named | {word for word in words(text) if any(map(str.isdigit, word))})


def likeness(one: Words, other: Words, angle: float) -> float:
    """Likeness from 0 to 1: the cosine, limited by the words that only one text has."""
    if not one.stems or not other.stems:
        return float(one.text.lower() == other.text.lower())
    if one.negated != other.negated:
        return min(angle, MOST_IF_BOTH_DIFFER)
    here, there = unmatched(one, other), unmatched(other, one)
    if not here and not there:
        return (2 + max(angle, 0.0)) / 3
    shared = 1 - (len(here) + len(there)) / (len(one.stems) + len(other.stems))
    both = (angle + shared) / 2
    return min(both, MOST_IF_BOTH_DIFFER if here and there else MOST_IF_ONE_SAYS_MORE)


def unmatched(one: Words, other: Words) -> list[str]:
    """The words of `one` without a counterpart in `other`."""
    counterparts = (*other.stems, *other.light)
    return [mine for mine in one.stems if not any(_means(mine, theirs, one, other) for theirs in counterparts)]


def _means(mine: str, theirs: str, one: Words, other: Words) -> bool:
    if mine == theirs:
        return True
    if mine in one.names or theirs in other.names or are_distinct(mine, theirs):
        return False
    return same_root(mine, theirs) or are_synonyms(mine, theirs) or word_angle(mine, theirs) > SAME_WORD


@cache
def _word_vector(word: str) -> tuple[float, ...]:
    return Builtin().embed([word])[0]


@cache
def word_angle(mine: str, theirs: str) -> float:
    return cosine(_word_vector(mine), _word_vector(theirs))


def about_the_same(one: Words, other: Words) -> float:
    """Share (0 to 1) of the shorter request's subject, without its opening verb, that the other one contains."""
    short, long = sorted((one, other), key=lambda each: len(each.stems))
    subject = short.stems[1:] or short.stems
    found = [mine for mine in subject if any(_means(mine, theirs, short, long) for theirs in long.stems)]
    return len(found) / len(subject) if subject else 0.0


def shared_words(one: Words, other: Words) -> Sequence[str]:
    """For the evidence: the common words, as the first text writes them."""
    stems = {mine for mine in one.stems if any(same_root(mine, theirs) for theirs in other.stems)}
    return [word for word in dict.fromkeys(words(one.text)) if stem(word.removesuffix("'s")) in stems]


_FAINTEST = 0.5  # pairs with a lower cosine are not compared word by word


def find_duplicates(
    gathered: Gathered, tasks: Sequence[Proposal], around: OpenTasks, told: Sequence[Relation], limits: Thresholds
) -> tuple[tuple[Merge, ...], tuple[Question, ...]]:
    """Each task with the most similar one before it. Tasks in a stated order are not duplicates."""
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
                    f'Is "{task.title}" the same as "{title}"? They are similar ({score:.2f}).',
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
        return "because their words match"
    return "because they are similar"
