"""What a cue or a command speaks about: "that", "both", "the survey", "the venue is booked" to the tasks that are
meant."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from dibs.chat.language.words import keywords, kin, stem, words
from dibs.chat.synonyms import same

# Words that tell how far something is, or what came out of it, but not what it is.
_STATES = frozenset(
    map(
        stem,
        """done finished finish complete completed ready over sorted place arrive arrived exist exists work works live set known
        know result results outcome outcomes output outputs feedback answer answers data number numbers figure
        figures insight insights learned learn information info final in there available confirmed approved agreed agree signed
        closed clear going back up started happened delivered come came task step part thing stuff one ones rest others""".split(),
    )
)
# The same in a clause: "what you find", "how it went", "whatever they tell us".
_CAME_ABOUT = frozenset(
    map(stem, "find found say said tell told hear heard turn happen went go need permitting".split())
)
_POINTING = re.compile(
    r"^(?:that|this|it|its|they|them|their|these|those|he|she|his|her|which|the (?:same|above|latter))\b", re.IGNORECASE
)
_BOTH = re.compile(r"\b(?:both|the two|these two|those two)\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:all|everything|everyone|all of (?:them|that|it|these|those))\b", re.IGNORECASE)
_OUTCOME = re.compile(
    r"\b(?:results?|findings?|outcomes?|outputs?|feedback|answers?|data|numbers|figures|insights?|information)\b",
    re.IGNORECASE,
)
_ENOUGH = 0.5  # of the words of a reference


class Reference(NamedTuple):
    """Which of the pieces of work are meant, and how surely. None: nothing that was spoken of."""

    pieces: tuple[int, ...]
    confidence: float


NOTHING = Reference((), 0.0)
_POINTED = 0.9
_NAMED = 0.95


def resolve(about: str, pieces: Sequence[Sequence[str]], own: int, barred: Iterable[int] = ()) -> Reference:
    """`pieces` are the stems of each piece of work in the order they were said; `own` is the one that speaks.

    Earlier ones are meant rather than later ones, and nearer ones rather than farther ones.
    """
    out = {own, *barred}
    before = [number for number in range(own - 1, -1, -1) if number not in out]
    after = [number for number in range(own + 1, len(pieces)) if number not in out]
    if _BOTH.search(about) and len(before) > 1:
        return Reference(tuple(sorted(before[:2])), _POINTED)
    spoken = telling_words(about)
    telling = [one for one in spoken if one not in _CAME_ABOUT]
    for stems in (spoken, telling):
        if stems and (named := _by_words(stems, pieces, [*before, *after])) is not None:
            return named
    if _ALL.search(about) and not telling:
        return Reference(tuple(sorted(before)), _POINTED) if before else NOTHING
    if before and (
        not words(about) or _POINTING.match(about) or (_OUTCOME.search(about) and not telling) or not telling
    ):
        return Reference((before[0],), _POINTED)
    return NOTHING


def telling_words(about: str) -> list[str]:
    """The stems that say which work is meant."""
    return [one for one in keywords(about) if one not in _STATES]


def _by_words(telling: Sequence[str], pieces: Sequence[Sequence[str]], order: Sequence[int]) -> Reference | None:
    best, score = None, 0.0
    for number in order:
        covered = coverage(telling, pieces[number])
        if covered > score:
            best, score = number, covered
    return Reference((best,), _NAMED * (0.8 + 0.2 * score)) if best is not None and score >= _ENOUGH else None


def means(one: str, other: str) -> bool:
    return kin(one, other) or same(one, other)


def coverage(telling: Sequence[str], stems: Sequence[str]) -> float:
    """How much of what is told is found among the stems. "breakdown" is found in "break down"."""
    joined = {"".join(pair) for pair in pairwise(stems)}
    found = sum(1 for one in telling if one in joined or any(means(one, other) for other in stems))
    return found / len(telling)
