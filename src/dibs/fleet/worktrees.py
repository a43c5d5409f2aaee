"""A git worktree and a branch for each task: created, recorded, merged and removed, without loss of work.

git runs as a program, without a shell, with the user's settings and hooks. Ids become names that are safe for a
folder and a branch; every other name reaches git as a commit's hash or as a full reference.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from hashlib import blake2b
from shutil import which
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import InvalidInput, Misconfigured, NotFound, Refused, StoreUnavailable
from dibs.core.messages import command
from dibs.core.wire import GIT
from dibs.stores.opening import BARE_FOLDER, FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk

PREFIX = "dibs/"  # of the branches
TREES = "worktrees"  # the folder beside the store
_PATIENCE = 600.0  # seconds for a git command
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STALE = 2.0  # seconds after which a lock in a worktree belongs to a killed git
_LOOK = 0.2  # seconds between two looks at a lock
_SAID = 400  # characters of git's error message
_REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


class MergeRefused(Exception):
    """A merge that needs a person: why, and the next step."""

    def __init__(self, reason: str, action: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.action = action


class _Ran(NamedTuple):
    status: int
    out: str
    said: str


class Worktree(NamedTuple):
    """A task's worktree. `base` is the commit at which its branch began."""

    scope: str
    task: str
    path: str
    branch: str
    base: str


def safe_name(scope: str, task: str) -> str:
    """A name for the task's folder and branch. An id that git does not allow is changed and gets a hash."""
    plain = _PLAIN.fullmatch(task) and ".." not in task and not task.endswith((".", ".lock"))
    if plain and scope == "default":
        return task
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", task if scope == "default" else f"{scope}-{task}").strip("-")[:48]
    digest = blake2b(f"{scope}\0{task}".encode(errors="surrogateescape"), digest_size=4).hexdigest()
    return f"{words or 'task'}-{digest}"


class Repository:
    """The git repository of a folder, and the worktrees of its tasks."""

    def __init__(self, start: str) -> None:
        self._environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
        self._environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
        ran = self._run(start, "rev-parse", "--path-format=absolute", "--git-common-dir")
        if ran.status:
            raise InvalidInput(f"{start} is in no git repository. Worktrees need one: 'git init' makes it.")
        self.common = ran.out.rstrip("\n")
        self.start = start
        first = next(self._listed(), {})
        self.bare = "bare" in first
        self.root = self.common if self.bare else first.get("worktree", start)
        folder = os.path.join(self.common, BARE_FOLDER) if self.bare else os.path.join(self.root, FOLDER)
        self.home = os.path.join(folder, TREES)

    # Calls of git

    def _run(self, place: str, *words: str) -> _Ran:
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed program, and words that no shell reads
                ["git", "-C", place, "-c", "advice.detachedHead=false", *words],  # noqa: S607 - the user's own git
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Misconfigured("There is no git on this machine. Worktrees need it.") from None
        with process:
            try:
                out, said = process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise StoreUnavailable(f"git {words[0]} gave no answer within {_PATIENCE:.0f} s.") from None
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        text = " ".join(said.decode(errors="replace").split())
        return _Ran(process.returncode, os.fsdecode(out), text[-_SAID:])

    def _do(self, place: str, *words: str) -> str:
        ran = self._run(place, *words)
        if ran.status:
            raise Refused(f"git {words[0]} failed in {place}: {ran.said or f'exit status {ran.status}'}")
        return ran.out.rstrip("\n")

    def _ask(self, place: str, *words: str) -> str | None:
        ran = self._run(place, *words)
        return None if ran.status else ran.out.rstrip("\n")

    def commit(self, name: str, place: str | None = None) -> str:
        """The hash of a commit."""
        found = self._ask(
            place or self.start, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
        if not found:
            raise InvalidInput(f"git knows no commit '{name}' here. Name a branch, a tag or a commit that exists.")
        return found

    def _head(self, branch: str) -> str | None:
        return self._ask(
            self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}"
        )

    def current_branch(self) -> str | None:
        """The branch of the working folder; None for a detached head."""
        return self._ask(self.start, "symbolic-ref", "--quiet", "--short", "HEAD")

    def require_branch(self, name: str) -> str:
        if self._head(name) is None:
            raise InvalidInput(f"There is no branch '{name}' in {self.root}.")
        return name

    def _is_ancestor(self, commit: str, of: str) -> bool:
        return self._run(self.root, "merge-base", "--is-ancestor", commit, of).status == 0

    def _listed(self) -> Iterator[dict[str, str]]:
        """All worktrees that git knows, the main one first."""
        found: dict[str, str] = {}
        for item in self._do(self.common, "worktree", "list", "--porcelain", "-z").split("\0"):
            name, _, value = item.partition(" ")
            if name:
                found[name] = value
            elif found:
                yield found
                found = {}

    def _setting(self, branch: str, name: str) -> str | None:
        return self._ask(self.root, "config", "--local", "--get", f"branch.{branch}.{name}")

    def _set(self, branch: str, name: str, value: str) -> None:
        self._do(self.root, "config", "--local", f"branch.{branch}.{name}", value)

    # Create

    @contextmanager
    def _alone(self, name: str = "lock", meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Allow one process at a time. During the wait, call the given function; its error ends the wait."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        self._ignore()
        with open(os.path.join(self.home, f".{name}"), "w", encoding="utf-8") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    meanwhile()
                    time.sleep(_LOOK)
            yield

    def _ignore(self) -> None:
        """Keep git from listing the worktrees as files of the project."""
        path = os.path.join(self.home, ".gitignore")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write("*\n")

    def named(self, scope: str, task: str) -> Worktree:
        """The worktree of a task, even if it does not exist."""
        name = safe_name(scope, task)
        branch = PREFIX + name
        base = self._setting(branch, "dibsBase") or ""
        return Worktree(scope, task, os.path.join(self.home, name), branch, base)

    def open(self, scope: str, task: str, bases: Sequence[str]) -> Worktree:
        """Create the worktree of a task, or return the existing one with the files of earlier attempts.

        A new branch begins at the first of `bases`; the others are merged into it.
        """
        with self._alone():
            tree = self.named(scope, task)
            there = os.path.isdir(tree.path)
            known = self._registered(tree.path)
            if there and known:
                self._clear_stale_locks(tree.path)
                return tree if tree.base else self._with_base(tree, bases[0])
            if there and os.listdir(tree.path):
                raise Refused(
                    f"{tree.path} exists and is not a worktree of this repository. Nothing was changed. "
                    "Move it away, or run 'git worktree repair' if it was one."
                )
            force = ["--force"] if known else []  # its folder was deleted by hand, but the branch exists
            if self._head(tree.branch) is None:
                self._do(
                    self.root, "worktree", "add", *force, "-b", tree.branch, "--no-track", "--", tree.path, bases[0]
                )
                tree = self._with_base(tree, bases[0])
                fresh = True
            else:
                self._do(self.root, "worktree", "add", *force, "--", tree.path, tree.branch)
                tree, fresh = tree if tree.base else self._with_base(tree, bases[0]), False
            self._set(tree.branch, "dibsTask", f"{scope} {task}")
        for base in bases[1:] if fresh else ():
            self._merge_into(tree, base, "the branch of a prerequisite")
        return tree

    def _with_base(self, tree: Worktree, base: str) -> Worktree:
        began = self._ask(self.root, "merge-base", f"refs/heads/{tree.branch}", base) or base
        self._set(tree.branch, "dibsBase", began)
        return tree._replace(base=began)

    def _registered(self, path: str) -> bool:
        return any(os.path.realpath(each.get("worktree", "")) == os.path.realpath(path) for each in self._listed())

    def _clear_stale_locks(self, path: str) -> None:
        """Delete locks of killed git commands, which would keep the next attempt from committing."""
        folder = self._do(path, "rev-parse", "--absolute-git-dir")
        for name in ("index.lock", "HEAD.lock"):
            lock = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                seen_at = time.monotonic()
                while os.path.exists(lock) and time.monotonic() < seen_at + _STALE:
                    time.sleep(_LOOK)
                os.unlink(lock)

    # Read

    def worktrees(self) -> list[Worktree]:
        """The worktrees of tasks, by name."""
        found = []
        for each in self._listed():
            path = each.get("worktree", "")
            if os.path.dirname(os.path.realpath(path)) != os.path.realpath(self.home):
                continue
            branch = PREFIX + os.path.basename(path)
            scope, _, task = (self._setting(branch, "dibsTask") or "").partition(" ")
            base = self._setting(branch, "dibsBase") or ""
            found.append(Worktree(scope or "default", task or os.path.basename(path), path, branch, base))
        return sorted(found, key=lambda tree: tree.path)

    def uncommitted(self, tree: Worktree) -> int:
        """The number of files with uncommitted changes, new files included."""
        if not os.path.isdir(tree.path):
            return 0
        listed = self._do(tree.path, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        return sum(bool(item) for item in listed.split("\0"))

    def is_merged(self, tree: Worktree, into: str) -> bool:
        """Whether all commits of the branch are in another one, or were squashed into it."""
        head = self._head(tree.branch)
        if head is None or head == tree.base or head == self._setting(tree.branch, "dibsMerged"):
            return True
        return self._is_ancestor(head, into)

    def record(self, tree: Worktree) -> dict[str, Json]:
        """The data of a branch that its task stores."""
        head = self._head(tree.branch) or tree.base
        files = insertions = deletions = 0
        for line in self._do(self.root, "diff", "--numstat", "--no-renames", "-z", f"{tree.base}..{head}").split("\0"):
            added, _, rest = line.partition("\t")
            removed, separator, _ = rest.partition("\t")
            if separator:
                files += 1
                insertions += int(added) if added.isdigit() else 0  # '-' for a binary file
                deletions += int(removed) if removed.isdigit() else 0
        found: dict[str, Json] = {
            "branch": tree.branch, "base": tree.base, "head": head, "files": files, "insertions": insertions,
            "deletions": deletions,
        }  # fmt: skip
        if left := self.uncommitted(tree):
            found["uncommitted"] = left
        return found

    def diff_of(self, branch: str, record: object, *options: str) -> str:
        """The changes of a branch since its base, with uncommitted ones; raises NotFound without the branch."""
        known = record if isinstance(record, dict) else {}
        head = self._head(branch) or self._full_commit(known.get("head"))
        base = self._setting(branch, "dibsBase") or self._full_commit(known.get("base"))
        if head is None or base is None:
            raise NotFound(f"This repository has no branch {branch}: no attempt has used a worktree here.")
        place = os.path.join(self.home, branch.removeprefix(PREFIX))
        if os.path.isdir(place) and self._ask(place, "rev-parse", "HEAD") == head:
            return self._do(place, "diff", "--no-ext-diff", "--no-color", *options, base, "--")
        return self._do(self.root, "diff", "--no-ext-diff", "--no-color", *options, f"{base}..{head}", "--")

    def _full_commit(self, name: object) -> str | None:
        """A commit by its whole hash, if it still exists."""
        if not isinstance(name, str) or not _HASH.fullmatch(name):
            return None
        return self._ask(self.root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")

    def is_part(self, branch: str, commit: str) -> bool:
        """Whether a commit includes all of a branch."""
        return self._is_ancestor(f"refs/heads/{branch}", commit) or self._setting(branch, "dibsMerged") == self._head(
            branch
        )

    def is_part_of_commit(self, commit: str, other: str) -> bool:
        return self._is_ancestor(commit, other)

    def was_merged(self, tree: Worktree) -> bool:
        return self._setting(tree.branch, "dibsMerged") == self._head(tree.branch)

    def branch_of(self, record: object) -> str | None:
        """The branch in a task's record, if this repository has it."""
        branch = record.get("branch") if isinstance(record, dict) else None
        return branch if isinstance(branch, str) and self._head(branch) is not None else None

    def commit_all(self, tree: Worktree, message: str) -> None:
        self._do(tree.path, "add", "--all", "--", ".")
        self._do(tree.path, "commit", "--quiet", f"--message={message}")

    # Merge

    def _merge_into(self, tree: Worktree, commit: str, what: str) -> None:
        ran = self._run(tree.path, "merge", "--no-edit", f"--message=Merge {what} into {tree.branch}", commit)
        if ran.status == 0:
            return
        listed = self._ask(tree.path, "diff", "--name-only", "--diff-filter=U", "-z") or ""
        files = [name for name in listed.split("\0") if name]
        self._run(tree.path, "merge", "--abort")
        git = command("git", "-C", tree.path, "merge", commit)
        raise MergeRefused(
            f"{tree.branch} and {what} conflict in {', '.join(files[:5])}" if files
            else f"{tree.branch} could not take in {what}: {ran.said}",
            f"Run {git}, resolve the conflict and commit it. "
            f"Then run {command('dibs', 'unblock', tree.task)}: the next attempt goes on from there.",
        )  # fmt: skip

    @contextmanager
    def merging(self, meanwhile: Callable[[], object]) -> Iterator[None]:
        """One merge at a time in this repository."""
        with self._alone("merging", meanwhile):
            yield

    def take_in(self, tree: Worktree, target: str) -> str:
        """Bring the target's commits into the task's branch, and return the target's commit."""
        commit = self._head(target)
        if commit is None:
            raise MergeRefused(f"there is no branch {target} any more", f"Make it, then run {_unblock(tree)}.")
        if not self._is_ancestor(commit, f"refs/heads/{tree.branch}"):
            self._merge_into(tree, commit, target)
        self._set(tree.branch, "dibsBase", commit)  # from here on the branch differs only by the task's changes
        return commit

    def advance(self, tree: Worktree, target: str, old: str, message: str | None) -> None:
        """Move the target to the task's branch, or, with a message, to one commit with all its changes."""
        head = self._do(self.root, "rev-parse", f"refs/heads/{tree.branch}")
        if head != old and not (message is not None and self._same_tree(head, old)):
            new = (
                head
                if message is None
                else self._do(self.root, "commit-tree", f"{head}^{{tree}}", "-p", old, "-m", message)
            )
            place = next(
                (each["worktree"] for each in self._listed() if each.get("branch") == f"refs/heads/{target}"), None
            )
            if place is None:
                self._do(self.root, "update-ref", f"refs/heads/{target}", new, old)
            elif (ran := self._run(place, "merge", "--ff-only", new)).status:
                raise MergeRefused(
                    f"{target} is checked out in {place} and cannot be moved there: {ran.said}",
                    f"Commit or stash what is changed in {place}, then run {_unblock(tree)}.",
                )
        self._set(tree.branch, "dibsMerged", head)

    def _same_tree(self, one: str, other: str) -> bool:
        return self._do(self.root, "rev-parse", f"{one}^{{tree}}") == self._do(
            self.root, "rev-parse", f"{other}^{{tree}}"
        )

    # Remove

    def _on_no_branch(self, tree: Worktree, into: str) -> str | None:
        """The commit of a worktree whose HEAD is detached, unless it is part of the target or of the task's branch."""
        if not os.path.isdir(tree.path) or self._ask(tree.path, "symbolic-ref", "--quiet", "HEAD") is not None:
            return None
        head = self._do(tree.path, "rev-parse", "HEAD")
        known = (into, f"refs/heads/{tree.branch}")
        return None if any(self._is_ancestor(head, commit) for commit in known) else head

    def remove(self, tree: Worktree, into: str) -> None:
        """Remove a worktree and its branch. Refuse if that would lose work."""
        with self._alone():
            if not os.path.isdir(tree.path) and self._head(tree.branch) is None:
                raise NotFound(f"There is no worktree of {tree.task}; 'dibs worktree list' lists the worktrees.")
            if left := self.uncommitted(tree):
                raise Refused(
                    f"{tree.path} has {left} file(s) with uncommitted changes. Nothing was removed. "
                    "Commit them there, or discard them with git."
                )
            if not self.is_merged(tree, into):
                place = "the branch checked out here" if _HASH.fullmatch(into) else into
                raise Refused(
                    f"{tree.branch} has commits that are not in {place}. Nothing was removed. "
                    f"Merge it first: {command('git', 'merge', tree.branch)}"
                )
            if lost := self._on_no_branch(tree, into):
                raise Refused(
                    f"{tree.path} is at the commit {lost}, which is on no branch. Nothing was removed. "
                    f"Keep it with: {command('git', 'branch', 'NAME', lost)}"
                )
            if os.path.isdir(tree.path):
                self._do(self.root, "worktree", "remove", "--", tree.path)
            if self._head(tree.branch) is not None:
                self._do(self.root, "branch", "-D", "--", tree.branch)


def _unblock(tree: Worktree) -> str:
    return command("dibs", "unblock", tree.task)


class WorktreeOptions(NamedTuple):
    """Where worktrees and new branches start, and how finished work is merged.

    `merge` is ff or squash, `into` the branch to merge into, `check` a shell command that must succeed first. `commit`
    commits the uncommitted changes of a successful command.
    """

    start: str
    base: str | None = None
    base_on_deps: bool = False
    merge: str | None = None
    into: str | None = None
    check: str | None = None
    pull_request: bool = False
    commit: bool = False


def worktree_folders(options: WorktreeOptions) -> tuple[str, ...]:
    """The folder that a task's command writes to, apart from its worktree: the store's."""
    return (os.path.dirname(Repository(options.start).home),)


class TaskTrees:
    """The worktrees of a worker's tasks."""

    def __init__(self, options: WorktreeOptions) -> None:
        self.options = options
        self._repository = Repository(options.start)

    def open(self, desk: Desk, claimed: Claimed) -> Worktree:
        repository, task = self._repository, claimed.task
        base = repository.commit(self.options.base or self.options.into or "HEAD")
        bases = [base]
        for given in claimed.inputs if self.options.base_on_deps else ():
            branch = repository.branch_of(desk.get(given.id).extra.get(GIT))
            if branch is not None and not repository.is_part(branch, base):
                bases.append(repository.commit(f"refs/heads/{branch}"))
        if len(bases) > 1 and repository.is_part_of_commit(base, bases[1]):
            del bases[0]
        return repository.open(task.scope, task.id, bases)

    def record(self, tree: Worktree) -> dict[str, Json]:
        found = self._repository.record(self._repository.named(tree.scope, tree.task))
        if self.options.merge is not None and self.options.into and self._repository.was_merged(tree):
            found["target"] = self.options.into
        return found

    def merge(
        self, tree: Worktree, task: Task, keep: Callable[[], object], check: Callable[[], str | None] | None
    ) -> str | None:
        """Merge the task's branch into the target, one task at a time; or return why the attempt failed."""
        options, repository = self.options, self._repository
        assert options.into is not None
        if left := repository.uncommitted(tree):
            return f"{left} file(s) in the worktree are not committed; commit what belongs to the task"
        message = f"{task.title}\n\nTask: {task.id}\n" if options.merge == "squash" else None
        with repository.merging(keep):
            old = repository.take_in(tree, options.into)
            if check is not None and (refused := check()) is not None:
                return refused
            if left := repository.uncommitted(tree):
                return f"the check left {left} changed or new file(s) in the worktree; ignore or commit them"
            repository.advance(tree, options.into, old, message)
        return None

    def commit(self, tree: Worktree, task: Task) -> None:
        """Commit everything that git does not ignore; Refused if git or a hook does."""
        if self._repository.uncommitted(tree):
            self._repository.commit_all(tree, f"{task.title}\n\nTask: {task.id}\n")

    def pull_request(self, tree: Worktree, task: Task) -> str:
        """Open a pull request with gh if it is installed, else return the command to run."""
        target = self.options.into or self._repository.current_branch() or "main"
        words = (
            "gh",
            "pr",
            "create",
            "--head",
            tree.branch,
            "--base",
            target,
            f"--title={task.title}",
            f"--body=Task: {task.id}",
        )
        push = ("git", "-C", tree.path, "push", "--set-upstream", "origin", f"refs/heads/{tree.branch}")
        if which("gh") is None:
            return f"open a pull request with: {command(*push)} && {command(*words)}"
        for line in (push, words):
            ran = subprocess.run(  # noqa: S603 - words that no shell reads
                line, cwd=tree.path, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE
            )
            if ran.returncode:
                why = " ".join(ran.stderr.decode(errors="replace").split())[-_SAID:]
                return f"no pull request was opened, because {line[0]} failed: {why}"
        return f"pull request: {ran.stdout.decode(errors='replace').strip()}"
