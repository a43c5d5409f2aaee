"""Commits and branches: ours, the remote's, and what the next one is to be built upon."""

import os
from enum import Enum
from typing import NamedTuple

from dibs.core.errors import InvalidInput, StoreBusy, StoreError, StoreUnavailable
from dibs.sync.git.command import Git
from dibs.sync.git.trees import Trees, merged

_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
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

    def __init__(self, git: Git, trees: Trees, remote: str, branch: str | None, git_dir: str) -> None:
        self._git = git
        self._trees = trees
        self._git_dir = git_dir
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
        """Where we stand, if nothing is in the way."""
        trouble = self.trouble()
        if trouble is not None:
            raise StoreBusy(trouble)
        return self.refs()

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
        changes = merged(made, came)
        return self._trees.commit(head, changes, f"Merge {self.remote}/{self.branch}", head, theirs)

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
        return os.stat(marker).st_mtime - os.stat(path).st_mtime

    # The remote

    def fetch(self) -> Reach:
        """Ask the remote where it stands."""
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        said = ""
        for _ in range(_TRIES):
            ran = self._git.run(*words, self.remote, f"+{self._ours}:{self._theirs}")
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

    def push(self, commit: str) -> str | None:
        """Ask the remote to take a commit, which it does only on top of what it has. Else what git said."""
        ran = self._git.run("push", "--quiet", self.remote, f"{commit}:{self._ours}")
        if ran.ok:
            self.unreached = None
            return None
        return ran.said or f"status {ran.status}"

    def pushed(self, commit: str) -> None:
        """The remote has it: not every clone is set up so that git notes this by itself."""
        self._git.run("update-ref", "-m", "dibs: push", self._theirs, commit)

    def refused(self, said: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self.remote} did not take what was pushed to {self.branch}: {said}")
