"""Scores of the analyst: found, missed and wrong results of each measure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from dibs.chat.analyst.analysis import Analysis, Message, OpenTask, Thresholds
from dibs.chat.analyst.deliverables import deliverable
from dibs.chat.analyst.embedders import Embedder
from dibs.chat.analyst.open_tasks import find
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.language.words import keywords
from dibs.chat.steering.commands import parse
from eval import reading

_ORDERING = ("blocks", "feeds_into")


class Counts(NamedTuple):
    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: object) -> "Counts":
        assert isinstance(other, Counts)
        return Counts(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def of_sets(found: Iterable[object], wanted: Iterable[object]) -> Counts:
    found, wanted = set(found), set(wanted)
    return Counts(len(found & wanted), len(found - wanted), len(wanted - found))


class Miss(NamedTuple):
    """One error, shown only for the half that may be inspected."""

    what: str
    found: object
    wanted: object


Note = Callable[[Miss], None]


def commands(half: str, note: Note) -> Counts:
    total = Counts()
    for spoken in reading.commands(half):
        command = parse(spoken.text)
        found = {(command.name, _stems(command.targets))} if command else set()
        wanted = {(spoken.name, _stems(spoken.targets))} if spoken.name else set()
        total += of_sets(found, wanted)
        if found != wanted:
            note(Miss(spoken.text, found, wanted))
    return total


def _stems(targets: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(("everything",) if one.lower() in {"all", "everything"} else tuple(keywords(one)) for one in targets)


def deliverables(half: str, note: Note) -> Counts:
    total = Counts()
    for kind, text in reading.deliverables(half):
        found = deliverable(text)
        total += of_sets({found}, {kind})
        if found != kind:
            note(Miss(text, found, kind))
    return total


def pointed(half: str, embedder: Embedder, note: Note) -> tuple[Counts, Counts]:
    """Whether a phrase finds its task; and whether an unclear or unknown one finds none."""
    one, unclear = Counts(), Counts()
    for pointing in reading.targets(half):
        tasks = [OpenTask(str(number), title) for number, title in enumerate(pointing.titles, 1)]
        found = frozenset(int(task.id) for task in find(pointing.phrase, tasks, embedder).tasks)
        right = found == pointing.meant
        alone = len(pointing.meant) == 1
        one += Counts(int(right and alone), int(len(found) == 1 and not right), int(alone and not right))
        unclear += Counts(int(right and not alone), 0, int(not right and not alone))
        if not right:
            note(Miss(pointing.phrase, found, pointing.meant))
    return one, unclear


class PairCounts(NamedTuple):
    """`said` counts links by wording with the right kind and direction, `order` those with the right direction.

    `guessed` counts links without wording, `asked` needed and needless questions.
    """

    said: Counts = Counts()
    order: Counts = Counts()
    guessed: Counts = Counts()
    same: Counts = Counts()
    asked: Counts = Counts()


def pairs(half: str, embedder: Embedder, thresholds: Thresholds, note: Note) -> PairCounts:
    total = PairCounts()
    for pair in reading.pairs(half):
        analysis = _analysed((pair.first, pair.second), embedder, thresholds)
        said = _links(analysis, "explicit")
        guessed = {link for link in _links(analysis, "inferred", "semantic") if link[2] in _ORDERING}
        wanted = _wanted(pair)
        merged = {"same"} if analysis.merges else set()
        asked = any(question.kind == "duplicate" for question in analysis.questions)
        counts = PairCounts(
            of_sets(said, wanted if pair.said else ()),
            of_sets({link[:2] for link in said}, {link[:2] for link in wanted} if pair.said else ()),
            of_sets(guessed, () if pair.said else wanted),
            of_sets(merged, {"same"} if pair.label == "duplicate" else ()),
            Counts(int(asked and pair.label == "duplicate"), int(asked and pair.label != "duplicate")),
        )
        total = PairCounts(*(old + new for old, new in zip(total, counts, strict=True)))
        if any(count.wrong or count.missed for count in counts[:4]):
            note(Miss(f"{pair.first} | {pair.second}", (said, guessed, merged), (pair.label, wanted)))
    return total


def _wanted(pair: reading.Pair) -> set[tuple[int, int, str]]:
    if pair.label == "parallel":
        return {(1, 2, pair.kind)}
    ends = {"a": (1, 2), "b": (2, 1)}.get(pair.dependent)
    return {(*ends, pair.kind)} if ends else set()


def _analysed(messages: Iterable[str], embedder: Embedder, thresholds: Thresholds) -> Analysis:
    numbered = [Message(number, text) for number, text in enumerate(messages, 1)]
    return WordAnalyst(embedder).analyse(numbered, limits=thresholds)


def _links(analysis: Analysis, *detected: str) -> set[tuple[int, int, str]]:
    """Links between message numbers. Links for parallel work have no direction."""
    number = {task.ref: task.messages[0] for task in analysis.tasks}
    found = set()
    for link in analysis.links:
        if link.detected_by in detected:
            ends = (int(number[link.task]), int(number[link.on]))
            found.add((*(sorted(ends) if link.kind == "parallel_ok" else ends), str(link.kind)))
    return found


class BurstCounts(NamedTuple):
    tasks: Counts = Counts()
    kinds: Counts = Counts()
    links: Counts = Counts()
    order: Counts = Counts()
    same: Counts = Counts()


def bursts(half: str, embedder: Embedder, thresholds: Thresholds, note: Note) -> BurstCounts:
    total = BurstCounts()
    for burst in reading.bursts(half):
        counts = _burst(burst, _analysed(burst.messages, embedder, thresholds), note)
        total = BurstCounts(*(old + new for old, new in zip(total, counts, strict=True)))
    return total


def _burst(burst: reading.Burst, analysis: Analysis, note: Note) -> BurstCounts:
    names = dict(zip(burst.tasks, _places(m for m, _ in burst.tasks.values()), strict=True))
    places = _places(task.messages[0] for task in analysis.tasks)
    refs = {task.ref: place for task, place in zip(analysis.tasks, places, strict=True)}
    links = {(refs[link.task], refs[link.on], str(link.kind)) for link in analysis.links if str(link.kind) in _ORDERING}
    wanted = {(names[task], names[on], kind) for task, on, kind in burst.links}
    kinds = {(refs[task.ref], task.deliverable) for task in analysis.tasks}
    known = {(names[name], kind) for name, (_, kind) in burst.tasks.items()}
    merged = {(refs[merge.into], merge.task.messages[0]) for merge in analysis.merges}
    counts = BurstCounts(
        of_sets(refs.values(), names.values()),
        of_sets(kinds, known),
        of_sets(links, wanted),
        of_sets({link[:2] for link in links}, {link[:2] for link in wanted}),
        of_sets(merged, {(names[name], message) for name, message in burst.same}),
    )
    if any(count.wrong or count.missed for count in counts):
        note(Miss(" / ".join(burst.messages), (sorted(kinds), links, merged), (sorted(known), wanted)))
    return counts


def _places(messages: Iterable[str | int]) -> list[tuple[int, int]]:
    """Tasks as (message, number of earlier tasks from that message)."""
    seen: dict[int, int] = {}
    found = []
    for message in messages:
        seen[int(message)] = seen.get(int(message), -1) + 1
        found.append((int(message), seen[int(message)]))
    return found


def alike(half: str, embedder: Embedder, thresholds: Thresholds) -> Counts:
    """Whether linked or merged tasks have the same subject."""
    total = Counts()
    for pair in reading.pairs(half):
        if pair.label in {"related", "none", "duplicate"}:
            analysis = _analysed((pair.first, pair.second), embedder, thresholds)
            found = {"alike"} if analysis.links or analysis.merges else set()
            total += of_sets(found, set() if pair.label == "none" else {"alike"})
    return total
