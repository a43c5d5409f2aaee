"""The built-in analyst: from messages to tasks, links, merges and questions, by words and vectors. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Analysis, Proposal, Question, Thresholds
from dibs.chat.analyst.deliverables import deliverable
from dibs.chat.analyst.duplicates import find_duplicates
from dibs.chat.analyst.links import explicit, following, settled, suggested
from dibs.chat.analyst.open_tasks import OpenTasks
from dibs.chat.analyst.requests import gather, title
from dibs.chat.analyst.understanding import (
    Titles,
    command_question,
    part_of,
    steers,
    subject,
    understood,
    work_question,
)
from dibs.chat.language.acts import REQUEST, UNCLEAR, Around, coverage, tokens
from dibs.chat.language.cues import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.chat.analyst.analysis import Merge, Message, OpenTask
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.analyst.requests import Gathered, Piece
    from dibs.chat.language.acts import Act


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
        """`known` are the sender's open tasks, `before` their prerequisites: no new link closes a cycle with them."""
        there, texts = Titles([task.title for task in known]), [message.text for message in messages]
        acts = understood(texts, there)
        gathered = gather(messages, [part_of(message, act) for message, act in zip(messages, acts, strict=True)])
        tasks = self._proposals(gathered)
        around = OpenTasks(known, self._embedder)
        told, unclear = explicit(gathered, tasks, around)
        told += following(gathered, tasks)
        merges, doubts = find_duplicates(gathered, tasks, around, told, limits)
        doubts += _said_again(messages, acts, there, known, merges, doubts)
        guessed = suggested(gathered, tasks, around, limits)
        links, conflicts = settled((*told, *guessed), merges, before or {})
        meant = [
            command_question(message, steer, known)
            for message, steer in zip(messages, steers(texts, there, acts), strict=True)
            if steer is not None and message.role is None
        ]
        meant += [
            work_question(message)
            for message, act in zip(messages, acts, strict=True)
            if act.name == UNCLEAR and message.role is None
        ]
        questions = (*meant, *unclear, *doubts, *conflicts)
        return Analysis(without_merged(tasks, merges), links, merges, questions, gathered.idle)

    def _proposals(self, gathered: Gathered) -> list[Proposal]:
        names = titles(gathered)
        vectors = self._embedder.embed(names)
        return [
            Proposal(f"t{number}", name, deliverable(name), piece.messages, _text(piece), vector)
            for number, (piece, name, vector) in enumerate(zip(gathered.pieces, names, vectors, strict=True), 1)
        ]


_SAME = 0.6  # share of a title's words from which a message may repeat the task


def _said_again(
    messages: Sequence[Message],
    acts: Sequence[Act],
    there: Titles,
    known: Sequence[OpenTask],
    merges: Sequence[Merge],
    doubts: Sequence[Question],
) -> tuple[Question, ...]:
    """Ask about requests that name an open task, in any language."""
    settled = {merge.into for merge in merges} | {ref for doubt in doubts for ref in doubt.about}
    found: list[Question] = []
    for message, act in zip(messages, acts, strict=True):
        said = tokens(message.text)
        place = there.likeliest(said) if act.name in (REQUEST, UNCLEAR) else []
        shares = coverage(said, Around(tuple(subject(there.words[number]) for number in place)))
        share, number = max(zip(shares, place, strict=True), default=(0.0, 0), key=lambda one: one[0])
        if share >= _SAME and known[number].id not in settled:
            settled.add(known[number].id)
            text = f'Is "{title(message.text)}" the same as "{known[number].title}"?'
            found.append(Question("duplicate", (known[number].id,), text, "", message.ref))
    return tuple(found)


_POINTS_BACK = re.compile(r"\b(?:it|them|this|that|these|those)\b", re.IGNORECASE)
_FEW = 2  # keywords


def titles(gathered: Gathered) -> list[str]:
    """Titles without cues that found their task. Unresolved cues remain in the title."""
    stems = [piece.words.stems for piece in gathered.pieces]
    found: list[str] = []
    for number, piece in enumerate(gathered.pieces):
        loose = any(not resolve(cue.about, stems, number).pieces for cue in piece.request.cues)
        name = title(piece.request.whole if loose and not piece.request.statement else piece.request.action)
        back = piece.why or (found[-1] if found and len(piece.words.stems) <= _FEW else "")
        if back and _POINTS_BACK.search(name):
            name = title(f"{name} ({back})")
        found.append(name)
    return found


def _text(piece: Piece) -> str:
    return "\n".join((piece.request.whole, *piece.details))


def without_merged(tasks: Sequence[Proposal], merges: Sequence[Merge]) -> tuple[Proposal, ...]:
    """The tasks without the merged ones, whose messages belong to the remaining task."""
    gone = {merge.task.ref for merge in merges}
    more: dict[str, list[str | int]] = {}
    for merge in merges:
        more.setdefault(merge.into, []).extend(merge.task.messages)
    return tuple(
        task._replace(messages=tuple(dict.fromkeys((*task.messages, *more.get(task.ref, ())))))
        for task in tasks
        if task.ref not in gone
    )
