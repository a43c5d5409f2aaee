"""The index of a clone: follows incoming changes and keeps what a person has staged. Checks people's commits."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy
from dibs.stores.vault.places import CONFLICT_COPY, TASK_FOLDERS
from dibs.stores.vault.vault import host_clock
from dibs.sync.git import folder
from dibs.sync.git.repository import ABSENT, INDEX, MODULE, index_lines, is_task, others_at_work, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dibs.sync.git.folder import Folder
    from dibs.sync.git.history import History
    from dibs.sync.git.repository import Difference, Git, Trees

    Keep = Callable[[str, bytes, Difference], str | None]

_OURS = "# dibs: a commit has each task in one place."
_HOOK = f"""#!/bin/sh
{_OURS}
# It leaves out tasks that agents have moved on. Git still has their text.
[ -x {{python}} ] || exit 0
echo $PPID checking > {{marker}} 2> /dev/null  # agents do not move the branch before this commit is made
unset GIT_DIR GIT_WORK_TREE GIT_PREFIX
{{words}}
echo $PPID > {{marker}} 2> /dev/null
exit 0
"""
_PATIENCE = 5.0  # seconds in which another git may finish
_ABANDONED = 60.0  # seconds
_MADE = 10.0  # seconds after its check in which a commit is made, unless a person writes its message
_COMMITTING = "committing"  # the file that names the process of a commit that is being made


class CommitFirst(StoreBusy):
    """A person's commit waits for this turn of the clone, and would fail if the branch moved now."""


class Staged:
    """The index of one clone."""

    def __init__(self, git: Git, home: str) -> None:
        self._git = git
        self._path = os.path.join(git.root, git.do("rev-parse", "--git-path", "index").decode().rstrip("\n"))
        self._lock = f"{self._path}.lock"
        self._marker = os.path.join(home, "marker")
        self._copy = os.path.join(home, f"{INDEX}next")
        self._committing = os.path.join(home, _COMMITTING)
        self._held = False

    def commit_under_way(self) -> bool:
        """Whether a person's commit has run its hook and is not made yet. It fails if the branch moves now."""
        try:
            with open(self._committing, encoding="ascii") as file:
                pid, *checking = file.read().split() or ("", "")
                age = host_clock().timestamp() - os.fstat(file.fileno()).st_mtime
                if age > (_ABANDONED if checking else _MADE):
                    return False  # the system may have given its number to another process
                if pid:
                    os.kill(int(pid), 0)
        except PermissionError:
            return True
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False
        return True

    def follow(self, changes: Mapping[str, Difference], tree: str, keep: Keep) -> tuple[str, ...]:
        """Bring these units to their later state. Other content that was staged for them goes to `keep`."""
        if not changes:
            return ()
        with self.locked():
            if os.path.exists(self._path):
                shutil.copyfile(self._path, self._copy)
            staged = self._staged(tree)
            kept = [keep(path, self._content(staged[path]), change) for path, change in _conflicting(staged, changes)]
            self._git.do("update-index", "-z", "--index-info", given=index_lines(changes.values()), index=self._copy)
            os.replace(self._copy, self._path)
        return tuple(path for path in kept if path is not None)

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
    def locked(self, *, yielding: bool = False) -> Iterator[None]:
        """Git's own lock on the index, as a hard link, so that `tidy` recognises a lock that we left. May be nested.

        A person's `git add`, commit or pull fails or waits meanwhile, and does not mix with what we change. If a commit
        is under way, CommitFirst is raised when `yielding`.
        """
        if self._held:
            yield
            return
        self._take(yielding=yielding)
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if os.path.exists(self._copy):
                os.unlink(self._copy)
            os.unlink(self._lock)

    def _take(self, *, yielding: bool) -> None:
        open(self._marker, "ab").close()
        deadline = time.monotonic() + _PATIENCE
        while True:
            waited = time.monotonic() > deadline
            if yielding and self.commit_under_way():
                raise CommitFirst("A commit is being made in this clone. Try again.")
            try:
                if waited or not self._disturbs():
                    os.link(self._marker, self._lock)
                    if waited or not self._disturbs():
                        return
                    os.unlink(self._lock)
            except FileExistsError:
                if waited:
                    raise StoreBusy(
                        f"Another git has {self._lock}. Wait for it; if no git is running, delete that file.",
                        retry_after_ms=1000,
                    ) from None
            time.sleep(0.02)

    def _disturbs(self) -> bool:
        """Whether a person's git is at work, which may leave the lock and need it again. A commit waits for us."""
        return not self.commit_under_way() and others_at_work(self._git.root)

    def tidy(self) -> None:
        """Remove a lock left by a killed process of ours. Needs the clone's lock."""
        try:
            if os.path.samefile(self._lock, self._marker):
                os.unlink(self._lock)
        except FileNotFoundError:
            return


def _own(path: str) -> bool:
    """Whether a file is no conflict copy, which may have any text."""
    return CONFLICT_COPY.search(path) is None


class Copies:
    """Second files of tasks, which git makes when it meets a move that is not committed yet."""

    def __init__(self, git: Git, trees: Trees, folder: Folder, history: History) -> None:
        self._git = git
        self._trees = trees
        self._folder = folder
        self._history = history

    def outdated(self, path: str) -> bool:
        """Whether a file is an old copy of a task that has moved on under another name.

        A file under its old name is not one: people reuse names and texts.
        """
        refs = self._history.refs()
        tree = self._trees.at(refs.theirs)
        if not is_task(unit_of(path)) or path in tree.get(unit_of(path), {}):
            return False
        found = next((one for one in self._folder.look(unit_of(path)) if one.path == path), None)
        if found is None or found.link or not self._trees.knows(found.data):
            return False
        sha = self._trees.hash(path, found.data)
        known = (item for places in tree.values() for item in places.items())
        if any(blob.sha == sha and _own(place) for place, blob in known):
            return False
        had = set(filter(_own, self._history.had(sha, refs)))
        return bool(had) and path not in had

    def drop_outdated(self) -> list[str]:
        """Delete outdated copies that git does not know."""
        words = self._git.do("ls-files", "--others", "--exclude-standard", "-z", "--", *TASK_FOLDERS)
        dropped = [path for raw in words.split(b"\0") if raw and self.outdated(path := os.fsdecode(raw))]
        for path in dropped:
            self._folder.drop(path)
        return dropped

    def leave_out(self) -> list[str]:
        """Unstage second files of tasks, and delete those without text of their own. Returns the deleted files."""
        words = ("diff", "--cached", "--name-only", "-z", "-M100%", "--diff-filter=A", "HEAD", "--", *TASK_FOLDERS)
        new = [os.fsdecode(raw) for raw in self._git.do(*words).split(b"\0") if raw]
        dropped = [path for path in new if self.outdated(path)]
        for path in dropped:
            self._git.do("rm", "-q", "-f", "--", path)
        tasks = [path for path in new if path not in dropped and is_task(unit_of(path)) and _own(path)]
        for identity in (folder.identity, folder.text_of_task):
            for same in self._doubled(tasks, identity):
                left, gone = self._leave_out_copies(same)
                tasks = [path for path in tasks if path not in left]
                dropped += gone
        return dropped + [each for path in tasks for each in self._leave_out_second(path)]

    def _doubled(self, paths: Iterable[str], identity: Callable[[tuple[str, bytes]], object]) -> list[list[str]]:
        by_task: dict[object, list[str]] = {}
        for path in paths:
            by_task.setdefault(identity((path, self._text(path))), []).append(path)
        return [found for found in by_task.values() if len(found) > 1]

    def _leave_out_copies(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Unstage all but one of a new task's files.

        `git add` finds two if the file moves while it runs, and a failed pull restores a staged file that has moved.
        """
        kept, old = self._folder.furthest(paths)
        left = [path for path in paths if path != kept]
        self._git.do("rm", "-q", "--cached", "--", *left)
        for path in old:
            self._folder.drop(path)
        return left, old

    def _leave_out_second(self, path: str) -> list[str]:
        """Unstage a second file of a task. Delete it if the other has all of its text."""
        data = self._text(path)
        units = self._trees.at(self._history.refs().head)
        sha = self._trees.hash(path, data)
        same = (item for unit, places in units.items() if is_task(unit) for item in places.items())
        known = self._folder.places(folder.identity((path, data)), units)
        known |= {other: blob for other, blob in same if blob.sha == sha and _own(other)}  # moved to another domain
        others = {other: blob for other, blob in known.items() if other != path}
        if folder.said_in(data) is None or not others or not self._git.do("ls-files", "--", *others):
            return []
        more = folder.loses((path, data), self._folder.files(others))
        self._git.do("rm", "-q", "-f", *(["--cached"] if more else []), "--", path)
        return [] if more else [path]

    def _text(self, path: str) -> bytes:
        """The staged text of a file."""
        return self._git.do("cat-file", "blob", f":{path}")


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
