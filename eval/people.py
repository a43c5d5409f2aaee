"""Texts by independent writers, and the chat's scores on them.

Each writer had a persona and nothing else: no rules, no code, no other writer's text. `people/train` may be inspected
and used for training. `people/test` has other writers and is only measured; the documentation quotes no other figures.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.chat.analyst.analysis import Message, OpenTask
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.steering.commands import EVERYTHING, Name
from dibs.chat.steering.preview import Preview, PreviewContext, preview
from eval.measures import Counts, Miss, Note, of_sets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.chat.analyst.embedders import Embedder

SETS = ("train", "test")
_HERE = os.path.join(os.path.dirname(__file__), "people")
_WORK = frozenset({"request", "quote"})
_KINDS = {"blocks": "blocks", "feeds": "feeds_into"}
_ORDERING = frozenset(_KINDS.values())
_QUERIES = frozenset({"plan", "why"})  # they change nothing
_UNNAMED = frozenset({"plan", "undo", "sync"})  # these need no task
_RESAMPLES = 400
_SURE = 0.95


class Command(NamedTuple):
    """A steering command: the number of its message, its name, and its tasks."""

    message: int
    name: str
    targets: tuple[str, ...]


class Burst(NamedTuple):
    """Messages that one person sent within a minute or two, and the expected result.

    Tasks by name: (number of the message, type). Open tasks have the names `open:1`, `open:2`.
    Links are (later, earlier, kind). `merges` are (number of the message, the task that it repeats).
    """

    writer: str
    language: str
    open: tuple[str, ...]
    messages: tuple[str, ...]
    acts: tuple[frozenset[str], ...]
    tasks: dict[str, tuple[int, str]]
    links: frozenset[tuple[str, str, str]]
    commands: tuple[Command, ...]
    merges: tuple[tuple[int, str], ...]
    ask: frozenset[int]
    titles: dict[str, str]  # of the tasks


def bursts(name: str) -> list[Burst]:
    folder = os.path.join(_HERE, name)
    found: list[Burst] = []
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, file), encoding="utf-8") as lines:
            found += [_burst(file.partition(".")[0], json.loads(line)) for line in lines if line.strip()]
    return found


def _burst(writer: str, said: dict[str, object]) -> Burst:
    get: dict[str, list] = said  # type: ignore[assignment, type-arg]  # checked by tests/chat/test_people.py
    return Burst(
        writer,
        str(said["language"]),
        tuple(get["open"]),
        tuple(get["messages"]),
        tuple(map(frozenset, get["acts"])),
        {task["id"]: (task["message"], task["type"]) for task in get["tasks"]},
        frozenset((link["later"], link["earlier"], _KINDS[link["kind"]]) for link in get["links"]),
        tuple(_command(one) for one in get["commands"]),
        tuple((one["message"], one["same_as"]) for one in get["merges"]),
        frozenset(get["ask"]),
        {task["id"]: task.get("title", "") for task in get["tasks"]},
    )


def _command(one: dict[str, Any]) -> Command:
    return Command(one["message"], one["name"], _settled_targets(one["name"], one["targets"]))


def _settled_targets(name: str, targets: Sequence[str]) -> tuple[str, ...]:
    """Sort targets, except for `before`. The plan, undo and sync need none."""
    if name in _UNNAMED:
        return ()
    return tuple(targets) if name == "before" else tuple(sorted(targets))


class Scores(NamedTuple):
    """The counts of one burst. A share has its misses in `missed`."""

    commands: Counts = Counts()
    understood: Counts = Counts()  # commands that were carried out, or confirmed by name and target
    changes: Counts = Counts()  # commands that change tasks: `wrong` ones should not have been carried out
    links: Counts = Counts()
    reversed: Counts = Counts()  # links with the wrong direction, among those found
    number: Counts = Counts()  # bursts with the right number of tasks
    merges: Counts = Counts()
    same: Counts = Counts()  # requests for an open task, merged or asked about
    types: Counts = Counts()  # of tasks found in the right message
    chatter: Counts = Counts()  # messages that ask for no work and made no task

    def __add__(self, other: object) -> Scores:
        assert isinstance(other, Scores)
        return Scores(*(one + two for one, two in zip(self, other, strict=True)))


def scores(burst: Burst, embedder: Embedder, note: Note) -> Scores:
    known = [OpenTask(f"open:{number}", title) for number, title in enumerate(burst.open, 1)]
    messages = [Message(number, text) for number, text in enumerate(burst.messages, 1)]
    found = preview(messages, WordAnalyst(embedder), embedder, PreviewContext(tuple(known)))
    names = _paired(burst, found)
    return Scores(
        *_commands(burst, found, known, embedder, note),
        *_links(burst, found, names),
        Counts(
            right=int(len(found.analysis.tasks) == len(burst.tasks)),
            missed=int(len(found.analysis.tasks) != len(burst.tasks)),
        ),
        of_sets(_merged(found, names), {(message, task) for message, task in burst.merges}),
        _same(burst, found, names),
        _types(burst, found, names),
        _chatter(burst, found, note),
    )


def _paired(burst: Burst, found: Preview) -> dict[str, str]:
    """Names of the labels by refs of the tasks found: the n-th task of a message has its n-th label."""
    wanted: dict[int, list[str]] = {}
    for name, (message, _) in burst.tasks.items():
        wanted.setdefault(message, []).append(name)
    names = {f"open:{number}": f"open:{number}" for number in range(1, len(burst.open) + 1)}
    for task in found.analysis.tasks:
        left = wanted.get(int(task.messages[0]), [])
        names[task.ref] = left.pop(0) if left else f"none:{task.ref}"
    return names


def _commands(
    burst: Burst, found: Preview, known: Sequence[OpenTask], embedder: Embedder, note: Note
) -> tuple[Counts, Counts, Counts]:
    there = OpenTasks(known, embedder)
    carried = set()
    for one in found.commands:
        name, targets = _in_labels(one.command.name, one.command.targets)
        meant = [task.id if (task := find_in(phrase, there).one) else "?" for phrase in targets]
        tasks = _settled_targets(name, meant)
        carried.add((int(one.message), name, tasks))
    wanted = {(one.message, one.name, one.targets) for one in burst.commands}
    # A command without a clear task is answered with a question, so only its name is compared.
    alike = {one for one in carried if "?" in one[2] and any(one[:2] == other[:2] for other in wanted)}
    settled = {next(other for other in wanted if one[:2] == other[:2]) if one in alike else one for one in carried}
    for miss in sorted(settled ^ wanted):
        sides = (miss if miss in settled else None, miss if miss in wanted else None)
        note(Miss(burst.messages[miss[0] - 1], *sides))
    changes = {one for one in settled if one[1] not in _QUERIES and "?" not in one[2]}
    asked = {
        (int(one.message), one.command, _settled_targets(one.command, one.about))
        for one in found.analysis.questions
        if one.kind == "command"
    }
    return (
        of_sets(settled, wanted),
        of_sets(settled | asked, wanted),
        of_sets(changes, {one for one in wanted if one[1] not in _QUERIES}),
    )


def _in_labels(name: Name, targets: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Translate to labels: `after` becomes `before` with exchanged targets, and "everything" is no target.

    The plan, undo and sync ignore their targets.
    """
    targets = [target for target in targets if target != EVERYTHING]
    targets = [] if name in _UNNAMED else targets
    return ("before", targets[::-1]) if name is Name.AFTER else (str(name), targets)


def _links(burst: Burst, found: Preview, names: dict[str, str]) -> tuple[Counts, Counts]:
    links = {
        (names.get(link.task, link.task), names.get(link.on, link.on), str(link.kind))
        for link in found.analysis.links
        if str(link.kind) in _ORDERING
    }
    # Some links of the labels are commands.
    links -= {link for link in links - burst.links if link[1::-1] in _before(burst)}
    backwards = {link for link in links if any(link[:2] == other[1::-1] for other in burst.links)}
    return of_sets(links, burst.links), Counts(right=len(links) - len(backwards), missed=len(backwards))


def _before(burst: Burst) -> set[tuple[str, ...]]:
    return {one.targets for one in burst.commands if one.name == "before"}


def _merged(found: Preview, names: dict[str, str]) -> set[tuple[int, str]]:
    return {(int(one.task.messages[0]), names.get(one.into, one.into)) for one in found.analysis.merges}


def _same(burst: Burst, found: Preview, names: dict[str, str]) -> Counts:
    merged = _merged(found, names)
    asked = {names.get(ref, ref) for one in found.analysis.questions if one.kind == "duplicate" for ref in one.about}
    right = sum((message, task) in merged or task in asked for message, task in burst.merges)
    return Counts(right=right, missed=len(burst.merges) - right)


def _types(burst: Burst, found: Preview, names: dict[str, str]) -> Counts:
    total = Counts()
    for task in found.analysis.tasks:
        if names[task.ref] in burst.tasks:
            right = task.deliverable == burst.tasks[names[task.ref]][1]
            total += Counts(right=int(right), missed=int(not right))
    return total


def _chatter(burst: Burst, found: Preview, note: Note) -> Counts:
    made = {int(task.messages[0]) for task in found.analysis.tasks}
    sources = {message for message, _ in burst.tasks.values()} | {message for message, _ in burst.merges}
    idle = [number for number, acts in enumerate(burst.acts, 1) if not acts & _WORK and number not in sources]
    for number in idle:
        if number in made:
            note(Miss(burst.messages[number - 1], "a task", sorted(burst.acts[number - 1])))
    return Counts(right=sum(number not in made for number in idle), missed=sum(number in made for number in idle))


class Interval(NamedTuple):
    low: float
    high: float


def interval(found: Sequence[Scores], measure: str, value: str) -> Interval:
    """The 95 % interval of a measure, by drawing bursts again."""
    draw = random.Random(7)  # noqa: S311 - the same samples every time
    counts = [getattr(one, measure) for one in found]
    samples = sorted(getattr(sum(draw.choices(counts, k=len(counts)), Counts()), value) for _ in range(_RESAMPLES))
    edge = round(_RESAMPLES * (1 - _SURE) / 2)
    return Interval(samples[edge], samples[-edge - 1])


_ROWS = (
    ("commands carried out: precision", "commands", "precision"),
    ("commands carried out: recall", "commands", "recall"),
    ("commands carried out or asked about: precision", "understood", "precision"),
    ("commands carried out or asked about: recall", "understood", "recall"),
    ("links: F1, kind and direction", "links", "f1"),
    ("links: not reversed", "reversed", "recall"),
    ("bursts with the right number of tasks", "number", "recall"),
    ("merges: precision", "merges", "precision"),
    ("merges: recall", "merges", "recall"),
    ("merges, or asked about: recall", "same", "recall"),
    ("types of tasks in bursts", "types", "recall"),
    ("no task made where none is asked for", "chatter", "recall"),
)


def report(name: str, embedder: Embedder, note: Note) -> Iterator[str]:
    """The table of one set."""
    said = bursts(name)
    found = [scores(burst, embedder, note) for burst in said]
    writers = Counter(burst.writer for burst in said)
    messages = sum(len(burst.messages) for burst in said)
    yield f"people/{name}: {len(writers)} writers, {len(said)} bursts, {messages} messages"
    if not found:
        return
    total = sum(found, Scores())
    for title, measure, value in _ROWS:
        low, high = interval(found, measure, value)
        yield f"  {title:<48}{getattr(getattr(total, measure), value):>7.3f}   {low:.3f} to {high:.3f}"
    yield f"  {'wrong changes carried out':<48}{total.changes.wrong:>7}"
