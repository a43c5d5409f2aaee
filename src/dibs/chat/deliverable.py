"""What comes out of a task: research, code, analysis, content, strategy, ops or testing.

Telling words speak up (deliverable_words.py); beside them the vectors of the request and of its first words are
weighed, as fitted to some six hundred examples by tools/fit_deliverables.py. Words alone know what they were told,
vectors alone mistake a subject for a kind ("order business cards" is no design work); together they are right more
often than either.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache, lru_cache
from operator import mul
from typing import TYPE_CHECKING

from dibs.chat.deliverable_words import NOUNS, QUESTIONS, VERBS
from dibs.chat.embedders.builtin import WIDTH, Builtin
from dibs.chat.words import straight

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = tuple(VERBS)
WEIGHTS = os.path.join(os.path.dirname(__file__), "deliverable_weights.json")
_MOST_WORDS = 4  # in one entry
_OFTEN = 4000  # titles whose kind is remembered: open tasks are compared again and again


@lru_cache(_OFTEN)
def deliverable(request: str) -> str:
    known = features(request)
    scores = [sum(map(mul, known, weights)) for weights in _weights()]
    return KINDS[scores.index(max(scores))]


def features(request: str) -> list[float]:
    """What a request is judged by: its meaning, that of its first two words, how loudly words speak for each kind."""
    text = straight(request)
    whole, first = Builtin().embed([text, " ".join(text.split()[:2])])
    told = word_scores(text)
    return [
        *(4 * value for value in whole[:WIDTH]),
        *(3 * value for value in first[:WIDTH]),
        *(told[kind] / 5 for kind in KINDS),
        1.0,
    ]


def word_scores(request: str) -> dict[str, int]:
    """How loudly the telling words speak for each kind."""
    text = straight(request).lower()
    said = _split(text)
    length, opening = _opening(said)
    scores = dict.fromkeys(KINDS, 0)
    for spoken in (opening, _anywhere(said[length:]), _asked(text)):
        for kind, weight in spoken.items():
            scores[kind] += weight
    return scores


def opens_with_verb(text: str) -> bool:
    """Whether it begins like a request: with a verb that one asks for things with."""
    return _opening(_split(straight(text).lower()))[0] > 0


def _opening(said: list[str]) -> tuple[int, Mapping[str, int]]:
    """The longest verb that the request opens with, and how many words that is; some speak for several kinds."""
    return _longest(said, 0, _verbs()) or (0, {})


def _anywhere(said: list[str]) -> Mapping[str, int]:
    """For every kind, what speaks loudest for it. Words inside a longer entry that was found are used up."""
    loudest: dict[str, int] = {}
    position = 0
    while position < len(said):
        length, found = _longest(said, position, _nouns()) or (1, {})
        for kind, weight in found.items():
            loudest[kind] = max(weight, loudest.get(kind, 0))
        position += length
    return loudest


def _longest(
    said: list[str], position: int, table: Mapping[str, Mapping[str, int]]
) -> tuple[int, Mapping[str, int]] | None:
    for length in range(min(_MOST_WORDS, len(said) - position), 0, -1):
        if found := table.get(" ".join(said[position : position + length])):
            return length, found
    return None


def _asked(text: str) -> Mapping[str, int]:
    kind = next((kind for pattern, kind in QUESTIONS if re.match(pattern, text)), None)
    return {} if kind is None else {kind: 5}


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['/-][^\W_]+)*", text)


@cache
def _weights() -> list[list[float]]:
    """A row for each kind."""
    with open(WEIGHTS, encoding="utf-8") as file:
        weights: list[list[float]] = json.load(file)
    return weights


@cache
def _verbs() -> Mapping[str, Mapping[str, int]]:
    return _by_word(VERBS)


@cache
def _nouns() -> Mapping[str, Mapping[str, int]]:
    return _by_word(NOUNS)


def _by_word(table: Mapping[str, Mapping[int, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for kind, weights in table.items():
        for weight, written in weights.items():
            for word in written.split("|"):
                found.setdefault(word, {})[kind] = weight
    return found
