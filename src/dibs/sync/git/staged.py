"""The index of a clone: follows incoming changes and keeps what a person has staged. Installs the commit hooks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy
from dibs.stores.vault.vault import host_clock
from dibs.sync.git.repository import ABSENT, INDEX, MODULE, index_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.sync.git.repository import Difference, Git

    Keep = Callable[[str, bytes, Difference], str | None]

_OURS = "# dibs: a commit has each task in one place."
_HOOK = f"""#!/bin/sh
{_OURS}
# It leaves out tasks that agents have moved on. Git still has their text.
[ -x {{python}} ] || exit 0
echo $PPID > {{marker}} 2> /dev/null  # agents do not move the branch before this commit is made
unset GIT_DIR GIT_WORK_TREE GIT_PREFIX
{{words}}
exit 0
"""
_PATIENCE = 5.0  # seconds in which another git may finish
_ABANDONED = 60.0  # seconds
_COMMITTING = "committing"  # the file that names the process of a commit that is being made


class Staged:
    """The index of one clone."""

    def __init__(self, git: Git, home: str) -> None:
        self._git = git
        self._path = os.path.join(git.root, git.do("rev-parse", "--git-path", "index").decode().rstrip("\n"))
        self._lock = f"{self._path}.lock"
        self._marker = os.path.join(home, "marker")
        self._copy = os.path.join(home, f"{INDEX}next")
        self._committing = os.path.join(home, _COMMITTING)

    def commit_under_way(self) -> bool:
        """Whether a person's commit has run its hook and is not made yet. It fails if the branch moves now."""
        try:
            with open(self._committing, encoding="ascii") as file:
                if host_clock().timestamp() - os.fstat(file.fileno()).st_mtime > _ABANDONED:
                    return False  # the system may have given its number to another process
                os.kill(int(file.read()), 0)
        except PermissionError:
            return True
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False
        return True

    def follow(self, changes: Mapping[str, Difference], tree: str, keep: Keep) -> tuple[str, ...]:
        """Bring these units to their later state. Other content that was staged for them goes to `keep`."""
        with self._locked():
            staged = self._staged(tree)
            kept = [keep(path, self._content(staged[path]), change) for path, change in _conflicting(staged, changes)]
            self._git.do("update-index", "-z", "--index-info", given=index_lines(changes.values()), index=self._copy)
            os.replace(self._copy, self._path)
        return tuple(path for path in kept if path is not None)

    def leave_out_moved(self, paths: Iterable[str], identity: Callable[[tuple[str, bytes]], str]) -> list[str]:
        """Unstage the old places of new tasks that moved while `git add` ran and found both places. Return them."""
        by_task: dict[str, list[str]] = {}
        for path in paths:
            by_task.setdefault(identity((path, self._git.do("cat-file", "blob", f":{path}"))), []).append(path)
        doubled = [path for found in by_task.values() if len(found) > 1 for path in found]
        moved = [path for path in doubled if not os.path.lexists(os.path.join(self._git.root, path))]
        if moved:
            self._git.do("rm", "-q", "--cached", "--", *moved)
        return moved

    def _content(self, sha: str) -> bytes:
        return self._git.do("cat-file", "blob", sha)

    def _staged(self, tree: str) -> dict[str, str]:
        """The staged contents that differ from a tree, by path."""
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
        """Git's own lock on the index, as a hard link, so that `tidy` recognises a lock that we left."""
        open(self._marker, "ab").close()
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                os.link(self._marker, self._lock)
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"Another git has {self._lock}. Wait for it; if no git is running, delete that file.",
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
        """Remove a lock left by a killed process of ours. Needs the clone's lock."""
        try:
            if os.path.samefile(self._lock, self._marker):
                os.unlink(self._lock)
        except FileNotFoundError:
            return


def _conflicting(staged: Mapping[str, str], changes: Mapping[str, Difference]) -> Iterator[tuple[str, Difference]]:
    """Paths whose staged content differs from the incoming one."""
    for change in changes.values():
        for path in {*change.before, *change.after} & staged.keys():
            if path not in change.after or change.after[path].sha != staged[path]:
                yield path, change


def install_hooks(git: Git, home: str) -> None:
    """Install two hooks that run `dibs vault resolve --staged`. A person's own hooks are not changed."""
    if git.ask("config", "--local", "core.hooksPath", answers=(1,)) is not None:
        return
    common = git.do("rev-parse", "--git-common-dir").decode().rstrip("\n")
    folder = os.path.join(git.root, common, "hooks")
    words = " ".join(quote(word) for word in (sys.executable, "-m", "dibs", "vault", "resolve", "--staged"))
    marker = quote(os.path.join(home, _COMMITTING))
    text = _HOOK.format(python=quote(sys.executable), marker=marker, words=f"{words} --vault {quote(git.root)}")
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
            os.chmod(f"{path}.dibs", 0o755)  # noqa: S103 - git runs it for every user
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
