"""Merge commits that people made here with those of the remote: no conflict is left to a person, no text gets lost.

A task is one thing: the state that continues the other one wins, else the remote's. Notes are merged line by line.
Words that would be lost are copied to `Errors/`.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING

from dibs.sync.git import folder
from dibs.sync.git.trees import MODULE, REGULAR, Blob, Difference, is_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.sync.git.command import Git
    from dibs.sync.git.trees import Places, Trees

    File = tuple[str, bytes]

_TEXTS = (".md", ".txt", ".canvas")  # in these, both sides' lines may stand below each other
_MARKER = re.compile(rb"(?:<{7}|={7}|>{7}|\|{7})(?: .*)?\r?")


class Merge:
    """The merge of two lines of commits. `keep` copies a text to where people find it."""

    def __init__(self, git: Git, trees: Trees, keep: Callable[[str, bytes], str]) -> None:
        self._git = git
        self._trees = trees
        self._keep = keep

    def changes(self, ours: Mapping[str, Difference], theirs: Mapping[str, Difference]) -> dict[str, Difference]:
        """What is to be changed in our line, given what each line has changed since they parted."""
        changes: dict[str, Difference] = {}
        for unit, came in theirs.items():
            made = ours.get(unit)
            if made is None:
                changes[unit] = came
                continue
            after = made.after if made.after == came.after else self._both(unit, made, came)
            if after != made.after:
                changes[unit] = Difference(made.after, after)
                changes |= self._renamed_away(unit, made, came, ours)
        return changes

    def _both(self, unit: str, made: Difference, came: Difference) -> Places:
        if not is_task(unit):
            return self._note(made, came)
        if self._continues(came.after, made.after):
            return came.after
        if self._continues(made.after, came.after):
            return made.after
        known = [*self._files(made.before), *self._files(came.after)]
        for file in self._files(made.after):
            if folder.loses(file, known):
                self._keep(*file)
        return came.after

    def _continues(self, later: Places, earlier: Places) -> bool:
        """Whoever holds the task went on from the other state."""
        one, other = self._files(later), self._files(earlier)
        return len(one) == len(other) == 1 and folder.goes_on(one[0], other[0])

    def _renamed_away(
        self, unit: str, made: Difference, came: Difference, ours: Mapping[str, Difference]
    ) -> dict[str, Difference]:
        """A task that was renamed here while others went on with it keeps its old name: it must not be there twice."""
        if not is_task(unit) or made.after or not came.after:
            return {}
        (old, *_) = self._files(made.before) or [("", b"")]
        return {
            other: Difference(change.after, {})
            for other, change in ours.items()
            if is_task(other) and not change.before and any(folder.alike(old, one) for one in self._files(change.after))
        }

    def _note(self, made: Difference, came: Difference) -> Places:
        """An edit wins over a deletion; of two edits both are kept."""
        if not made.after or not came.after:
            return made.after or came.after
        (path, ours), *more = made.after.items()
        theirs, before = came.after.get(path), made.before.get(path)
        if more or theirs is None or {ours.mode, theirs.mode} != {REGULAR}:
            self._keep_all(made.after)
            return came.after
        merged = self._merged(path, ours, before, theirs)
        if merged is None:
            self._keep_all(made.after)
            return came.after
        return {path: Blob(REGULAR, self._trees.write_plain(merged))}

    def _merged(self, path: str, ours: Blob, before: Blob | None, theirs: Blob) -> bytes | None:
        """Both texts in one; None if that cannot be."""
        with tempfile.TemporaryDirectory() as place:
            names = []
            for name, blob in (("ours", ours), ("before", before), ("theirs", theirs)):
                names.append(os.path.join(place, name))
                with open(names[-1], "wb") as file:
                    file.write(b"" if blob is None else self._trees.plain(blob))
            how = ("--union",) if path.endswith(_TEXTS) else ()
            ran = self._git.run("merge-file", "--stdout", "--quiet", *how, *names)
        return ran.out if ran.ok else None

    def _keep_all(self, places: Places) -> None:
        for file in self._files(places):
            self._keep(*file)

    def _files(self, places: Places) -> list[File]:
        return [(path, self._trees.content(path, blob)) for path, blob in places.items() if blob.mode != MODULE]


def without_markers(data: bytes) -> list[bytes]:
    """The lines of a file over which a merge stopped, but for git's own."""
    return [line for line in data.split(b"\n") if not _MARKER.fullmatch(line)]


def marked(data: bytes) -> bool:
    """A merge has left its markers here."""
    return any(line.startswith(b"<<<<<<< ") for line in data.split(b"\n"))
