"""Run git in a clone; read, compare and create commits.

Nothing here touches the folder, or the index in which a person may have staged changes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from dibs.core.errors import StoreError, StoreUnavailable
from dibs.stores.vault.places import IN_PROGRESS, SUFFIX, TASK_FOLDERS

# Variables that point git at another repository or make it print traces.
_FOREIGN = re.compile(
    r"GIT_(?:DIR|WORK_TREE|IMPLICIT_WORK_TREE|COMMON_DIR|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|PREFIX"
    r"|NAMESPACE|SHALLOW_FILE|GRAFT_FILE|REPLACE_REF_BASE|NO_REPLACE_OBJECTS|EXTERNAL_DIFF|\w+_PATHSPECS|TRACE\w*"
    r"|CURL_VERBOSE|REDIRECT_\w+)"
)
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "SSH_ASKPASS_REQUIRE": "never",
}
_SETTINGS = (
    "core.hooksPath=/dev/null",  # a hook that asks or edits would stop agents; the remote's hooks do run
    "core.autocrlf=false",  # no conversion, except by the repository's own attributes
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "advice.detachedHead=false",
)
_OURS = b"core.hooksPath=/dev/null"  # in the words of every git of ours
_CHANGING = frozenset(
    b"add am apply checkout cherry-pick commit merge mv read-tree rebase reset restore revert rm stash switch".split()
)
_SECRET = re.compile(r"(?<=://)[^\s/]*@")
_UNINFORMATIVE = ("To ", "hint:", "error: failed to push some refs")
_ADVICE = "\nAnother git process seems to be running"  # followed by lines of advice
_LINES_SHOWN = 3
_DEFAULT_NAME = {"NAME": "dibs", "EMAIL": "dibs@localhost"}


class Ran(NamedTuple):
    """The result of a command. `status` None: it was killed after the time limit."""

    status: int | None
    out: bytes
    said: str

    @property
    def ok(self) -> bool:
        return self.status == 0


class Git:
    """The git command in one clone."""

    def __init__(self, root: str, timeout: float) -> None:
        self.root = root
        self.timeout = timeout
        self._environment = {key: value for key, value in os.environ.items() if not _FOREIGN.fullmatch(key)} | _ALWAYS
        self._introduced = False

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        """Run git to its end. It has no terminal, and signals to this process do not reach it."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        environment = self._environment if index is None else {**self._environment, "GIT_INDEX_FILE": index}
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed program, and words that no shell reads
                ["git", "-C", self.root, *settings, *words],  # noqa: S607 - the git that the person uses
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise StoreUnavailable(
                "There is no git on this machine. Install it, or use the vault without git."
            ) from None
        with process:
            try:
                out, errors = process.communicate(given, self.timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return Ran(None, b"", f"no answer within {self.timeout:g} s")
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return Ran(process.returncode, out, _last_lines(errors))

    def do(self, *words: str, given: bytes = b"", index: str | None = None) -> bytes:
        """Run git and return its output; StoreError if it fails."""
        ran = self.run(*words, given=given, index=index)
        if not ran.ok:
            raise StoreError(f"git {words[0]} failed in {self.root}: {ran.said or f'status {ran.status}'}")
        return ran.out

    def names(self, *words: str) -> list[str]:
        """The file names that a command with `-z` prints."""
        return [os.fsdecode(raw) for raw in self.do(*words).split(b"\0") if raw]

    def ask(self, *words: str, answers: Collection[int] = (0,)) -> str | None:
        """One line of output; None if git exits with one of the other expected statuses."""
        ran = self.run(*words)
        if ran.ok:
            return ran.out.decode(errors="surrogateescape").rstrip("\n")
        if ran.status in answers:
            return None
        raise StoreError(f"git {words[0]} failed in {self.root}: {ran.said or f'status {ran.status}'}")

    def introduce(self) -> None:
        """Commit under the name dibs if this machine has none configured."""
        if self._introduced:
            return
        for role in ("AUTHOR", "COMMITTER"):
            if not self.run("var", f"GIT_{role}_IDENT").ok:
                self._environment |= {f"GIT_{role}_{part}": value for part, value in _DEFAULT_NAME.items()}
        self._introduced = True


def others_at_work(root: str) -> bool:
    """Whether a person's git changes the folder or the index at this moment. Unknown, so False, without /proc."""
    try:
        return any(_changes_folder(name, root) for name in os.listdir("/proc") if name.isdigit())
    except FileNotFoundError:
        return False


def _changes_folder(process: str, root: str) -> bool:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        if os.path.basename(words[0]) != b"git" or _OURS in words or _CHANGING.isdisjoint(words):
            return False
        return f"{os.readlink(f'/proc/{process}/cwd')}/".startswith(f"{root}/")
    except OSError:
        return False  # it has ended, or belongs to another user


def _last_lines(errors: bytes) -> str:
    """The last lines of git's output, without user names and passwords in URLs."""
    lines = [line.strip() for line in errors.decode(errors="replace").partition(_ADVICE)[0].splitlines()]
    useful = [line for line in lines if line and not line.startswith(_UNINFORMATIVE)]
    return _SECRET.sub("…@", "; ".join(useful[-_LINES_SHOWN:]))


_TASK = "task:"  # a path cannot begin like this and have a slash here


def unit_of(path: str) -> str:
    """The unit of a path: one name for all places of a task's file, or the path itself."""
    folder, _, tail = path.partition("/")
    if folder == IN_PROGRESS:
        tail = tail.partition("/")[2]
    if folder in TASK_FOLDERS and tail.endswith(SUFFIX) and not tail.rpartition("/")[2].startswith("."):
        return f"{_TASK}/{tail}"
    return path


def identity(domain: str, task_id: str) -> str:
    """The name of a task at the remote, independent of its file's name."""
    return f"{_TASK}/{domain}/{task_id}" if domain else f"{_TASK}/{task_id}"


def is_task(unit: str) -> bool:
    return unit.startswith(f"{_TASK}/")


def shown(unit: str) -> str:
    """A unit as shown to people: a task by scope and file name, another file by its path."""
    return unit.removeprefix(f"{_TASK}/")


def places_of(unit: str, holders: Iterable[str]) -> Iterator[str]:
    """Every possible path of a unit, given the folders in In_Progress."""
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
INDEX = "index-"  # the prefix of our own index files

_numbers = count()


class Blob(NamedTuple):
    """A file's mode and content hash in git."""

    mode: str
    sha: str


Places = Mapping[str, Blob]  # the files of a unit; empty: none
Units = dict[str, dict[str, Blob]]


class Difference(NamedTuple):
    """A unit in two commits."""

    before: Places
    after: Places


class Trees:
    """The commits of one clone. The last one read is kept, so that the next costs only the difference."""

    def __init__(self, git: Git, home: str) -> None:
        self._git = git
        self._home = home  # for files of ours within the git directory
        self._known: tuple[str, Units] | None = None
        self._empty: str | None = None

    def at(self, commit: str | None) -> Units:
        """The files of a commit by unit. Do not change the result."""
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
        """Every path of the commit read last."""
        return set() if self._known is None else {path for places in self._known[1].values() for path in places}

    def differences(self, one: str | None, other: str | None) -> dict[str, Difference]:
        """The units that differ between two commits."""
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
        """A commit, or the empty tree if there is none yet."""
        if commit is not None:
            return commit
        if self._empty is None:
            self._empty = self._git.do("mktree").decode().strip()
        return self._empty

    def write(self, path: str, data: bytes) -> str:
        """Store a content, converted by the attributes of its path."""
        return self._git.do("hash-object", "-w", "--stdin", f"--path={path}", given=data).decode().strip()

    def hash(self, path: str, data: bytes) -> str:
        return self._git.do("hash-object", "--stdin", f"--path={path}", given=data).decode().strip()

    def write_plain(self, data: bytes) -> str:
        """Store a content without conversion."""
        return self._git.do("hash-object", "-w", "--stdin", "--no-filters", given=data).decode().strip()

    def plain(self, blob: Blob) -> bytes:
        return self._git.do("cat-file", "blob", blob.sha)

    def knows(self, data: bytes) -> bool:
        """Whether git has this content."""
        sha = self._git.do("hash-object", "--stdin", "--no-filters", given=data).decode().strip()
        return self._git.ask("cat-file", "-e", sha, answers=(0, 1)) is not None

    def contents(self, shas: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Several contents from one git process."""
        output = self._git.do("cat-file", "--batch", given="".join(f"{sha}\n" for sha in shas).encode())
        at = 0
        while at < len(output):
            end = output.index(b"\n", at)
            sha, _, size = output[at:end].decode().split(" ")
            yield sha, output[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)

    def content(self, path: str, blob: Blob) -> bytes:
        return self._git.do("cat-file", "--filters", f"--path={path}", blob.sha)

    def commit(self, onto: str | None, changes: Mapping[str, Difference], message: str, *parents: str | None) -> str:
        """Create a commit that differs from `onto` in these units only. No branch points to it yet."""
        self._git.introduce()
        with self._index(onto) as index:
            self._git.do("update-index", "-z", "--index-info", given=index_lines(changes.values()), index=index)
            tree = self._git.do("write-tree", index=index).decode().strip()
        lines = [word for parent in parents if parent is not None for word in ("-p", parent)]
        return self._git.do("commit-tree", tree, *lines, given=message.encode()).decode().strip()

    def commit_empty(self, message: str, parent: str | None) -> str:
        """Create a commit without files, which carries a message."""
        self._git.introduce()
        words = () if parent is None else ("-p", parent)
        return self._git.do("commit-tree", self.tree(None), *words, given=message.encode()).decode().strip()

    def check_out(self, commit: str, paths: Iterable[str], into: str) -> None:
        """Check out files of a commit below a folder of ours. Git lets no path lead out of it."""
        wanted = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with self._index(commit) as index:
            self._git.do("checkout-index", "-z", "--stdin", "--force", f"--prefix={into}/", given=wanted, index=index)

    def tidy(self) -> None:
        """Remove index files of killed processes. Needs the clone's lock."""
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
    """Input for `update-index --index-info` that brings these units to their later state, deletions first."""
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
