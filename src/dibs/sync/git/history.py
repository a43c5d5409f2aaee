"""Commits and branches: ours, the remote's, and what the next one is to be built upon."""

from __future__ import annotations

import os
import shutil
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import InvalidInput, StoreBusy, StoreError, StoreUnavailable
from dibs.sync.git.claims import lease_of
from dibs.sync.git.merge import Merge, marked, without_markers
from dibs.sync.git.trees import is_task, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dibs.sync.git.claims import Claim
    from dibs.sync.git.command import Git
    from dibs.sync.git.trees import Trees

_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
_RESUMABLE = ("MERGE_HEAD", "rebase-merge", "rebase-apply")  # what `git pull` leaves behind
_AT_IT = 30.0  # seconds after the last change of a file, in which a person may be merging notes
_OURS = 2  # the stage of an index that holds our side of a merge
_LATELY = "3.days"
_TRIES = 3
_STALE = 60.0  # seconds


class Reach(Enum):
    REACHED = "reached"
    OFFLINE = "offline"


class Refs(NamedTuple):
    """Commits, each None where there is none yet."""

    head: str | None  # of the branch in the folder
    theirs: str | None  # the remote's, as of when it was last asked
    seen: str | None  # the remote's, as of when it was last brought into the folder


class History:
    """The branch of one clone, here and at the remote."""

    def __init__(
        self, git: Git, trees: Trees, remote: str, branch: str | None, git_dir: str, keep: Callable[[str, bytes], str]
    ) -> None:
        self._git = git
        self._trees = trees
        self._git_dir = git_dir
        self._keep = keep
        common = git.do("rev-parse", "--git-common-dir").decode().rstrip("\n")
        self._common_dir = os.path.join(git.root, common)
        self.remote = remote
        self._refuse_unknown_remote()
        self.branch = ""  # on none
        self._settle_on(branch or self._branch_in_folder())
        self._fetched: str | None = None
        self.unreached: str | None = None  # why the remote was not reached the last time

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
        """Why a person has to do something first."""
        for name, what in _UNDER_WAY.items():
            if os.path.exists(os.path.join(self._git_dir, name)):
                return f"A {what} is under way in this clone. Finish it, or 'git {what} --abort'."
        branch = self._branch_in_folder()
        if not self.branch:
            self._settle_on(branch)
        if branch is None:
            return f"The clone is on no branch. 'git switch {self.branch or 'BRANCH'}' goes on."
        if branch != self.branch:
            return f"The clone is on the branch {branch}, not {self.branch}. 'git switch {self.branch}' goes on."
        return None

    def look(self) -> Refs:
        """Where we stand, if nothing is in the way. A merge that stopped over conflicts is not: we end it our way."""
        self._end_stopped_merge()
        trouble = self.trouble()
        if trouble is not None:
            raise StoreBusy(trouble)
        return self.refs()

    def _end_stopped_merge(self) -> None:
        """Back to the commit made here, with nothing of the folder touched; what follows merges by our rules.

        Only where git has stopped over conflicts: a merge that waits for its commit is a person's.
        """
        under_way = [name for name in _RESUMABLE if os.path.exists(os.path.join(self._git_dir, name))]
        if not under_way:
            return
        stages = self._stages()
        if not stages or self._attended(under_way, stages):
            return
        for path, blobs in stages.items():
            self._unmark(path, blobs)
        for name in under_way:
            self._leave_rebase(os.path.join(self._git_dir, name))
        self._git.do("read-tree", "--reset", "HEAD")
        for name in ("MERGE_MODE", "MERGE_MSG", "AUTO_MERGE", *under_way):
            path = os.path.join(self._git_dir, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)

    def _attended(self, under_way: Iterable[str], paths: Iterable[str]) -> bool:
        """Notes are people's own: a person who merges them by hand gets the time to do so."""
        if all(is_task(unit_of(path)) for path in paths):
            return False
        places = [
            *(os.path.join(self._git_dir, name) for name in under_way),
            *(self._git.root + f"/{p}" for p in paths),
        ]
        return any(os.path.lexists(place) and self._age(place) < _AT_IT for place in places)

    def _stages(self) -> dict[str, dict[int, str]]:
        """What a stopped merge has to put together, by path: before, ours and theirs, as far as there are such."""
        found: dict[str, dict[int, str]] = {}
        for record in self._git.do("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
            about, _, raw = record.partition(b"\t")
            _, sha, stage = about.decode().split(" ")
            found.setdefault(os.fsdecode(raw), {})[int(stage)] = sha
        return found

    def _unmark(self, path: str, blobs: Mapping[int, str]) -> None:
        """A file with markers, and no word that git does not know, becomes again what was committed here."""
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

    def _leave_rebase(self, place: str) -> None:
        """The branch is still where it was: a rebase moves it at its end."""
        name = os.path.join(place, "head-name")
        if os.path.isdir(place) and os.path.exists(name):
            with open(name, encoding="utf-8", errors="surrogateescape") as file:
                self._git.do("symbolic-ref", "HEAD", file.read().strip())

    def refs(self) -> Refs:
        words = ("for-each-ref", "--format=%(refname) %(objectname)", self._ours, self._theirs, self._seen)
        found = dict(line.rsplit(" ", 1) for line in self._git.do(*words).decode(errors="surrogateescape").splitlines())
        return Refs(found.get(self._ours), found.get(self._theirs), found.get(self._seen))

    def goal(self, refs: Refs) -> str | None:
        """The commit the folder is to be at: the remote's, with what people have committed here on top of it."""
        head, theirs, seen = refs
        if head is None or theirs is None or head == theirs:
            return theirs or head
        rewritten = seen is not None and not self.includes(theirs, seen)
        if rewritten and theirs != self._fetched:
            return head  # nobody's word but the remote's own, today, is taken for that
        if seen is not None and self.includes(seen, head):
            return theirs  # the remote has had all that is here; if it went back on some of that, so do we
        if rewritten:
            raise StoreUnavailable(
                f"The history of {self.remote}/{self.branch} was rewritten, and there are commits here that it never "
                "had. Rebase or merge them by hand."
            )
        common = self._git.ask("merge-base", head, theirs, answers=(0, 1))
        if common is None:
            raise StoreUnavailable(
                f"{self.branch} and {self.remote}/{self.branch} have no commit in common. Clone the remote anew, or "
                "'git merge --allow-unrelated-histories' if they do belong together."
            )
        if common in {head, theirs}:
            return theirs if common == head else head
        return self._merge(head, theirs, common)

    def _merge(self, head: str, theirs: str, common: str) -> str:
        made, came = self._trees.differences(common, head), self._trees.differences(common, theirs)
        changes = Merge(self._git, self._trees, self._keep).changes(made, came)
        return self._trees.commit(head, changes, f"Merge {self.remote}/{self.branch}", head, theirs)

    def had(self, sha: str, refs: Refs) -> bool:
        """Whether a file had this content in the last days' commits."""
        commits = [commit for commit in refs if commit is not None]
        words = ("log", "-1", "--format=%H", f"--find-object={sha}", f"--since={_LATELY}", *commits)
        return bool(self._git.do(*words).strip())

    def includes(self, commit: str, earlier: str) -> bool:
        return self._git.ask("merge-base", "--is-ancestor", earlier, commit, answers=(0, 1)) is not None

    def count(self, present: str | None, absent: str | None) -> int:
        """How many commits one has that the other lacks."""
        if present is None:
            return 0
        words = [present] if absent is None else [present, f"^{absent}"]
        return int(self._git.do("rev-list", "--count", *words))

    def advance(self, refs: Refs, to: str | None, theirs: str | None) -> bool:
        """Put the branch there, and note where the remote is; not if someone has committed meanwhile."""
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
        """Git holds these for an instant; one that is old was left by a git that was killed."""
        removed = False
        for ref in (self._ours, self._theirs, self._seen):
            lock = os.path.join(self._common_dir, f"{ref}.lock")
            if os.path.exists(lock) and self._age(lock) > _STALE:
                os.unlink(lock)
                removed = True
        if not removed:
            raise StoreBusy(f"Another git is in the way: {said}", retry_after_ms=1000)

    def _age(self, path: str) -> float:
        """By the clock of the file system."""
        marker = os.path.join(self._git_dir, "dibs", "now")
        with open(marker, "wb"):
            os.utime(marker)
        return os.stat(marker).st_mtime - os.lstat(path).st_mtime

    # The remote

    def fetch(self, *more: str) -> Reach:
        """Ask the remote where it stands; `more` are other references to bring along."""
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
                self._git.run("update-ref", "-d", self._theirs)  # no such branch there, not yet or not any more
                return self._reached()
            if self._stands_still(asked.out):
                self._remove_stale_locks(said)
        raise StoreError(f"git fetch failed: {said}")

    def _stands_still(self, heads: bytes) -> bool:
        """The remote has something for us, and we could not take it in."""
        return heads.split()[0].decode() != self.refs().theirs

    def _reached(self) -> Reach:
        self.unreached = None
        self._fetched = self.refs().theirs
        return Reach.REACHED

    def push(self, commit: str, ended: Sequence[Claim] = ()) -> str | None:
        """Ask the remote to take a commit, which it does only on top of what it has, and to forget these claims, which
        it does only if they are still what it has: both or neither. Else what git said.
        """
        onto = f"{commit}:{self._ours}"
        leases = [lease_of(claim.reference, claim) for claim in ended]
        gone = [f":{claim.reference}" for claim in ended]
        ran = self._git.run("push", "--quiet", *(["--atomic"] if ended else []), *leases, self.remote, onto, *gone)
        if ended and not ran.ok and "--atomic" in ran.said:  # a remote that cannot: the commit first
            ran = self._git.run("push", "--quiet", self.remote, onto)
            if ran.ok:
                self._git.run("push", "--quiet", *leases, self.remote, *gone)
        if ran.ok:
            self.unreached = None
            return None
        return ran.said or f"status {ran.status}"

    def pushed(self, commit: str) -> None:
        """The remote has it: not every clone is set up so that git notes this by itself."""
        self._git.run("update-ref", "-m", "dibs: push", self._theirs, commit)

    def refused(self, said: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self.remote} did not take what was pushed to {self.branch}: {said}")
