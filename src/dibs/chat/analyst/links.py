"""Links between new tasks, and between new and open tasks: first by their wording, then by types and vectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Question, Relation
from dibs.chat.analyst.duplicates import about_the_same, shared_words
from dibs.chat.analyst.embedders import cosine
from dibs.chat.analyst.open_tasks import FARTHEST, find_in
from dibs.chat.language.cues import PREVIOUS, resolve, takes_up
from dibs.core.graph import path_between
from dibs.core.task import STRENGTH, LinkKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.chat.analyst.analysis import Merge, OpenTask, Proposal, Thresholds
    from dibs.chat.analyst.duplicates import Words
    from dibs.chat.analyst.open_tasks import OpenTasks
    from dibs.chat.analyst.requests import Gathered
    from dibs.chat.language.cues import Cue

_ORDERING = frozenset({LinkKind.BLOCKS, LinkKind.FEEDS_INTO})

# (first type, second type) → kind of link, if both tasks have the same subject
_BY_KIND: dict[tuple[str, str], LinkKind] = {
    ("research", "strategy"): LinkKind.FEEDS_INTO,
    ("research", "analysis"): LinkKind.FEEDS_INTO,
    ("research", "content"): LinkKind.FEEDS_INTO,
    ("research", "code"): LinkKind.FEEDS_INTO,
    ("analysis", "strategy"): LinkKind.FEEDS_INTO,
    ("analysis", "content"): LinkKind.FEEDS_INTO,
    ("analysis", "code"): LinkKind.BLOCKS,
    ("code", "testing"): LinkKind.BLOCKS,
}


def explicit(gathered: Gathered, tasks: Sequence[Proposal], around: OpenTasks) -> tuple[list[Relation], list[Question]]:
    """Links from the cues, and questions about cues that fit several open tasks."""
    stems = [piece.words.stems for piece in gathered.pieces]
    links: list[Relation] = []
    questions: list[Question] = []
    for own, cue in gathered.told:
        meant = resolve(cue.about, stems, own)
        if meant.pieces:
            links += [_told(tasks[own].ref, tasks[other].ref, cue, meant.confidence) for other in meant.pieces]
        elif cue.about != PREVIOUS and cue.kind in _ORDERING:
            found = find_in(cue.about, around).tasks
            links += [_told(tasks[own].ref, found[0].id, cue, _OPEN)] if len(found) == 1 else []
            questions += [_which(tasks[own], cue, found)] if len(found) > 1 else []
    return links, questions


_FOLLOWING = 0.8


def following(gathered: Gathered, tasks: Sequence[Proposal]) -> Iterator[Relation]:
    """Links of messages that continue an earlier one, in any language: "danach …", "à partir de ça …"."""
    tied = {own for own, _ in gathered.told}
    for number, piece in enumerate(gathered.pieces[1:], 1):
        before = gathered.pieces[number - 1]
        if number in tied or before.messages[0] == piece.messages[0]:
            continue
        if cue := takes_up(piece.request.whole):
            yield Relation(
                tasks[number].ref, tasks[number - 1].ref,
                following_kind(tasks[number - 1].deliverable, tasks[number].deliverable), 1.0, _FOLLOWING, "explicit",
                f'because of "{cue}"',
            )  # fmt: skip


def following_kind(earlier: str, later: str) -> LinkKind:
    """Kind of link between two tasks of these types if one follows the other."""
    gates = earlier in ("code", "testing") or (earlier, later) == ("ops", "ops")
    return LinkKind.BLOCKS if gates else LinkKind.FEEDS_INTO


_OPEN = 0.85  # least share of a reference's words in an open task's title


def _told(own: str, other: str, cue: Cue, confidence: float) -> Relation:
    task, on = (own, other) if cue.waits else (other, own)
    return Relation(task, on, cue.kind, 1.0, round(confidence, 3), "explicit", f'because of "{cue.said}"')


def _which(task: Proposal, cue: Cue, found: Sequence[OpenTask]) -> Question:
    titles = "; ".join(f"{one.title} ({one.id})" for one in found)
    return Question("which", (task.ref, *(one.id for one in found)), f'"{cue.about}": which one? {titles}')


def suggested(
    gathered: Gathered, tasks: Sequence[Proposal], around: OpenTasks, limits: Thresholds
) -> Iterator[Relation]:
    """Links without a cue: by the order of types on the same subject, and by similarity."""
    words = [piece.words for piece in gathered.pieces]
    yield from _acted_on(gathered, tasks)
    for later, task in enumerate(tasks):
        for earlier in range(later):
            angle = cosine(task.vector, tasks[earlier].vector)
            mine = (task.ref, task.deliverable, words[later])
            theirs = (tasks[earlier].ref, tasks[earlier].deliverable, words[earlier])
            yield from _between(mine, theirs, angle, limits)
        for known, angle in around.near(task.vector, FARTHEST):
            yield from _between(
                (task.ref, task.deliverable, words[later]),
                (known.id, around.kind(known), around.words(known)),
                angle,
                limits,
            )


_ACTS_ON = re.compile(
    r"\w+(?: (?:up|out|in|off|on|down|over|through|for|with|to|at))?"
    r" (?:it|them|em|those|these|that|both)\b(?! \w+ing\b)",
    re.IGNORECASE,
)


def _acted_on(gathered: Gathered, tasks: Sequence[Proposal]) -> Iterator[Relation]:
    """Links of tasks that act on an earlier task's result: "Collect the water." "Filter it"."""
    for number, piece in enumerate(gathered.pieces[1:], 1):
        first, then = tasks[number - 1], tasks[number]
        if _ACTS_ON.match(piece.request.action) and not piece.details:
            kind = _BY_KIND.get((first.deliverable, then.deliverable), LinkKind.BLOCKS)
            evidence = f"because it mentions the result of '{first.title}'"
            yield Relation(then.ref, first.ref, kind, _INFERRED, _INFERRED, "inferred", evidence)


def _between(
    mine: tuple[str, str, Words], theirs: tuple[str, str, Words], angle: float, limits: Thresholds
) -> Iterator[Relation]:
    for (later, after, text), (first, before, other) in ((mine, theirs), (theirs, mine)):
        kind = _BY_KIND.get((before, after))
        # A very close vector is enough. A less close one also needs common keywords.
        near = angle > limits.high or (angle > FARTHEST and about_the_same(text, other) == 1)
        if kind is not None and near:
            shared = ", ".join(shared_words(text, other)) or "the same subject"
            how = "semantic" if angle > limits.high else "inferred"
            evidence = f"because {before} comes before {after}, and both are about {shared}"
            yield Relation(later, first, kind, _round(angle), _round(max(angle, _INFERRED)), how, evidence)
            return
    if angle > limits.medium:
        evidence = f"because they are similar ({angle:.2f}), and neither has to come first"
        yield Relation(mine[0], theirs[0], LinkKind.PARALLEL_OK, _round(angle), _round(angle), "semantic", evidence)


_INFERRED = 0.6


def _round(value: float) -> float:
    return round(max(0.0, min(1.0, value)), 3)


def settled(
    links: Iterable[Relation], merges: Sequence[Merge], before: Mapping[str, Iterable[str]]
) -> tuple[tuple[Relation, ...], tuple[Question, ...]]:
    """One link for each pair, without cycles. Stated links win over inferred ones, then higher confidence wins."""
    moved = {merge.task.ref: merge.into for merge in merges}
    graph = {task: set(others) for task, others in before.items()}
    kept: dict[frozenset[str], Relation] = {}
    conflicts: list[Question] = []
    for link in sorted((_redirected(link, moved) for link in links), key=_rank):
        pair = frozenset((link.task, link.on))
        if len(pair) == 1 or pair in kept:
            continue
        if link.kind in _ORDERING and path_between(graph, link.on, link.task) is not None:
            conflicts += [_conflict(link)] if link.detected_by == "explicit" else []
            continue
        kept[pair] = link
        if link.kind in _ORDERING:
            graph.setdefault(link.task, set()).add(link.on)
    return tuple(sorted(kept.values(), key=lambda link: (link.task, link.on))), tuple(conflicts)


def _redirected(link: Relation, moved: Mapping[str, str]) -> Relation:
    return link._replace(task=moved.get(link.task, link.task), on=moved.get(link.on, link.on))


def _rank(link: Relation) -> tuple[bool, int, float, str, str]:
    """Sort key: stated links first, then stronger kinds, then higher confidence."""
    return (link.detected_by != "explicit", -STRENGTH[link.kind], -link.confidence, link.task, link.on)


def _conflict(link: Relation) -> Question:
    text = f"{link.task} should wait for {link.on} ({link.evidence}), but that waits for it already. Which comes first?"
    return Question("conflict", (link.task, link.on), text)
