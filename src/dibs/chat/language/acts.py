"""The act of a message: request, command, correction, report, chatter and others.

Two linear models decide, fitted by tools/fit_acts.py to texts of independent writers and to phrases written for it (see
eval/people and eval/phrases). The first reads the words of one message, with the words that name open tasks replaced by
a mark, so that "drop the flyers" and "drop the audit" are one pattern. The second weighs that against the messages
before, the open tasks, and what the English rules make of the text. No numpy is needed, and the same text always gets
the same answer.
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REQUEST, UNCLEAR, OTHER = "request", "unclear", "other"
ACTS = ("chatter", "constraint", "correction", "question", "quote", "report", REQUEST)
STEERING = (
    "before", "cancel", "defer", "done", "edit", "focus", "independent", "pause", "plan", "priority", "resume", "sync",
    "undo", "why",
)  # fmt: skip
CLASSES = (*ACTS, *STEERING)
BUCKETS = 1 << 16
FILE = os.path.join(os.path.dirname(__file__), "acts.bin")

_SPELLING = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "`": "'", "\u00b4": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"'}
    | {"\u2013": "-", "\u2014": "-", "ß": "ss", "œ": "oe"}
)
_TOKEN = re.compile(r"https?://\S+|\w+@\w+\S*|[a-z]+(?:'[a-z]+)?|\d[\d.,:/]*|[?!]+|\.\.+|[^\w\s]|\w")
_PICTURES = 0x2600  # first code point of emoji and other pictures
_ELISION = 2  # letters before the apostrophe of l'affiche
LONGEST = 60  # most tokens that are read
FUNCTION_WORDS = frozenset(
    """the a an to of for and or in on at by with from my our your his her is are be it this that der die das den dem
    des ein eine einen einer und oder im am an auf fur von zu zum zur mit le la les un une du de et ou au aux en
    pour sur par avec el los las uno una unos del y o para por con al que se""".split()
)
_SHORTEST = 3  # letters of a word that can name a task


def folded(text: str) -> str:
    """Lower case without accents, since people leave them out."""
    plain = text.translate(_SPELLING).lower()
    if plain.isascii():
        return plain
    return "".join(c for c in unicodedata.normalize("NFD", plain) if unicodedata.category(c) != "Mn")


def tokens(text: str) -> list[str]:
    """Words and marks; numbers, addresses and pictures as one sign each."""
    return [token for found in _TOKEN.findall(folded(text)) for token in _token(found)]


def _token(found: str) -> tuple[str, ...]:
    if found[0].isdigit():
        return ("#",)
    if found.startswith("http"):
        return ("<url>",)
    if "@" in found and len(found) > _SHORTEST:
        return ("<mail>",)
    if found[0] in "?!":
        return (found[0] if len(found) == 1 else found[0] * 2,)
    if ord(found[0]) > _PICTURES:
        return ("<emo>",)
    head, mark, rest = found.partition("'")
    return (head + mark, rest) if mark and len(head) <= _ELISION < len(rest) else (found,)


def naming(words: Sequence[str]) -> list[str]:
    """The words that can name a task."""
    return [word for word in words if len(word) >= _SHORTEST and word.isalpha() and word not in FUNCTION_WORDS]


_LONG = 4
_LONGER = 5
_COMPOUND = 6


@lru_cache(50_000)
def alike(one: str, other: str) -> bool:
    """Whether the words are the same, except for endings, compounds, and one typing error."""
    if one == other:
        return True
    short, most = min(len(one), len(other)), max(len(one), len(other))
    if short < _LONG:
        return False
    same = _common(one, other)
    if same >= _LONG and (same == short or same >= 0.6 * most):
        return True
    if short < _LONGER:
        return False
    if short >= _COMPOUND and (one.endswith(other) or other.endswith(one)):
        return True
    return most - short <= 1 and one[0] == other[0] and _one_slip(one[same:], other[same:])


def _common(one: str, other: str) -> int:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def _one_slip(one: str, other: str) -> bool:
    """Whether one letter is wrong, missing or doubled, or two are exchanged."""
    swapped = one[2:] == other[2:] and one[:2] == other[1::-1]
    return one[1:] == other[1:] or one[1:] == other or one == other[1:] or swapped


class Around(NamedTuple):
    """The naming words of the open tasks that a message may mean."""

    titles: tuple[tuple[str, ...], ...] = ()


def patterns(words: Sequence[str], text: str, around: Around) -> Iterator[str]:
    """The features of one message."""
    named = [_names_one(word, around) for word in words]
    words, named = words[:LONGEST], named[:LONGEST]
    masked = ["<T>" if name else word for word, name in zip(words, named, strict=True)]
    line = ["^", *(w for i, w in enumerate(masked) if not (i and w == "<T>" == masked[i - 1])), "$"]
    for word in words:
        yield f"w:{word}"
        if len(word) > _LONG:
            yield f"p:{word[:4]}"
            yield f"s:{word[-3:]}"
    yield from (f"b:{one} {two}" for one, two in pairwise(line))
    for one, two, three in zip(line, line[1:], line[2:], strict=False):
        yield f"t:{one} {two} {three}"
        yield f"k:{one} _ {three}"
    yield f"first:{line[1]}"
    yield f"last:{line[-2]}"
    yield f"len:{sum(len(words) >= edge for edge in (2, 4, 7, 12, 20, 40))}"
    yield from (name for name, there in (("nl", "\n" in text), ("q", "?" in text), ("hit", any(named))) if there)
    yield f"hits{min(3, sum(named))}"
    yield f"cov{int(3.99 * max(coverage(words, around), default=0.0))}"
    yield f"no{min(3, len(around.titles))}"


def _names_one(word: str, around: Around) -> bool:
    if len(word) < _SHORTEST or not word.isalpha() or word in FUNCTION_WORDS:
        return False
    return any(alike(word, other) for title in around.titles for other in title)


def coverage(words: Sequence[str], around: Around) -> list[float]:
    """The share of each title's words that the message names."""
    told = naming(words)
    return [sum(any(alike(w, v) for w in told) for v in title) / max(1, len(title)) for title in around.titles]


class Weights:
    """The file: a line of JSON with the second model, then a byte for each bucket and class of the first."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, "rb") as opened:
                header = json.loads(opened.readline())
                self.table = memoryview(opened.read()).cast("b")
            self.scales, self.bias = header["scales"], header["bias"]
            self.mean, self.spread = header["mean"], header["spread"]
            self.second, self.intercept = header["second"], header["intercept"]
        except (OSError, ValueError, KeyError) as error:
            raise Misconfigured(f"The model of message acts cannot be read ({error}). Reinstall dibs.") from None


@cache
def weights() -> Weights:
    return Weights(FILE)


def bucket(pattern: str) -> int:
    return crc32(pattern.encode()) % BUCKETS


def first_reading(found: set[int], model: Weights) -> list[float]:
    """The logarithm of each class's share, by the words alone."""
    size = len(CLASSES)
    total = [0] * size
    for number in found:
        total = list(map(int.__add__, total, model.table[number * size : (number + 1) * size]))
    length = math.sqrt(len(found)) or 1.0
    shares = [
        1 / (1 + math.exp(-max(-30.0, min(30.0, value * scale / length + bias))))
        for value, scale, bias in zip(total, model.scales, model.bias, strict=True)
    ]
    whole = sum(shares) or 1.0
    return [math.log(max(1e-4, share / whole)) for share in shares]


ASKED = 0.35  # least share of steering for a question whether a message is a command
PLAIN = 0.4  # least share among all commands for a question about this one
NOTHING_BEFORE = [-4.0] * len(CLASSES)


class Act(NamedTuple):
    """`name` is request, unclear, other, or the likeliest command, and `sureness` its share of all commands.

    `detail` is the likeliest act without a request. The last three are the shares of the three kinds.
    """

    name: str
    detail: str
    command: str
    sureness: float
    request: float
    steering: float
    other: float


def surface(text: str, words: Sequence[str], around: Around, place: int) -> list[float]:
    """Features outside the patterns: lengths, marks, and how well the text names open tasks."""
    told = naming(words)
    shares = sorted(coverage(words, around), reverse=True)
    best, second = [*shares, 0.0, 0.0][:2]
    hits = sum(any(alike(word, v) for title in around.titles for v in title) for word in told)
    letters = max(1, len(text))
    return [
        float(min(len(words), LONGEST)), float(min(len(told), LONGEST)), best, second, float(hits),
        hits / max(1, len(told)), float(min(8, len(around.titles))), float(min(place, 6)), float("?" in text),
        float("\n" in text), sum(map(str.isupper, text)) / letters, float("#" in words),
    ]  # fmt: skip


def decided(features: Sequence[float], own: Sequence[float], model: Weights) -> Act:
    scaled = [(value - mean) / spread for value, mean, spread in zip(features, model.mean, model.spread, strict=True)]
    raw = [
        sum(a * b for a, b in zip(row, scaled, strict=True)) + base
        for row, base in zip(model.second, model.intercept, strict=True)
    ]
    top = max(raw)
    grown = [math.exp(value - top) for value in raw]
    by_words = [math.exp(value) for value in own]
    first = (by_words[ACTS.index(REQUEST)], sum(by_words[len(ACTS) :]))
    request, steering = ((value / sum(grown) + alone) / 2 for value, alone in zip(grown[:2], first, strict=True))
    other = 1 - request - steering
    likeliest = max(range(len(ACTS), len(CLASSES)), key=lambda number: own[number])
    detail = max(range(len(ACTS) - 1), key=lambda number: own[number])
    name = REQUEST if request >= max(steering, other) else OTHER
    name = CLASSES[likeliest] if steering >= ASKED and steering > request else name
    shares = [math.exp(value) for value in own[len(ACTS) :]]
    sureness = math.exp(own[likeliest]) / sum(shares)
    if name in STEERING and sureness < PLAIN:
        name = REQUEST if request >= other else OTHER
    return Act(name, CLASSES[detail], CLASSES[likeliest], sureness, request, steering, other)
