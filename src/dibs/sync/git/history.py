"""The branch of a clone and its remote: fetch, push, and merge commits that people made here.

A merge leaves no conflict to a person and loses no text. A task is one unit: the state that continues the other one
wins, else the remote's. Notes are merged line by line. Text that would be lost is copied to `Errors/`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import Counter
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import InvalidInput, StoreBusy, StoreError, StoreUnavailable
from dibs.stores.vault.places import NEEDS_ACTION, numbered
from dibs.sync.git import folder
from dibs.sync.git.claims import lease_of
from dibs.sync.git.repository import MODULE, REGULAR, Blob, Difference, by_unit, is_task, others_at_work, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from dibs.sync.git.claims import Claim
    from dibs.sync.git.folder import Folder
    from dibs.sync.git.repository import Git, Places, Trees

    File = tuple[str, bytes]

_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
_REBASES = ("rebase-merge", "rebase-apply")
_RESUMABLE = ("MERGE_HEAD", *_REBASES)  # left by a `git pull` that stopped
_MERGING = ("MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "AUTO_MERGE")
_AT_IT = 30.0  # seconds after a file's last change in which a person may be merging notes
_OURS = 2  # the stage of an index with our side of a merge
_LATELY = "3.days"
_TRIES = 3
_STALE = 60.0  # seconds


class Reach(Enum):
    REACHED = "reached"
    OFFLINE = "offline"


class Refs(NamedTuple):
    """Commits; None where there is none yet."""

    head: str | None  # of the branch in the folder
    theirs: str | None  # the remote's, as of the last fetch
    seen: str | None  # the remote's, as last brought into the folder


class History:
    """One clone's branch, here and at the remote."""

    def __init__(self, git: Git, trees: Trees, remote: str, branch: str | None, git_dir: str, folder: Folder) -> None:
        self._git = git
        self._trees = trees
        self._git_dir = git_dir
        self._folder = folder
        common = git.do("rev-parse", "--git-common-dir").decode().rstrip("\n")
        self._common_dir = os.path.join(git.root, common)
        self.remote = remote
        self._refuse_unknown_remote()
        self.branch = ""  # on no branch
        self._settle_on(branch or self._branch_in_folder())
        self._fetched: str | None = None
        self.unreached: str | None = None  # why the last attempt to reach the remote failed

    def _settle_on(self, branch: str | None) -> None:
        if branch is not None and self._git.ask("check-ref-format", "--branch", branch, answers=(0, 128)) != branch:
            raise InvalidInput(f"'{branch}' cannot be a branch's name.")
        self.branch = branch or ""
        self._ours = f"refs/heads/{self.branch}"
        self._theirs = f"refs/remotes/{self.remote}/{self.branch}"
        self._seen = f"refs/dibs/seen/{self.remote}/{self.branch}"

    def _refuse_unknown_remote(self) -> None:
        known = self._git.do("remote").decode().split()
        if self.remote not in known:
            there = f"It has: {', '.join(known)}." if known else "'git remote add' adds one."
            raise StoreUnavailable(f"This clone has no remote '{self.remote}'. {there}")

    def _branch_in_folder(self) -> str | None:
        ref = self._git.ask("symbolic-ref", "-q", "HEAD", answers=(0, 1))
        return None if ref is None else ref.removeprefix("refs/heads/")

    def trouble(self) -> str | None:
        """Why agents have to wait for a person, or None."""
        for name, what in _UNDER_WAY.items():
            if os.path.exists(os.path.join(self._git_dir, name)):
                return f"A {what} is under way in this clone. Finish it, or 'git {what} --abort'."
        branch = self._branch_in_folder()
        if not self.branch:
            self._settle_on(branch)
        if branch is None:
            return f"The clone is on no branch. Run 'git switch {self.branch or 'BRANCH'}'."
        if branch != self.branch:
            return f"The clone is on the branch {branch}, not {self.branch}. Run 'git switch {self.branch}'."
        return None

    def look(self) -> Refs:
        """The current commits, after ending a merge that has stopped. StoreBusy if a person has to act."""
        self._end_stopped_merge()
        return self.refs_at_rest()

    def refs_at_rest(self) -> Refs:
        """The current commits. StoreBusy while a merge or rebase is under way."""
        trouble = self.trouble()
        if trouble is not None:
            raise StoreBusy(trouble)
        return self.refs()

    def _end_stopped_merge(self) -> None:
        """End a merge or rebase that stopped over conflicts, and a rebase whose git failed; the next pull merges.

        A merge without conflicts waits for a person's commit.
        """
        self.end_failed_merge()
        under_way = [name for name in _RESUMABLE if os.path.exists(os.path.join(self._git_dir, name))]
        if not under_way:
            return
        stages = self._stages()
        if not (stages or self._failed_rebase()) or self._attended(under_way, stages) or others_at_work(self._git.root):
            return
        for path, blobs in stages.items():
            self._unmark(path, blobs)
        branch = self._rebased_branch()
        if branch is None:
            self._git.do("read-tree", "--reset", "HEAD")
        else:
            self._leave_rebase(branch, by_unit(stages))
        self._forget((*_MERGING, *under_way))

    def end_failed_merge(self) -> bool:
        """Forget a merge that git has recorded without merging, because another git had locked the index.

        A commit would count it as done and drop all that the remote has changed.
        """
        place = os.path.join(self._git_dir, "MERGE_HEAD")
        if not os.path.exists(place) or os.path.exists(os.path.join(self._git_dir, "AUTO_MERGE")) or self._stages():
            return False  # none is under way, or git has merged
        with open(place, encoding="ascii") as file:
            theirs = file.read().split()
        common = self._git.ask("merge-base", "HEAD", *theirs, answers=(0, 1))
        if common is None or len(theirs) != 1:
            return False
        staged = self._staged_since(common)
        came = self._trees.differences(common, theirs[0])
        if any(staged.get(path) == blob for change in came.values() for path, blob in change.after.items()):
            return False
        self._forget(_MERGING)
        return True

    def _staged_since(self, commit: str) -> dict[str, Blob]:
        """Files of the index that differ from a commit."""
        words = self._git.do("diff-index", "--cached", "--raw", "-z", "--no-renames", commit).split(b"\0")
        found = {}
        for about, raw in zip(words[:-1:2], words[1::2], strict=True):
            _, mode, _, sha, _ = about.decode().split(" ")
            found[os.fsdecode(raw)] = Blob(mode, sha)
        return found

    def _forget(self, names: Iterable[str]) -> None:
        """Remove git's notes of a merge or rebase."""
        for name in names:
            path = os.path.join(self._git_dir, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)

    def _attended(self, under_way: Iterable[str], paths: Collection[str]) -> bool:
        """Whether a person may be at work on it: tasks alone are not merged by hand."""
        if paths and all(is_task(unit_of(path)) for path in paths):
            return False
        places = [
            *(os.path.join(self._git_dir, name) for name in under_way),
            *(self._git.root + f"/{p}" for p in paths),
        ]
        return any(os.path.lexists(place) and self._age(place) < _AT_IT for place in places)

    def _stages(self) -> dict[str, dict[int, str]]:
        """The versions of a stopped merge by path and stage: before, ours and theirs."""
        found: dict[str, dict[int, str]] = {}
        for record in self._git.do("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
            about, _, raw = record.partition(b"\t")
            _, sha, stage = about.decode().split(" ")
            found.setdefault(os.fsdecode(raw), {})[int(stage)] = sha
        return found

    def _unmark(self, path: str, blobs: Mapping[int, str]) -> None:
        """Restore a file with conflict markers to our version, unless a person has added text to it."""
        place = os.path.join(self._git.root, path)
        if os.path.islink(place) or not os.path.isfile(place):
            return
        with open(place, "rb") as file:
            data = file.read()
        contents = {stage: self._git.do("cat-file", "blob", sha) for stage, sha in blobs.items()}
        known = {line for content in contents.values() for line in content.split(b"\n")}
        if not marked(data) or not known.issuperset(without_markers(data)) or _OURS not in contents:
            return
        fresh = os.path.join(self._git_dir, "dibs", "unmarked")
        with open(fresh, "wb") as file:
            file.write(contents[_OURS])
        os.replace(fresh, place)

    def _failed_rebase(self) -> bool:
        """Whether a rebase stopped without conflicts, as when another git has locked the index or the branch."""
        place = os.path.join(self._git_dir, "rebase-merge")
        try:
            with open(os.path.join(place, "done"), encoding="utf-8", errors="surrogateescape") as file:
                last = file.read().splitlines()[-1:]
        except FileNotFoundError:
            return False
        return bool(last) and last[0].startswith(("pick ", "noop")) and not os.path.exists(os.path.join(place, "amend"))

    def _rebased_branch(self) -> str | None:
        for name in _REBASES:
            try:
                with open(
                    os.path.join(self._git_dir, name, "head-name"), encoding="utf-8", errors="surrogateescape"
                ) as file:
                    return file.read().strip()
            except FileNotFoundError:
                continue
        return None

    def _leave_rebase(self, branch: str, conflicts: Iterable[str]) -> None:
        """Switch back to the branch with both its own commits and those that the rebase, or people since, have made.

        The branch has not moved yet, and the folder lacks the commits that the rebase has not applied.
        """
        ours, done = (self._git.do("rev-parse", "--verify", name).decode().strip() for name in (branch, "HEAD"))
        both = self._joined(ours, done)
        changes = self._trees.differences(done, both)
        before = {unit: self._trees.at(ours if is_task(unit) else done).get(unit, {}) for unit in conflicts}
        changes |= {unit: Difference(places, self._trees.at(both).get(unit, {})) for unit, places in before.items()}
        self._folder.bring(changes, both)
        self._git.do("read-tree", "--reset", both)
        self._git.do("update-ref", "-m", "dibs: end a rebase", branch, both, ours)
        self._git.do("symbolic-ref", "HEAD", branch)

    def _joined(self, ours: str, other: str) -> str:
        common = self._git.ask("merge-base", ours, other, answers=(0, 1))
        if common is None or common == other:
            return ours
        return other if common == ours else self._merge(ours, other, common)

    def refs(self) -> Refs:
        words = ("for-each-ref", "--format=%(refname) %(objectname)", self._ours, self._theirs, self._seen)
        found = dict(line.rsplit(" ", 1) for line in self._git.do(*words).decode(errors="surrogateescape").splitlines())
        return Refs(found.get(self._ours), found.get(self._theirs), found.get(self._seen))

    def goal(self, refs: Refs) -> str | None:
        """The commit to bring the folder to: the remote's, merged with commits that people made here."""
        head, theirs, seen = refs
        if head is None or theirs is None or head == theirs:
            return theirs or head
        rewritten = seen is not None and not self.includes(theirs, seen)
        if rewritten and theirs != self._fetched:
            return head  # only a fetch of this process proves a rewritten history
        if seen is not None and self.includes(seen, head):
            return theirs  # the remote has had all commits made here; if it has dropped some, so do we
        if rewritten:
            raise StoreUnavailable(
                f"The history of {self.remote}/{self.branch} was rewritten, and there are commits here that it never "
                "had. Rebase or merge them by hand."
            )
        common = self._git.ask("merge-base", head, theirs, answers=(0, 1))
        if common is None:
            raise StoreUnavailable(
                f"{self.branch} and {self.remote}/{self.branch} have no commit in common. Clone the remote again, or "
                "'git merge --allow-unrelated-histories' if they belong together."
            )
        if common in {head, theirs}:
            return theirs if common == head else head
        return self._merge(head, theirs, common)

    def _merge(self, head: str, theirs: str, common: str) -> str:
        made, came = self._trees.differences(common, head), self._trees.differences(common, theirs)
        changes = Merge(self._git, self._trees, self._folder.keep, (head, theirs)).changes(made, came)
        return self._trees.commit(head, changes, f"Merge {self.remote}/{self.branch}", head, theirs)

    def had(self, sha: str, refs: Refs) -> set[str]:
        """The paths that had this content in commits of the last days."""
        commits = [commit for commit in refs if commit is not None]
        words = ("log", "--format=", "--name-only", "-z", "--no-renames", f"--find-object={sha}", f"--since={_LATELY}")
        return {os.fsdecode(raw.strip(b"\n")) for raw in self._git.do(*words, *commits).split(b"\0") if raw.strip()}

    def includes(self, commit: str, earlier: str) -> bool:
        return self._git.ask("merge-base", "--is-ancestor", earlier, commit, answers=(0, 1)) is not None

    def count(self, present: str | None, absent: str | None) -> int:
        """The number of commits that one has and the other lacks."""
        if present is None:
            return 0
        words = [present] if absent is None else [present, f"^{absent}"]
        return int(self._git.do("rev-list", "--count", *words))

    def advance(self, refs: Refs, to: str | None, theirs: str | None) -> bool:
        """Move the branch and note the remote's commit. False if a person has committed since."""
        lines = []
        if to is not None and to != refs.head:
            lines += [f"update {self._ours}", to, refs.head or "0" * len(to)]
        if theirs is not None and theirs != refs.theirs:
            lines += [f"update {self._theirs}", theirs, ""]
        if theirs is not None and theirs != refs.seen:
            lines += [f"update {self._seen}", theirs, ""]
        if not lines:
            return True
        given = "".join(f"{line}\0" for line in lines).encode(errors="surrogateescape")
        ran = self._git.run("update-ref", "-m", "dibs: sync", "--stdin", "-z", given=given)
        if not ran.ok and self.refs().head == refs.head:
            self._remove_stale_locks(ran.said)
        return ran.ok

    def _remove_stale_locks(self, said: str) -> None:
        """Delete old locks on branches, left by a killed git. StoreBusy if there is none."""
        removed = False
        for ref in (self._ours, self._theirs, self._seen):
            lock = os.path.join(self._common_dir, f"{ref}.lock")
            if os.path.exists(lock) and self._age(lock) > _STALE:
                os.unlink(lock)
                removed = True
        if not removed:
            raise StoreBusy(f"Another git has locked the branch: {said}", retry_after_ms=1000)

    def _age(self, path: str) -> float:
        """A file's age in seconds, by the file system's clock."""
        marker = os.path.join(self._git_dir, "dibs", "now")
        with open(marker, "wb"):
            os.utime(marker)
        return os.stat(marker).st_mtime - os.lstat(path).st_mtime

    # The remote

    def fetch(self, *more: str) -> Reach:
        """Fetch the branch, and further references named in `more`."""
        words = ("fetch", "--quiet", "--no-tags", "--prune", "--no-write-fetch-head", "--no-recurse-submodules")
        said = ""
        for _ in range(_TRIES):
            ran = self._git.run(*words, self.remote, f"+{self._ours}:{self._theirs}", *more)
            if ran.ok:
                return self._reached()
            said = ran.said
            asked = ran if ran.status is None else self._git.run("ls-remote", self.remote, self._ours)
            if not asked.ok:
                self.unreached = asked.said
                return Reach.OFFLINE
            if not asked.out.strip():
                self._git.run("update-ref", "-d", self._theirs)  # the remote has no such branch
                return self._reached()
            if self._is_behind(asked.out):
                self._remove_stale_locks(said)
        raise StoreError(f"git fetch failed: {said}")

    def note_fetch(self, began: float) -> None:
        """Record the time of a fetch for other processes, by the machine's monotonic clock."""
        path = os.path.join(self._git_dir, "dibs", "pulled")
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(f"{began!r}")
        os.replace(f"{path}.new", path)

    def fetched_since(self, moment: float) -> bool:
        """Whether a process of this clone has fetched since then."""
        try:
            with open(os.path.join(self._git_dir, "dibs", "pulled"), encoding="ascii") as file:
                return moment < float(file.read()) <= time.monotonic()
        except (FileNotFoundError, ValueError):
            return False

    def _is_behind(self, heads: bytes) -> bool:
        """Whether the remote has a commit that the fetch did not bring."""
        return heads.split()[0].decode() != self.refs().theirs

    def _reached(self) -> Reach:
        self.unreached = None
        self._fetched = self.refs().theirs
        return Reach.REACHED

    def push(self, commit: str, ended: Sequence[Claim] = ()) -> str | None:
        """Push a commit on top of the remote's, and delete ended claims if they are unchanged there: both or neither.

        Returns git's message if the remote has refused.
        """
        onto = f"{commit}:{self._ours}"
        leases = [lease_of(claim.reference, claim) for claim in ended]
        gone = [f":{claim.reference}" for claim in ended]
        ran = self._git.run("push", "--quiet", *(["--atomic"] if ended else []), *leases, self.remote, onto, *gone)
        if ended and not ran.ok and "--atomic" in ran.said:  # the remote does not support it: push the commit first
            ran = self._git.run("push", "--quiet", self.remote, onto)
            if ran.ok:
                self._git.run("push", "--quiet", *leases, self.remote, *gone)
        if ran.ok:
            self.unreached = None
            return None
        return ran.said or f"status {ran.status}"

    def pushed(self, commit: str) -> None:
        """Record the remote's new commit. Not every clone is configured so that git does this."""
        self._git.run("update-ref", "-m", "dibs: push", self._theirs, commit)

    def refused(self, said: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self.remote} refused the push to {self.branch}: {said}")


_TEXTS = (".md", ".txt", ".canvas")  # in these, a conflict keeps the lines of both sides
_MARKER = re.compile(rb"(?:<{7}|={7}|>{7}|\|{7})(?: .*)?\r?")


class Merge:
    """The merge of two commits, ours and the remote's. `keep` copies a text to `Errors/`."""

    def __init__(self, git: Git, trees: Trees, keep: Callable[[str, bytes], str], commits: tuple[str, str]) -> None:
        self._git = git
        self._trees = trees
        self._keep = keep
        self._commits = commits

    def changes(self, ours: Mapping[str, Difference], theirs: Mapping[str, Difference]) -> dict[str, Difference]:
        """The changes that our side needs, given the changes of both sides since their common commit."""
        tasks = {unit for unit in {*ours, *theirs} if is_task(unit)}
        changes = self._tasks(Sides(*(_places_of(tasks, lines) for lines in _versions(ours, theirs))))
        for unit, came in theirs.items():
            made = ours.get(unit)
            if unit in tasks:
                continue
            if made is None:
                changes[unit] = came
            elif made.after != came.after and (after := self._note(made, came)) != made.after:
                changes[unit] = Difference(made.after, after)
        return changes

    def _tasks(self, sides: Sides) -> dict[str, Difference]:
        """Merge task by task, whatever their files are called. One side's change counts, else the remote's."""
        merged: dict[str, Blob] = {}
        ours: list[tuple[str, Blob]] = []
        for paths in _by_task(Sides(*map(self._plain_files, sides))):
            taken = self._settled(*(_only(places, here) for places, here in zip(sides, paths, strict=True)))
            for path, blob in taken.items():
                ours += [] if path in paths[-1] else [(path, blob)]
                merged |= {path: blob} if path in paths[-1] else {}
        for path, blob in ours:
            merged[self._free(path, merged) if path in merged else path] = blob
        units = by_unit({*merged, *sides.ours})
        pairs = ((unit, _only(sides.ours, paths), _only(merged, paths)) for unit, paths in units.items())
        return {unit: Difference(now, after) for unit, now, after in pairs if now != after}

    def _plain_files(self, places: Places) -> list[File]:
        texts = dict(self._trees.contents({blob.sha for blob in places.values() if blob.mode != MODULE}))
        return [(path, texts.get(blob.sha, b"")) for path, blob in places.items()]

    def _settled(self, before: Places, made: Places, came: Places) -> Places:
        """The files of one task after the merge."""
        if came in (before, made) or self._continues(made, came):
            return made
        if before != made and not self._continues(came, made):
            known = [*self._files(before), *self._files(came)]
            for file in self._files(made):
                if folder.loses(file, known):
                    self._keep(*file)
        return came

    def _free(self, path: str, merged: Collection[str]) -> str:
        """A numbered name beside this one that no other file has."""
        place, _, name = path.rpartition("/")
        names = (f"{place}/{numbered(name, number)}" for number in count(2))
        return next(one for one in names if one not in merged and not self._used(unit_of(one)))

    def _used(self, unit: str) -> bool:
        return any(unit in self._trees.at(commit) for commit in self._commits)

    def _continues(self, later: Places, earlier: Places) -> bool:
        """Whether one state continues the other, by the holder's hand."""
        one, other = self._files(later), self._files(earlier)
        return len(one) == len(other) == 1 and folder.goes_on(one[0], other[0])

    def _note(self, made: Difference, came: Difference) -> Places:
        """Merge a note. An edit wins over a deletion; of two edits both are kept."""
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
        """Both texts merged; None if they conflict."""
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


class Sides(NamedTuple):
    """Something before the two sides have parted, and on each."""

    before: Any
    ours: Any
    theirs: Any


def _versions(ours: Mapping[str, Difference], theirs: Mapping[str, Difference]) -> Iterator[dict[str, Places]]:
    """The units that differ, before and on each side."""
    before = {unit: change.before for unit, change in (*ours.items(), *theirs.items())}
    yield before
    for side in (ours, theirs):
        yield before | {unit: change.after for unit, change in side.items()}


def _places_of(units: Collection[str], version: Mapping[str, Places]) -> dict[str, Blob]:
    return {path: blob for unit in units for path, blob in version[unit].items()}


def _only(places: Places, paths: Iterable[str]) -> dict[str, Blob]:
    return {path: places[path] for path in paths if path in places}


def _by_task(sides: Sides) -> list[tuple[set[str], set[str], set[str]]]:
    """The paths of each task, before and on each side."""
    named = [{file[0]: _name(file, files) for file in files} for files in sides]
    same = _renamed(sides, named) | _same_in_any_domain(sides, named)
    found: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for number, names in enumerate(named):
        for path, name in names.items():
            found.setdefault(same.get(name, name), (set(), set(), set()))[number].add(path)
    return list(found.values())


def _name(file: File, files: Sequence[File]) -> str:
    """What a file's task is known by. A waiting file without an id is a new task beside a finished one of its name."""
    name = folder.identity(file)
    if file[0].startswith(f"{NEEDS_ACTION}/") and folder.said_in(file[1]) is None:
        others = [other for other in files if other[0] != file[0] and unit_of(other[0]) == unit_of(file[0])]
        if folder.is_new_task(file, others):
            return f"{name} (new)"
    return name


def _same_in_any_domain(sides: Sides, named: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The names of tasks that a person has moved to another domain: their id is never there twice."""
    found: dict[str, list[Counter[str]]] = {}
    for number, files in enumerate(sides):
        for path, data in files:
            said = folder.said_in(data)
            if said is not None:
                counts = found.setdefault(said, [Counter(), Counter(), Counter()])
                counts[number][named[number][path]] += 1
    single = ([*counts[0], *counts[1], *counts[2]] for counts in found.values() if max(map(Counter.total, counts)) == 1)
    return {name: min(names) for names in single for name in names}


def _renamed(sides: Sides, named: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """New names of tasks without an id whose file was renamed: the text is the same."""
    found: dict[str, str] = {}
    for number, files in ((1, sides.ours), (2, sides.theirs)):
        gone = {data: named[0][path] for path, data in sides.before if named[0][path] not in named[number].values()}
        fresh = ((named[number][path], data) for path, data in files if named[number][path] not in named[0].values())
        found |= {name: gone[data] for name, data in fresh if data in gone and folder.said_in(data) is None}
    return found


def without_markers(data: bytes) -> list[bytes]:
    """A file's lines without conflict markers."""
    return [line for line in data.split(b"\n") if not _MARKER.fullmatch(line)]


def marked(data: bytes) -> bool:
    """Whether a file has conflict markers."""
    return any(line.startswith(b"<<<<<<< ") for line in data.split(b"\n"))
