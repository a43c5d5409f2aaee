"""Changes that wait to be published by any process of the clone, and the outcomes of publishing."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dibs.stores.vault.places import FINISHED
from dibs.sync.git import folder
from dibs.sync.git.repository import Blob, by_unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from dibs.sync.git.claims import Claim
    from dibs.sync.git.folder import Found, Made
    from dibs.sync.git.history import Refs
    from dibs.sync.git.repository import Difference, Places


class Published(StrEnum):
    ACCEPTED = "accepted"  # the remote has it
    REFUSED = "refused"  # another clone was first: the folder has the remote's version now
    OFFLINE = "offline"  # the remote was not reached: the change is only in this folder, and may be undone


class Pulled(NamedTuple):
    """The result of a pull. Paths are relative to the vault."""

    reached: bool  # False: the remote was not reached, and nothing has changed
    changed: bool = False
    dropped: tuple[str, ...] = ()  # local changes that gave way to the remote's version
    set_aside: tuple[str, ...] = ()  # copies of text that people wrote and the remote's version replaced


class Standing(NamedTuple):
    """The state of a clone, as known without asking the remote."""

    branch: str
    remote: str
    ahead: int = 0  # commits by people that the remote lacks
    behind: int = 0  # commits of the remote that are not in the folder
    unpublished: tuple[str, ...] = ()  # finished or released here, and not at the remote yet
    trouble: str | None = None  # why nothing can be pulled or published, and the remedy


class Flushed(NamedTuple):
    """The result of publishing."""

    reached: bool  # False: the remote was not reached, and everything still waits
    published: tuple[Group, ...] = ()
    refused: tuple[Group, ...] = ()  # the remote had a later state, which the folder has now


class Offer(NamedTuple):
    """The remote's answer to a claim, with the holder of the task if known."""

    outcome: Published
    claim: Claim
    holder: Claim | None = None


class Judged(NamedTuple):
    """Groups that can be part of the next commit."""

    changes: Mapping[str, Difference]
    made: Mapping[str, Made]


class Batch(NamedTuple):
    """One push."""

    commit: str | None  # None: nothing has to be pushed
    refs: Refs
    groups: tuple[Group, ...] = ()
    units: frozenset[str] = frozenset()
    made: Mapping[str, Made] = {}
    ended: tuple[Claim, ...] = ()


YOUNG = 3.0  # seconds for which a claim waits, to be published together with its end
_numbers = count()


class Group(NamedTuple):
    """Paths that are published together or not at all: a task's old and new place, and its draft."""

    name: str
    message: str
    paths: tuple[str, ...]
    young_until: float = 0.0  # by the machine's monotonic clock
    offered: Mapping[str, Places] = {}  # the state of an earlier, failed try, by unit

    @property
    def young(self) -> bool:
        return 0 < self.young_until - time.monotonic() <= YOUNG  # else the machine has restarted since


class Outbox:
    """The waiting groups, one file each."""

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
        """In order of addition. A file left unfinished by a crash has another suffix."""
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
        """Record a refusal for the process that added the groups."""
        for group in groups:
            path = os.path.join(self._folder, group.name)
            with suppress(FileNotFoundError):
                os.replace(path, f"{path}.refused")

    def fate(self, group: Group) -> Published:
        """The outcome of a group. A refusal is returned once."""
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
    """Groups joined by shared tasks: these are published or refused together."""
    found: list[tuple[set[str], list[Group]]] = []
    for group in groups:
        units = set(by_unit(group.paths))
        shared = [one for one in found if one[0] & units]
        found = [one for one in found if not one[0] & units]
        joined = sorted([*(one for _, several in shared for one in several), group], key=lambda one: one.name)
        found.append((units.union(*(some for some, _ in shared)), joined))
    return [several for _, several in found]


def message_of(groups: Sequence[Group]) -> str:
    """A commit message: a summary, then a line per group."""
    said = list(dict.fromkeys(group.message for group in groups))
    if len(said) == 1:
        return said[0]
    return "\n".join((f"{said[0]}, and {len(said) - 1} more", "", *said)) if said else "dibs"


# Checks whether a change in the folder may be published


def after(changes: Mapping[str, Difference], units: Mapping[str, Places], path: str) -> Places:
    """The files of a path's unit after the changes."""
    unit = unit_of(path)
    return changes[unit].after if unit in changes else units.get(unit, {})


def only(places: Places, path: str) -> Places:
    """The file at this path, if any."""
    return {path: places[path]} if path in places else {}


def new_tasks(changed: Sequence[Found]) -> list[Found]:
    """Files that a person wrote under the name of a task that has moved on here. They are not published with it."""
    files = [(one.path, one.data) for one in changed if not one.link]
    new = [file for file in files if folder.is_new_task(file, [other for other in files if other != file])]
    return [one for one in changed if (one.path, one.data) in new]


def beside_finished(changed: Sequence[Found], found: Sequence[Found]) -> bool:
    """Whether one file of this name has changed, and the others are finished tasks that had the name before."""
    (one, *more), others = changed, [other for other in found if other not in changed]
    task = folder.identity((one.path, one.data))
    return not more and all(
        other.path.partition("/")[0] in FINISHED and folder.identity((other.path, other.data)) != task
        for other in others
    )


def changed_since_try(
    several: Sequence[Group], made: Mapping[str, Made], goes_on: Callable[[Sequence[Found], Places], bool]
) -> bool:
    """Whether the remote or a person has changed these tasks since an earlier try. Their holder may have."""
    offered = {unit: places for group in several for unit, places in group.offered.items() if unit in made}
    if any(made[unit].after != places and not goes_on(made[unit].found, places) for unit, places in offered.items()):
        return True
    newest = several[-1].paths[-1] if several[-1].paths else None
    unchanged = all(one.before == one.after for one in made.values())
    return newest is not None and unchanged and newest not in made[unit_of(newest)].after


def changed_files(made: Made) -> list[Found]:
    """The files of a unit that differ from the published state."""
    return [one for one in made.found if made.after.get(one.path) != made.before.get(one.path)]


def claim_of(made: Made, claims: Mapping[str, Claim]) -> Claim | None:
    found = (claims.get(folder.identity((one.path, one.data))) for one in changed_files(made))
    return next((claim for claim in found if claim is not None), None)


def spent(made: Made, claim: Claim) -> bool:
    """Whether a change ends this claim's attempt."""
    readings = (folder.read((one.path, one.data)) for one in changed_files(made))
    return any(one is not None and one.task.spent_token == claim.proof for one in readings)


def foreign(made: Made, claim: Claim | None) -> bool:
    """Whether another attempt holds the task by now, so that this result is late."""
    if claim is None or made.before == made.after:
        return False
    readings = [folder.read((one.path, one.data)) for one in changed_files(made)]
    proofs = {proof for one in readings if one is not None for proof in (one.proof, one.task.spent_token) if proof}
    return bool(proofs) and claim.proof not in proofs
