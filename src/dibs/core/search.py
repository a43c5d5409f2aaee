"""Search by words and by vectors, with the same results in every store.

A word matches any word that begins with it, in the id, title, labels, category, description or notes (the comments) of
a task. Every word of the query must match. A store with a text index finds the candidates; the order is decided here.
"""

import math
import re
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from heapq import nsmallest
from operator import mul
from typing import NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput
from dibs.core.events import Event
from dibs.core.task import Task

_WORD = re.compile(r"[^\W_]+")
_EXACT = 2.0  # how much more a whole word counts than the beginning of one
_ID, _TITLE, _LABEL, _DESCRIPTION, _NOTE = 10.0, 8.0, 4.0, 2.0, 1.5
_UNFINISHED = 0.5
_AROUND = 40  # characters of an excerpt on either side


class Hit(NamedTuple):
    """A task that was found. `where` names the parts that match, the best first; `excerpt` shows one of them."""

    task: Task
    score: float
    where: tuple[str, ...]
    excerpt: str = ""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case, in their order."""
    return tuple(_WORD.findall(text.lower()))


def comments(events: Iterable[Event]) -> dict[str, list[str]]:
    """The texts of all comments, by task."""
    notes: dict[str, list[str]] = {}
    for event in events:
        if event.verb == "comment" and event.reason:
            notes.setdefault(event.task, []).append(event.reason)
    return notes


def rank(query: Sequence[str], found: Iterable[tuple[Task, Sequence[str]]], limit: int) -> list[Hit]:
    """The tasks that match all words, each given with its notes; the best first."""
    hits = (hit for task, notes in found if (hit := _hit(query, task, notes)) is not None)
    return sorted(hits, key=lambda hit: (-hit.score, hit.task.finished, hit.task.id, hit.task.scope))[:limit]


def _hit(query: Sequence[str], task: Task, notes: Sequence[str]) -> Hit | None:
    parts = (
        ("id", _ID, (task.id,)),
        ("title", _TITLE, (task.title,)),
        ("labels", _LABEL, (*task.labels, task.category or "")),
        ("description", _DESCRIPTION, (task.description or "", *task.steps)),
        ("notes", _NOTE, notes),
    )
    score, where = _UNFINISHED * (not task.finished), dict[str, float]()
    known = [(name, weight, {word for text in texts for word in words(text)}) for name, weight, texts in parts]
    for word in query:
        scored = [(weight * _fit(word, there), name) for name, weight, there in known]
        best = max(scored)
        if not best[0]:
            return None
        score += sum(each for each, _ in scored)
        for each, name in scored:
            if each:
                where[name] = where.get(name, 0.0) + each
    named = tuple(sorted(where, key=lambda name: -where[name]))
    return Hit(task, round(score, 3), named, _excerpt(query, (task.description or "", *notes)))


def _fit(word: str, there: set[str]) -> float:
    if word in there:
        return _EXACT
    return 1.0 if any(other.startswith(word) for other in there) else 0.0


def _excerpt(query: Sequence[str], texts: Iterable[str]) -> str:
    """The surroundings of the first match in a longer text, on one line."""
    for text in texts:
        for found in _WORD.finditer(text):
            if found[0].lower().startswith(tuple(query)):
                begin, end = max(0, found.start() - _AROUND), found.end() + _AROUND
                middle = " ".join(text[begin:end].split())
                return f"{'…' if begin else ''}{middle}{'…' if end < len(text) else ''}"
    return ""


# Checked, of unit length, and of numbers that 4 bytes hold.
Vector: TypeAlias = "tuple[float, ...]"

_LONGEST = 4096
_PLACES = 6  # the precision of 4 bytes a number
_MANY = 5000  # from here on, numpy saves more time than its import costs


def unit(numbers: Iterable[float]) -> Vector:
    """The vector in its stored form, or InvalidInput."""
    try:
        given = list(map(float, numbers))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("A vector must contain only numbers.") from None
    if not 0 < len(given) <= _LONGEST:
        raise InvalidInput(f"A vector has from 1 to {_LONGEST} numbers, not {len(given)}.")
    largest = max(map(abs, given))
    if not all(map(math.isfinite, given)) or largest == 0:
        raise InvalidInput("A vector must contain finite numbers, and at least one that is not zero.")
    scaled = [number / largest for number in given]  # so that no square is too large or too small for a float
    length = math.hypot(*scaled)
    return unpacked(_form(len(given)).pack(*[number / length for number in scaled]))


def packed(vector: Vector) -> bytes:
    return _form(len(vector)).pack(*vector)


def unpacked(kept: bytes) -> Vector:
    return _form(len(kept) // 4).unpack(kept)


@cache
def _form(length: int) -> struct.Struct:
    return struct.Struct(f"<{length}f")


def refuse_other_length(vector: Vector, kept: int | None) -> None:
    """Vectors of one store are compared with each other; `kept` is the length of those that are there."""
    if kept is not None and len(vector) != kept:
        raise InvalidInput(
            f"This vector has {len(vector)} numbers, the stored ones have {kept}. Use the same model, or delete all "
            "vectors first."
        )


def score(cosine: float) -> float:
    """A cosine, rounded for comparison and output."""
    return round(max(-1.0, min(1.0, cosine)), _PLACES)


def nearest(vector: Vector, kept: Sequence[tuple[str, bytes]], limit: int, least: float) -> list[tuple[str, float]]:
    """The ids of those most like the vector, with their scores; `kept` are ids and packed vectors of its length."""
    cosines = _cosines(vector, b"".join([each for _, each in kept]), len(kept))
    scored = ((task, score(cosine)) for (task, _), cosine in zip(kept, cosines, strict=True))
    return nsmallest(limit, (one for one in scored if one[1] >= least), key=lambda one: (-one[1], one[0]))


def _cosines(vector: Vector, kept: bytes, number: int) -> Iterable[float]:
    if number >= _MANY:
        try:
            return _by_numpy(vector, kept, number)
        except ImportError:
            pass  # slower without numpy, with the same result
    return [sum(map(mul, vector, each)) for each in _form(len(vector)).iter_unpack(kept)]


def _by_numpy(vector: Vector, kept: bytes, number: int) -> list[float]:
    import numpy as np

    matrix = np.frombuffer(kept, "<f4").reshape(number, len(vector)).astype("f8")
    cosines: list[float] = (matrix @ np.array(vector)).tolist()
    return cosines
