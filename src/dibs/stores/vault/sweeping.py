"""A look at every file in the folders of tasks, without reading any."""

import os
from collections.abc import Container
from typing import NamedTuple

from dibs.core.errors import InvalidInput
from dibs.stores.vault.disk import Stamp
from dibs.stores.vault.places import TASK_FOLDERS, place_from


class Sight(NamedTuple):
    """Files that may be tasks, by path, and what lies among them and cannot be one."""

    stamps: dict[str, Stamp]
    problems: dict[str, str]


def look_around(root: str, known: Container[str]) -> Sight:
    """Hidden files are none of ours, and links are never followed. Paths that are known need no second judgement."""
    sight = Sight({}, {})
    for folder in TASK_FOLDERS:
        _look_through(root, folder, known, sight)
    return sight


def _look_through(root: str, folder: str, known: Container[str], sight: Sight) -> None:
    try:
        listing = os.scandir(f"{root}/{folder}")
    except FileNotFoundError:
        return
    except OSError as error:
        sight.problems[_shown(folder)] = f"cannot be looked through: {error.strerror}"
        return
    with listing:
        for found in listing:
            name = found.name
            if name[0] == ".":
                continue
            path = f"{folder}/{name}"
            if found.is_dir(follow_symlinks=False):
                _look_through(root, path, known, sight)
            elif name.endswith(".md") or found.is_symlink():
                _look_at(path, found, known, sight)


def _look_at(path: str, found: os.DirEntry[str], known: Container[str], sight: Sight) -> None:
    problem = _misplaced(path, found) if path not in known or found.is_symlink() else None
    if problem is not None or not found.is_file(follow_symlinks=False):
        sight.problems[_shown(path)] = problem or "is no regular file"
        return
    try:
        sight.stamps[path] = Stamp.of(found.stat(follow_symlinks=False))
    except FileNotFoundError:
        return  # gone meanwhile


def _misplaced(path: str, found: os.DirEntry[str]) -> str | None:
    """Why there can be no task in this file."""
    if found.is_symlink():
        return "is a symbolic link, which is never followed"
    try:
        place_from(path)
    except InvalidInput as error:
        return error.message.rstrip(".")
    return None


def _shown(path: str) -> str:
    """A path that can be printed, whatever its bytes are."""
    return path.encode("utf-8", "backslashreplace").decode().translate({10: "\\n", 13: "\\r"})
