"""What comes out of a task: research, code, analysis, content, strategy, ops or testing.

Telling words speak up (deliverable_words.py); beside them the vectors of the request and of its first words are
weighed, and how words were used, as fitted to some fourteen hundred examples by tools/fit_deliverables.py. Words alone
know what they were told, vectors alone mistake a subject for a kind ("order business cards" is no design work);
together they are right more often than either.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache, lru_cache
from operator import mul
from typing import TYPE_CHECKING, TypedDict

from dibs.chat.deliverable_words import NOUNS, QUESTIONS, VERBS
from dibs.chat.embedders.builtin import WIDTH, Builtin
from dibs.chat.language.sentences import bare_request
from dibs.chat.language.words import stem, straight, words

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = tuple(VERBS)
_SILENT = (0.0,) * len(KINDS)
WEIGHTS = os.path.join(os.path.dirname(__file__), "deliverable_weights.json")
_MOST_WORDS = 4  # in one entry
_OFTEN = 4000  # titles whose kind is remembered: open tasks are compared again and again


@lru_cache(_OFTEN)
def deliverable(request: str) -> str:
    weights, known = _weights(), features(request)
    scores = [sum(map(mul, known, row)) for row in weights["features"]]
    for word in spoken_words(request):
        scores = [score + more for score, more in zip(scores, weights["words"].get(word, _SILENT), strict=True)]
    return KINDS[scores.index(max(scores))]


def spoken_words(request: str) -> set[str]:
    """The stems that are said, the first one marked as such, and whether it asks."""
    said = [stem(word) for word in words(bare_request(straight(request)) or request)]
    return {*said, *(f"^{first}" for first in said[:1]), *("?" for _ in range(request.rstrip().endswith("?")))}


def features(request: str) -> list[float]:
    """What a request is judged by: its meaning, that of its first two words, how loudly words speak for each kind."""
    text = bare_request(straight(request)) or request
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
    text = bare_request(straight(request)).lower()
    said = _split(text)
    length, opening = _opening(said) if opens_with_verb(text) else (0, _asked_later(text))
    scores = dict.fromkeys(KINDS, 0)
    for spoken in (opening, _anywhere(said[length:]), _asked(text)):
        for kind, weight in spoken.items():
            scores[kind] += weight
    return scores


_LATER = re.compile(r"(?:[,;:?.]| -|\bso|\band) +")


def _asked_later(text: str) -> Mapping[str, int]:
    """Where it begins with how things are, what is asked for comes after: "the sink is blocked, get someone in"."""
    parts = [bare_request(part) for part in _LATER.split(text)[1:]]
    return next((_opening(_split(part))[1] for part in reversed(parts) if opens_with_verb(part)), {})


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


class _Weights(TypedDict):
    """A row of features for each kind; a number of each kind for words."""

    features: list[list[float]]
    words: dict[str, list[float]]


@cache
def _weights() -> _Weights:
    with open(WEIGHTS, encoding="utf-8") as file:
        weights: _Weights = json.load(file)
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
