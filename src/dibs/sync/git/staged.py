"""The index, in which a person may have staged something: it follows what comes in, and keeps the rest as it is."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy
from dibs.sync.git.trees import ABSENT, INDEX, MODULE, index_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.sync.git.command import Git
    from dibs.sync.git.trees import Difference

    Keep = Callable[[str, bytes, Difference], str | None]

_OURS = "# dibs: a commit has each task in one place."
_HOOK = f"""#!/bin/sh
{_OURS}
# Tasks that agents have moved on meanwhile are left out of the commit. Git still has their text.
[ -x {{python}} ] || exit 0
unset GIT_DIR GIT_WORK_TREE GIT_PREFIX
{{words}}
exit 0
"""
_PATIENCE = 5.0  # seconds in which another git may finish


class Staged:
    """The index of one clone."""

    def __init__(self, git: Git, home: str) -> None:
        self._git = git
        self._path = os.path.join(git.root, git.do("rev-parse", "--git-path", "index").decode().rstrip("\n"))
        self._lock = f"{self._path}.lock"
        self._marker = os.path.join(home, "marker")
        self._copy = os.path.join(home, f"{INDEX}next")

    def follow(self, changes: Mapping[str, Difference], tree: str, keep: Keep) -> tuple[str, ...]:
        """Let it say what is after. What else was staged for these very paths is offered to `keep`."""
        with self._locked():
            staged = self._staged(tree)
            kept = [keep(path, self._content(staged[path]), change) for path, change in _overlap(staged, changes)]
            self._git.do("update-index", "-z", "--index-info", given=index_lines(changes.values()), index=self._copy)
            os.replace(self._copy, self._path)
        return tuple(path for path in kept if path is not None)

    def _content(self, sha: str) -> bytes:
        return self._git.do("cat-file", "blob", sha)

    def _staged(self, tree: str) -> dict[str, str]:
        """What differs from a tree, by path: the content."""
        words = self._git.do("diff-index", "--cached", "--raw", "-z", "--no-renames", tree, index=self._copy).split(
            b"\0"
        )
        found = {}
        for about, raw in zip(words[:-1:2], words[1::2], strict=True):
            _, mode, _, sha, _ = about.decode().split(" ")
            if mode not in {ABSENT, MODULE}:
                found[os.fsdecode(raw)] = sha
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Git's own lock on the index, made so that we know ours again if we die under it."""
        open(self._marker, "ab").close()
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                os.link(self._marker, self._lock)
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"Another git has {self._lock}. Wait until it is done; if none is running, remove that file.",
                        retry_after_ms=1000,
                    ) from None
                time.sleep(0.02)
            else:
                break
        try:
            if os.path.exists(self._path):
                shutil.copyfile(self._path, self._copy)
            yield
        finally:
            if os.path.exists(self._copy):
                os.unlink(self._copy)
            os.unlink(self._lock)

    def tidy(self) -> None:
        """Take away the lock that we left when we were killed. Only who has the git lock may do so."""
        try:
            if os.path.samefile(self._lock, self._marker):
                os.unlink(self._lock)
        except FileNotFoundError:
            return


def _overlap(staged: Mapping[str, str], changes: Mapping[str, Difference]) -> Iterator[tuple[str, Difference]]:
    """Paths for which something else was staged than is coming in."""
    for change in changes.values():
        for path in {*change.before, *change.after} & staged.keys():
            if path not in change.after or change.after[path].sha != staged[path]:
                yield path, change


def install_hooks(git: Git) -> None:
    """Two hooks that ask `dibs vault resolve --staged`. Hooks of the person's own are left as they are."""
    if git.ask("config", "--local", "core.hooksPath", answers=(1,)) is not None:
        return
    common = git.do("rev-parse", "--git-common-dir").decode().rstrip("\n")
    folder = os.path.join(git.root, common, "hooks")
    words = " ".join(quote(word) for word in (sys.executable, "-m", "dibs", "vault", "resolve", "--staged"))
    text = _HOOK.format(python=quote(sys.executable), words=f"{words} --vault {quote(git.root)}")
    os.makedirs(folder, exist_ok=True)
    for name in ("pre-commit", "pre-merge-commit"):
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                known = file.read()
        except FileNotFoundError:
            known = _OURS
        if _OURS in known and known != text:
            with open(f"{path}.dibs", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            os.chmod(f"{path}.dibs", 0o755)  # noqa: S103 - git runs it, for whoever commits
            os.replace(f"{path}.dibs", path)


def add_lines(path: str, lines: Iterable[str]) -> None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            known = file.read()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        known = ""
    missing = [line for line in lines if line not in known.splitlines()]
    if missing:
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(f"{line}\n" for line in ([""] if known and not known.endswith("\n") else []) + missing))
