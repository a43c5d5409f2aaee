"""The built-in analyst: from a batch of messages to tasks, links, merges and questions, by words and vectors. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Analysis, Proposal, Thresholds
from dibs.chat.analyst.deliverables import deliverable
from dibs.chat.analyst.duplicates import find_duplicates
from dibs.chat.analyst.links import explicit, settled, suggested
from dibs.chat.analyst.open_tasks import OpenTasks
from dibs.chat.analyst.requests import gather, title
from dibs.chat.language.cues import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.chat.analyst.analysis import Merge, Message, OpenTask
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.analyst.requests import Gathered, Piece


class WordAnalyst:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def analyse(
        self,
        messages: Sequence[Message],
        known: Sequence[OpenTask] = (),
        before: Mapping[str, Iterable[str]] | None = None,
        limits: Thresholds = Thresholds(),  # noqa: B008 - frozen
    ) -> Analysis:
        """`known` are the sender's open tasks, `before` what each of them waits for: no link closes a cycle with it."""
        gathered = gather(messages)
        tasks = self._proposals(gathered)
        around = OpenTasks(known, self._embedder)
        told, unclear = explicit(gathered, tasks, around)
        merges, doubts = find_duplicates(gathered, tasks, around, told, limits)
        guessed = suggested(gathered, tasks, around, limits)
        links, conflicts = settled((*told, *guessed), merges, before or {})
        return Analysis(without_merged(tasks, merges), links, merges, (*unclear, *doubts, *conflicts), gathered.idle)

    def _proposals(self, gathered: Gathered) -> list[Proposal]:
        titles = _titles(gathered)
        vectors = self._embedder.embed(titles)
        return [
            Proposal(f"t{number}", name, deliverable(name), piece.messages, _text(piece), vector)
            for number, (piece, name, vector) in enumerate(zip(gathered.pieces, titles, vectors, strict=True), 1)
        ]


_POINTS_BACK = re.compile(r"\b(?:it|them|this|that|these|those)\b", re.IGNORECASE)
_FEW = 2  # telling words


def _titles(gathered: Gathered) -> list[str]:
    """What a cue tied to another task need not be in the title; what it could not be tied to has to stay."""
    stems = [piece.words.stems for piece in gathered.pieces]
    titles: list[str] = []
    for number, piece in enumerate(gathered.pieces):
        loose = any(not resolve(cue.about, stems, number).pieces for cue in piece.request.cues)
        name = title(piece.request.whole if loose and not piece.request.statement else piece.request.action)
        back = piece.why or (titles[-1] if titles and len(piece.words.stems) <= _FEW else "")
        if back and _POINTS_BACK.search(name):
            name = title(f"{name} ({back})")
        titles.append(name)
    return titles


def _text(piece: Piece) -> str:
    return "\n".join((piece.request.whole, *piece.details))


def without_merged(tasks: Sequence[Proposal], merges: Sequence[Merge]) -> tuple[Proposal, ...]:
    """Without those that were merged, whose messages the task they were merged into has too."""
    gone = {merge.task.ref for merge in merges}
    more: dict[str, list[str | int]] = {}
    for merge in merges:
        more.setdefault(merge.into, []).extend(merge.task.messages)
    return tuple(
        task._replace(messages=tuple(dict.fromkeys((*task.messages, *more.get(task.ref, ())))))
        for task in tasks
        if task.ref not in gone
    )
