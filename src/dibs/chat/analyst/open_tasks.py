"""The sender's open tasks, found by words and by meaning."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from dibs.chat.analyst.deliverables import deliverable
from dibs.chat.analyst.duplicates import words_of
from dibs.chat.language.cues import means, telling_words
from dibs.chat.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.analysis import Known, Vector
    from dibs.chat.analyst.duplicates import Words
    from dibs.chat.analyst.embedders import Embedder

NEIGHBOURS = 5  # open tasks that anything is compared with
FARTHEST = 0.35  # below this cosine, tasks are about different things


class OpenTasks:
    def __init__(self, tasks: Sequence[Known], embedder: Embedder) -> None:
        self.tasks = tasks
        self.embedder = embedder
        self._words: dict[str, Words] = {}
        self._found: dict[str, set[int]] = {}
        self._near: dict[Vector, list[tuple[Known, float]]] = {}

    def words(self, task: Known) -> Words:
        if task.id not in self._words:
            self._words[task.id] = words_of(task.title)
        return self._words[task.id]

    def kind(self, task: Known) -> str:
        return task.deliverable or deliverable(task.title)

    def near(self, vector: Vector, least: float) -> list[tuple[Known, float]]:
        """The few closest by meaning, their cosines above `least`; looked for once, for several ask."""
        if vector not in self._near:
            found = self._shelf.above(vector, FARTHEST, NEIGHBOURS)
            self._near[vector] = [(self.tasks[number], angle) for number, angle in found]
        return [one for one in self._near[vector] if one[1] > least]

    def covering(self, phrase: str, least: float) -> list[tuple[Known, float]]:
        """Those that have at least this share of the phrase's words in their title, the fullest first."""
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
    def _shelf(self) -> Shelf:
        bare = [task for task in self.tasks if not task.vector]
        made = dict(zip((task.id for task in bare), self.embedder.embed([task.title for task in bare]), strict=True))
        return Shelf([task.vector or made[task.id] for task in self.tasks])
