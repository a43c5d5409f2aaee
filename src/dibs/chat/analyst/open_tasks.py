"""The sender's open tasks: an index of their words and vectors, and the search for the task that a phrase names.

`VectorIndex` compares one vector with many without numpy. It rounds each number to a byte and packs the same
coordinate of all vectors into one long integer, with 32 bits for each vector. One multiplication of Python integers
then processes a coordinate of all vectors. This is a hundred times faster than a loop and exact to two digits; the
closest vectors are then compared exactly.
"""

from __future__ import annotations

from array import array
from collections import Counter
from functools import cached_property
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.deliverables import deliverable
from dibs.chat.analyst.duplicates import words_of
from dibs.chat.analyst.embedders import cosine
from dibs.chat.language.cues import means, telling_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.analysis import OpenTask, Vector
    from dibs.chat.analyst.duplicates import Words
    from dibs.chat.analyst.embedders import Embedder


_HALF = 128  # added to each signed byte, so that no field borrows from the next
_STEPS = 127
_UNSURE = 0.04  # upper limit of the cosine's rounding error
_SPARE = 60  # further candidates that are compared exactly


class VectorIndex:
    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._vectors = vectors
        columns = list(zip(*vectors, strict=True)) if vectors else []
        self._used = [number for number, column in enumerate(columns) if any(column)]
        self._scale = _STEPS / max((max(map(abs, columns[number])) for number in self._used), default=1.0)
        self._columns: list[int] = []
        self._sums = [0] * len(vectors)
        for number in self._used:
            self._add([round(value * self._scale) for value in columns[number]])

    def _add(self, column: list[int]) -> None:
        self._sums = list(map(int.__add__, self._sums, column))
        self._columns.append(int.from_bytes(array("I", [value + _HALF for value in column]).tobytes(), "little"))

    def above(self, vector: Vector, least: float, most: int) -> list[tuple[int, float]]:
        """Up to `most` vectors with a cosine above `least`, the closest first."""
        rough = self._rough(vector)
        near = [number for number, value in enumerate(rough) if value > least - _UNSURE]
        if len(near) > most:
            last = nlargest(most, (rough[number] for number in near))[-1]
            near = [number for number in near if rough[number] >= last - 2 * _UNSURE][: most + _SPARE]
        exact = [(number, cosine(vector, self._vectors[number])) for number in near]
        return sorted((one for one in exact if one[1] > least), key=lambda one: (-one[1], one[0]))[:most]

    def _rough(self, vector: Vector) -> list[float]:
        if not self._columns:
            return [0.0] * len(self._vectors)
        scale = _STEPS / max(1e-9, *(abs(vector[number]) for number in self._used))
        asked = [round(vector[number] * scale) for number in self._used]
        total = sum(map(int.__mul__, self._columns, [value + _HALF for value in asked]))
        fields = array("I", total.to_bytes(4 * len(self._vectors), "little"))
        # (q + h)(c + h) = qc + hc + hq + hh, summed over the columns
        known = _HALF * sum(asked) + _HALF * _HALF * len(asked)
        both = scale * self._scale
        return [(field - known - _HALF * own) / both for field, own in zip(fields, self._sums, strict=True)]


NEIGHBOURS = 5  # open tasks that each text is compared with
FARTHEST = 0.35  # below this cosine, tasks have different subjects


class OpenTasks:
    def __init__(self, tasks: Sequence[OpenTask], embedder: Embedder) -> None:
        self.tasks = tasks
        self.embedder = embedder
        self._words: dict[str, Words] = {}
        self._found: dict[str, set[int]] = {}
        self._near: dict[Vector, list[tuple[OpenTask, float]]] = {}

    def words(self, task: OpenTask) -> Words:
        if task.id not in self._words:
            self._words[task.id] = words_of(task.title)
        return self._words[task.id]

    def kind(self, task: OpenTask) -> str:
        return task.deliverable or deliverable(task.title)

    def near(self, vector: Vector, least: float) -> list[tuple[OpenTask, float]]:
        """The few closest tasks with a cosine above `least`, cached for repeated calls."""
        if vector not in self._near:
            found = self._index.above(vector, FARTHEST, NEIGHBOURS)
            self._near[vector] = [(self.tasks[number], angle) for number, angle in found]
        return [one for one in self._near[vector] if one[1] > least]

    def covering(self, phrase: str, least: float) -> list[tuple[OpenTask, float]]:
        """Tasks whose title contains at least this share of the phrase's words, best first."""
        telling = telling_words(phrase)
        found = Counter(number for word in telling for number in self._having(word))
        shares = [(self.tasks[number], count / len(telling)) for number, count in sorted(found.items())]
        return sorted((one for one in shares if one[1] >= least), key=lambda one: -one[1])

    def _having(self, word: str) -> set[int]:
        if word not in self._found:
            stems = [stem for stem in self._by_stem if means(word, stem)]
            self._found[word] = {number for stem in stems for number in self._by_stem[stem]}
        return self._found[word]

    @cached_property
    def _by_stem(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, task in enumerate(self.tasks):
            for stem in self.words(task).stems:
                found.setdefault(stem, []).append(number)
        return found

    @cached_property
    def _index(self) -> VectorIndex:
        bare = [task for task in self.tasks if not task.vector]
        made = dict(zip((task.id for task in bare), self.embedder.embed([task.title for task in bare]), strict=True))
        return VectorIndex([task.vector or made[task.id] for task in self.tasks])


class TaskMatch(NamedTuple):
    """The tasks that a phrase may mean: none, one, or several to choose from."""

    tasks: tuple[OpenTask, ...]

    @property
    def one(self) -> OpenTask | None:
        return self.tasks[0] if len(self.tasks) == 1 else None


_ALL_WORDS = 1.0
_SOME_WORDS = 0.5
_MEANING = 0.45  # least cosine of a match without common words
_CLEAR = 0.12  # least distance between the closest match and the next one


def find(phrase: str, tasks: Sequence[OpenTask], embedder: Embedder) -> TaskMatch:
    return find_in(phrase, OpenTasks(tasks, embedder))


def find_in(phrase: str, tasks: OpenTasks) -> TaskMatch:
    """The task that the phrase names: by id, else by most common words, else by meaning."""
    for task in tasks.tasks:
        if phrase in (task.id, task.title) or phrase.lower() == task.title.lower():
            return TaskMatch((task,))
    by_words = tasks.covering(phrase, _SOME_WORDS)
    if by_words:
        fullest = [task for task, share in by_words if share == by_words[0][1]]
        return _clearest(phrase, fullest, tasks, sure=by_words[0][1] == _ALL_WORDS)
    return _by_meaning(phrase, tasks)


def _clearest(phrase: str, fitting: list[OpenTask], tasks: OpenTasks, *, sure: bool) -> TaskMatch:
    if len(fitting) == 1:
        return TaskMatch(tuple(fitting)) if sure or _agrees(phrase, fitting[0], tasks) else TaskMatch(())
    return TaskMatch(tuple(fitting[:NEIGHBOURS]))


def _agrees(phrase: str, task: OpenTask, tasks: OpenTasks) -> bool:
    """Whether the meaning confirms a match by only some of the words."""
    vector = tasks.embedder.embed([phrase])[0]
    return any(near.id == task.id for near, _ in tasks.near(vector, _MEANING))


def _by_meaning(phrase: str, tasks: OpenTasks) -> TaskMatch:
    near = tasks.near(tasks.embedder.embed([phrase])[0], _MEANING)
    rivals = [task for task, angle in near if angle > near[0][1] - _CLEAR]
    return TaskMatch(tuple(rivals))
