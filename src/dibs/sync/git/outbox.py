"""What waits to be published, for any process of the clone to publish."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dibs.sync.git.outcomes import Published
from dibs.sync.git.trees import Blob, by_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    from dibs.sync.git.trees import Places

YOUNG = 3.0  # seconds in which a claim may end, and be published once, with its end
_numbers = count()


class Group(NamedTuple):
    """Paths that are published together or not at all: the old and the new place of a task, with its draft."""

    name: str
    message: str
    paths: tuple[str, ...]
    young_until: float = 0.0  # by the machine's own clock; a claim may be over by then, and is published once
    offered: Mapping[str, Places] = {}  # what the remote was offered in vain, by unit

    @property
    def young(self) -> bool:
        return 0 < self.young_until - time.monotonic() <= YOUNG  # else the machine was started anew since


class Outbox:
    """What is to be published, a file for each group. Any process of the clone may publish it."""

    def __init__(self, home: str) -> None:
        self._folder = os.path.join(home, "outbox")
        os.makedirs(self._folder, exist_ok=True)

    def add(self, message: str, paths: Sequence[str], young_until: float) -> Group:
        name = f"{time.time_ns():020}-{os.getpid()}-{next(_numbers)}.json"
        group = Group(name, message, tuple(paths), young_until)
        self.write(group)
        return group

    def write(self, group: Group) -> None:
        path = os.path.join(self._folder, group.name)
        with open(f"{path}.new", "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(group._asdict(), file)
        os.replace(f"{path}.new", path)

    def all(self) -> list[Group]:
        """In the order in which they were added. A file that a crash left unfinished has another ending."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(".json"):
                with suppress(FileNotFoundError), self._open(name) as file:
                    said = json.load(file)
                    offered = {unit: _places(places) for unit, places in said["offered"].items()}
                    found.append(Group(**{**said, "paths": tuple(said["paths"]), "offered": offered}))
        return found

    def _open(self, name: str) -> TextIO:
        return open(os.path.join(self._folder, name), encoding="utf-8", errors="surrogateescape")

    def remove(self, groups: Iterable[Group]) -> None:
        for group in groups:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, group.name))

    def refuse(self, groups: Iterable[Group]) -> None:
        """Leave word for the process that added them."""
        for group in groups:
            path = os.path.join(self._folder, group.name)
            with suppress(FileNotFoundError):
                os.replace(path, f"{path}.refused")

    def fate(self, group: Group) -> Published:
        """What has become of it; a refusal is told once."""
        path = os.path.join(self._folder, group.name)
        if os.path.exists(path):
            return Published.OFFLINE
        try:
            os.unlink(f"{path}.refused")
        except FileNotFoundError:
            return Published.ACCEPTED
        return Published.REFUSED

    def __bool__(self) -> bool:
        return any(name.endswith(".json") for name in os.listdir(self._folder))


def _places(said: Mapping[str, Sequence[str]]) -> dict[str, Blob]:
    return {path: Blob(*blob) for path, blob in said.items()}


def connected(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that share a task are judged together, each other one for itself."""
    found: list[tuple[set[str], list[Group]]] = []
    for group in groups:
        units = set(by_unit(group.paths))
        shared = [one for one in found if one[0] & units]
        found = [one for one in found if not one[0] & units]
        joined = sorted([*(one for _, several in shared for one in several), group], key=lambda one: one.name)
        found.append((units.union(*(some for some, _ in shared)), joined))
    return [several for _, several in found]


def message_of(groups: Sequence[Group]) -> str:
    """The first line says what happened, or how much; the rest has a line for each."""
    said = list(dict.fromkeys(group.message for group in groups))
    if len(said) == 1:
        return said[0]
    return "\n".join((f"{said[0]}, and {len(said) - 1} more", "", *said)) if said else "dibs"
