"""The labelled set, in the format of the files in dev/ and heldout/."""

import os
from collections.abc import Iterator
from typing import NamedTuple

HALVES = ("dev", "heldout")
_HERE = os.path.dirname(__file__)
_KINDS = {"blocks": "blocks", "feeds": "feeds_into", "parallel": "parallel_ok"}


class Spoken(NamedTuple):
    """`name` is empty for a message without a command."""

    name: str
    targets: tuple[str, ...]
    text: str


class Pair(NamedTuple):
    """`label` is the relation as written in the file, without the '!' and the side."""

    domain: str
    label: str
    said: bool
    dependent: str
    first: str
    second: str

    @property
    def kind(self) -> str:
        """The kind in links; empty where no order is certain."""
        return _KINDS.get(self.label, "")


class Burst(NamedTuple):
    """Tasks by name: (number of the message, kind). Links: (dependent, prerequisite, kind). Same: (name, message)."""

    domain: str
    messages: tuple[str, ...]
    tasks: dict[str, tuple[int, str]]
    links: frozenset[tuple[str, str, str]]
    same: frozenset[tuple[str, int]]


class Pointing(NamedTuple):
    """A phrase for a task, the open titles, and the numbers of the titles it can mean."""

    phrase: str
    titles: tuple[str, ...]
    meant: frozenset[int]


def _lines(half: str, name: str) -> Iterator[str]:
    with open(os.path.join(_HERE, half, f"{name}.txt"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                yield line.rstrip("\n")


def _fields(half: str, name: str, number: int) -> Iterator[list[str]]:
    for line in _lines(half, name):
        if line.strip():
            yield [field.strip() for field in line.split("|", number - 1)]


def commands(half: str) -> list[Spoken]:
    return [
        Spoken("" if name == "-" else name, tuple(one.strip() for one in targets.split(";") if one.strip()), text)
        for name, targets, text in _fields(half, "commands", 3)
    ]


def deliverables(half: str) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in _fields(half, "deliverables", 2)]


def pairs(half: str) -> list[Pair]:
    found = []
    for domain, relation, first, second in _fields(half, "pairs", 4):
        label, _, side = relation.partition(" ")
        found.append(Pair(domain, label.rstrip("!"), label.endswith("!"), side, first, second))
    return found


def bursts(half: str) -> list[Burst]:
    groups: list[list[str]] = [[]]
    for line in _lines(half, "bursts"):
        if line.strip():
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return [_burst(group) for group in groups if group]


def _burst(lines: list[str]) -> Burst:
    messages = tuple(line[2:] for line in lines if line.startswith("> "))
    rest = [line.split() for line in lines[1:] if not line.startswith("> ")]
    return Burst(
        domain=lines[0].removeprefix("@ "),
        messages=messages,
        tasks={row[0]: (int(row[1]), row[2]) for row in rest if row[1].isdigit()},
        links=frozenset((row[0], row[2], _KINDS[row[3]]) for row in rest if row[1] == "<-"),
        same=frozenset((row[0], int(row[2])) for row in rest if row[1] == "="),
    )


def targets(half: str) -> list[Pointing]:
    """'= title' lines are the open tasks; 'phrase | numbers' lines refer to them, until the next list begins."""
    found: list[Pointing] = []
    titles: list[str] = []
    fresh = True
    for line in _lines(half, "targets"):
        if line.startswith("= "):
            titles = [line[2:]] if fresh else [*titles, line[2:]]
            fresh = False
        elif line.strip():
            phrase, _, numbers = line.partition("|")
            found.append(Pointing(phrase.strip(), tuple(titles), frozenset(map(int, numbers.split()))))
            fresh = True
    return found
