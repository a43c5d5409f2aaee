"""What belongs together: a task's file is one thing wherever it lies, any other file is one for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.vault.names import SUFFIX
from dibs.stores.vault.places import IN_PROGRESS, TASK_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TASK = "task:"  # no path has a colon before its first slash and means this: such a file is told apart by the slash


def unit_of(path: str) -> str:
    """The name under which all places of a task's file are known, or the path itself."""
    folder, _, tail = path.partition("/")
    if folder == IN_PROGRESS:
        tail = tail.partition("/")[2]
    if folder in TASK_FOLDERS and tail.endswith(SUFFIX) and not tail.rpartition("/")[2].startswith("."):
        return f"{_TASK}/{tail}"
    return path


def is_task(unit: str) -> bool:
    return unit.startswith(f"{_TASK}/")


def shown(unit: str) -> str:
    """For people: a task by its file's name and scope, any other file by its path."""
    return unit.removeprefix(f"{_TASK}/")


def places_of(unit: str, holders: Iterable[str]) -> Iterator[str]:
    """Every path at which it may lie, given the folders there are in In_Progress."""
    if not is_task(unit):
        yield unit
        return
    tail = unit[len(_TASK) + 1 :]
    for folder in TASK_FOLDERS:
        if folder != IN_PROGRESS:
            yield f"{folder}/{tail}"
    for holder in holders:
        yield f"{IN_PROGRESS}/{holder}/{tail}"


def by_unit(paths: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in paths:
        found.setdefault(unit_of(path), set()).add(path)
    return found
