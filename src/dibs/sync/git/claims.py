"""Claims as references at the remote: one for each task, changed only by a push that names the old value.

The commit of a reference has no files. Its message says who holds the task, which attempt it is and until when.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.sync.git.command import Git
    from dibs.sync.git.trees import Trees

_THEIRS = "refs/dibs/claims"
_OVERTAKEN = re.compile(r"stale info|cannot lock ref|already exists|failed to (?:update|lock)|incorrect old value")
_KEY = 32  # digits of a task's digest
_ENDED = datetime.min.replace(tzinfo=UTC)


class Claim(NamedTuple):
    """Who holds a task, by the remote. `commit` is the reference's value, by which it is replaced or deleted."""

    task: str  # its identity
    agent: str
    run: str
    attempt: int
    proof: str
    until: datetime
    commit: str = ""

    def live(self, now: datetime) -> bool:
        return now < self.until

    @property
    def ended(self) -> bool:
        """Its holder has given it up."""
        return self.until == _ENDED

    @property
    def reference(self) -> str:
        return reference_of(self.task)


def reference_of(task: str) -> str:
    """Names of tasks may hold anything; names of references may not."""
    return f"{_THEIRS}/{sha256(task.encode(errors='surrogateescape')).hexdigest()[:_KEY]}"


class ClaimReferences:
    """The references of one remote, as this clone last saw them, and the pushes that change them."""

    def __init__(self, git: Git, trees: Trees, remote: str, home: str) -> None:
        self._git = git
        self._trees = trees
        self._remote = remote
        self._ours = f"refs/dibs/seen-claims/{remote}"
        self._locks = os.path.join(home, "claiming")
        self.refspec = f"+{_THEIRS}/*:{self._ours}/*"

    def all(self) -> dict[str, Claim]:
        """By task, every claim there was when the remote was last asked."""
        found = {}
        told = self._git.do("for-each-ref", "--format=%(objectname) %(subject)", f"{self._ours}/")
        for line in told.decode(errors="surrogateescape").splitlines():
            commit, _, said = line.partition(" ")
            claim = _read(commit, said)
            if claim is not None:
                found[claim.task] = claim
        return found

    def make(self, claim: Claim, over: Claim | None) -> Claim:
        """The commit of a claim, which no reference knows yet. It follows the one that it replaces."""
        said = json.dumps({**claim._asdict(), "until": claim.until.isoformat(), "commit": None})
        commit = self._trees.commit_empty(said, over.commit if over else None)
        return claim._replace(commit=commit)

    def push(self, claim: Claim, over: Claim | None) -> str | None:
        """Ask the remote to take it in place of the one known. Else what git said. Needs no lock of the clone."""
        return self._push(f"{claim.commit}:{claim.reference}", claim.reference, over)

    def delete(self, claim: Claim) -> str | None:
        """Give a claim up; nothing happens if the remote has another by now."""
        said = self._push(f":{claim.reference}", claim.reference, claim)
        if said is None:
            self.note(claim, None)
        return said

    def end(self, claim: Claim) -> str | None:
        """Let others claim the task at once; nothing happens if the remote has another claim by now."""
        ended = self.make(claim._replace(until=_ENDED), claim)
        said = self.push(ended, claim)
        if said is None:
            self.note(ended, ended)
        return said

    def _push(self, change: str, reference: str, over: Claim | None) -> str | None:
        ran = self._git.run("push", "--quiet", lease_of(reference, over), self._remote, change)
        return None if ran.ok else ran.said or f"status {ran.status}"

    def note(self, claim: Claim, after: Claim | None) -> None:
        """What the remote has taken is known here before the next fetch."""
        name = f"{self._ours}/{claim.reference.rpartition('/')[2]}"
        words = ("-d", name) if after is None else (name, after.commit)
        self._git.run("update-ref", *words)

    @contextmanager
    def alone(self, task: str) -> Iterator[bool]:
        """Whether no other process of this clone claims this task at the moment."""
        os.makedirs(self._locks, exist_ok=True)
        path = os.path.join(self._locks, reference_of(task).rpartition("/")[2][:8])
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(fd)


def lease_of(reference: str, over: Claim | None) -> str:
    """The option that lets git push only in place of what is known; of nothing, if nothing is."""
    return f"--force-with-lease={reference}:{over.commit if over else ''}"


def overtaken(said: str) -> bool:
    """By what git said, the reference was not what we took it for; it may be that again by now."""
    return _OVERTAKEN.search(said) is not None


def _read(commit: str, said: str) -> Claim | None:
    """A reference that makes no sense counts for nothing: a claim over it names its commit, so it cannot win either."""
    try:
        told = json.loads(said)
        texts = [told[name] for name in ("task", "agent", "run", "proof")]
        until = datetime.fromisoformat(told["until"])
        attempt = int(told["attempt"])
    except (ValueError, TypeError, KeyError):
        return None
    if until.tzinfo is None or not all(isinstance(text, str) for text in texts):
        return None
    task, agent, run, proof = texts
    return Claim(task, agent, run, attempt, proof, until, commit)
