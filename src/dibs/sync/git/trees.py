"""Committed states: what lies where in a commit, what differs between two, and how a new one is put together.

Nothing here touches the folder, or the index in which a person may have staged something.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dibs.stores.vault.places import IN_PROGRESS, SUFFIX, TASK_FOLDERS

if TYPE_CHECKING:
    from dibs.sync.git.command import Git

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


REGULAR, LINK, MODULE = "100644", "120000", "160000"
ABSENT = "000000"
INDEX = "index-"  # what files begin with that are indexes of ours

_numbers = count()


class Blob(NamedTuple):
    """A file's content, as git knows it."""

    mode: str
    sha: str


Places = Mapping[str, Blob]  # where a unit lies; empty: nowhere
Units = dict[str, dict[str, Blob]]


class Difference(NamedTuple):
    """A unit in two commits."""

    before: Places
    after: Places


class Trees:
    """The commits of one clone. The last one looked at is remembered, so that the next costs only what differs."""

    def __init__(self, git: Git, home: str) -> None:
        self._git = git
        self._home = home  # for files of ours within the git directory
        self._known: tuple[str, Units] | None = None
        self._empty: str | None = None

    def at(self, commit: str | None) -> Units:
        """Everything in a commit, by unit; not to be changed."""
        if commit is None:
            return {}
        if self._known is None or self._known[0] != commit:
            self._known = commit, self._read(commit)
        return self._known[1]

    def _read(self, commit: str) -> Units:
        if self._known is not None:
            units = self._known[1]
            for unit, difference in self._differences(self._known[0], commit, units).items():
                if difference.after:
                    units[unit] = dict(difference.after)
                else:
                    del units[unit]
            return units
        found: Units = {}
        for record in self._git.do("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            about, _, raw = record.partition(b"\t")
            mode, _, sha = about.decode().split(" ")
            path = os.fsdecode(raw)
            found.setdefault(unit_of(path), {})[path] = Blob(mode, sha)
        return found

    def known_paths(self) -> set[str]:
        """Every path of the commit that was looked at last."""
        return set() if self._known is None else {path for places in self._known[1].values() for path in places}

    def differences(self, one: str | None, other: str | None) -> dict[str, Difference]:
        """The units that are not the same in two commits."""
        return {} if one == other else self._differences(one, other, self.at(one))

    def _differences(self, one: str | None, other: str | None, units: Units) -> dict[str, Difference]:
        after: Units = {}
        words = self._git.do(
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--full-index",
            self.tree(one),
            self.tree(other),
        ).split(b"\0")
        for about, raw in zip(words[:-1:2], words[1::2], strict=True):
            _, mode, _, sha, _ = about.decode().split(" ")
            path = os.fsdecode(raw)
            unit = unit_of(path)
            places = after.setdefault(unit, dict(units.get(unit, {})))
            places.pop(path, None)
            if mode != ABSENT:
                places[path] = Blob(mode, sha)
        return {unit: Difference(units.get(unit, {}), places) for unit, places in after.items()}

    def tree(self, commit: str | None) -> str:
        """A commit, or the empty tree where there is none yet."""
        if commit is not None:
            return commit
        if self._empty is None:
            self._empty = self._git.do("mktree").decode().strip()
        return self._empty

    def write(self, path: str, data: bytes) -> str:
        """Let git know a content, as the attributes of its path want it."""
        return self._git.do("hash-object", "-w", "--stdin", f"--path={path}", given=data).decode().strip()

    def hash(self, path: str, data: bytes) -> str:
        return self._git.do("hash-object", "--stdin", f"--path={path}", given=data).decode().strip()

    def write_plain(self, data: bytes) -> str:
        """The same for a content that comes from git, and needs no conversion."""
        return self._git.do("hash-object", "-w", "--stdin", "--no-filters", given=data).decode().strip()

    def plain(self, blob: Blob) -> bytes:
        return self._git.do("cat-file", "blob", blob.sha)

    def knows(self, data: bytes) -> bool:
        """Whether git has this very content."""
        sha = self._git.do("hash-object", "--stdin", "--no-filters", given=data).decode().strip()
        return self._git.ask("cat-file", "-e", sha, answers=(0, 1)) is not None

    def content(self, path: str, blob: Blob) -> bytes:
        return self._git.do("cat-file", "--filters", f"--path={path}", blob.sha)

    def commit(self, onto: str | None, changes: Mapping[str, Difference], message: str, *parents: str | None) -> str:
        """A commit that differs from `onto` in these units only. No branch knows of it yet."""
        self._git.introduce()
        with self._index(onto) as index:
            self._git.do("update-index", "-z", "--index-info", given=index_lines(changes.values()), index=index)
            tree = self._git.do("write-tree", index=index).decode().strip()
        lines = [word for parent in parents if parent is not None for word in ("-p", parent)]
        return self._git.do("commit-tree", tree, *lines, given=message.encode()).decode().strip()

    def commit_empty(self, message: str, parent: str | None) -> str:
        """A commit without files, for its message."""
        self._git.introduce()
        words = () if parent is None else ("-p", parent)
        return self._git.do("commit-tree", self.tree(None), *words, given=message.encode()).decode().strip()

    def check_out(self, commit: str, paths: Iterable[str], into: str) -> None:
        """Files of a commit below a folder of ours: git sees to it that no path leads elsewhere."""
        wanted = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with self._index(commit) as index:
            self._git.do("checkout-index", "-z", "--stdin", "--force", f"--prefix={into}/", given=wanted, index=index)

    def tidy(self) -> None:
        """Remove the indexes of processes that were killed. Only who has the git lock may do so."""
        for name in os.listdir(self._home):
            if name.startswith(INDEX):
                os.unlink(os.path.join(self._home, name))

    @contextmanager
    def _index(self, commit: str | None) -> Iterator[str]:
        index = os.path.join(self._home, f"{INDEX}{os.getpid()}-{next(_numbers)}")
        try:
            self._git.do("read-tree", *(["--empty"] if commit is None else [commit]), index=index)
            yield index
        finally:
            for left in (index, f"{index}.lock"):
                if os.path.exists(left):
                    os.unlink(left)


def index_lines(changes: Iterable[Difference]) -> bytes:
    """What makes an index say what is after, as `update-index --index-info` reads it: what goes before what comes."""
    gone: list[bytes] = []
    come: list[bytes] = []
    for before, after in changes:
        gone += [
            f"0 {'0' * len(blob.sha)}\t".encode() + os.fsencode(path)
            for path, blob in before.items()
            if path not in after
        ]
        come += [f"{blob.mode} {blob.sha}\t".encode() + os.fsencode(path) for path, blob in after.items()]
    return b"".join(line + b"\0" for line in gone + come)
