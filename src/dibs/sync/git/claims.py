"""Claims as references at the remote: one per task, changed only by a push that names the old value.

The commit of a reference has no files. Its message has the holder, the attempt and the expiry.
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
    from collections.abc import Iterator, Sequence

    from dibs.sync.git.repository import Git, Trees

_THEIRS = "refs/dibs/claims"
_OVERTAKEN = re.compile(r"stale info|cannot lock ref|already exists|failed to (?:update|lock)|incorrect old value")
_KEY = 32  # digits of a task's digest
_ENDED = datetime.min.replace(tzinfo=UTC)


class Claim(NamedTuple):
    """The holder of a task, by the remote. `commit` is the reference's value, needed to replace or delete it."""

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
        """Whether its holder has given it up."""
        return self.until == _ENDED

    @property
    def reference(self) -> str:
        return reference_of(self.task)


def reference_of(task: str) -> str:
    """The reference of a task. It is a digest, since references do not allow every character of an id."""
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
        """The claims by task, as of the last fetch."""
        found = {}
        listed = self._git.do("for-each-ref", "--format=%(objectname) %(subject)", f"{self._ours}/")
        for line in listed.decode(errors="surrogateescape").splitlines():
            commit, _, said = line.partition(" ")
            claim = _read(commit, said)
            if claim is not None:
                found[claim.task] = claim
        return found

    def make(self, claim: Claim, over: Claim | None) -> Claim:
        """Create the commit of a claim, on top of the one it replaces. No reference points to it yet."""
        said = json.dumps({**claim._asdict(), "until": claim.until.isoformat(), "commit": None})
        commit = self._trees.commit_empty(said, over.commit if over else None)
        return claim._replace(commit=commit)

    def push(self, claim: Claim, over: Claim | None) -> str | None:
        """Replace the known claim at the remote. Returns git's message if that failed. Needs no lock of the clone."""
        return self._push(f"{claim.commit}:{claim.reference}", claim.reference, over)

    def delete(self, claim: Claim) -> str | None:
        """Delete a claim, unless the remote has another by now."""
        said = self._push(f":{claim.reference}", claim.reference, claim)
        if said is None:
            self.note(claim, None)
        return said

    def delete_all(self, claims: Sequence[Claim]) -> None:
        """Delete claims, each unless the remote has another by now. The next fetch shows the result."""
        leases = [lease_of(claim.reference, claim) for claim in claims]
        self._git.run("push", "--quiet", *leases, self._remote, *(f":{claim.reference}" for claim in claims))

    def end(self, claim: Claim) -> str | None:
        """End a claim so that others can claim the task at once, unless the remote has another claim by now."""
        ended = self.make(claim._replace(until=_ENDED), claim)
        said = self.push(ended, claim)
        if said is None:
            self.note(ended, ended)
        return said

    def _push(self, change: str, reference: str, over: Claim | None) -> str | None:
        ran = self._git.run("push", "--quiet", lease_of(reference, over), self._remote, change)
        return None if ran.ok else ran.said or f"status {ran.status}"

    def note(self, claim: Claim, after: Claim | None) -> None:
        """Record an accepted change before the next fetch."""
        name = f"{self._ours}/{claim.reference.rpartition('/')[2]}"
        words = ("-d", name) if after is None else (name, after.commit)
        self._git.run("update-ref", *words)

    @contextmanager
    def alone(self, task: str) -> Iterator[bool]:
        """Lock a task against other claims of this clone. False if another process has the lock."""
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
    """The option that lets git push only over the known value, or only create the reference."""
    return f"--force-with-lease={reference}:{over.commit if over else ''}"


def overtaken(said: str) -> bool:
    """Whether git's message says that the reference had another value than expected."""
    return _OVERTAKEN.search(said) is not None


def _read(commit: str, said: str) -> Claim | None:
    """Parse a claim; None if it is invalid. No claim can replace an invalid one, since that needs its commit."""
    try:
        data = json.loads(said)
        texts = [data[name] for name in ("task", "agent", "run", "proof")]
        until = datetime.fromisoformat(data["until"])
        attempt = int(data["attempt"])
    except (ValueError, TypeError, KeyError):
        return None
    if until.tzinfo is None or not all(isinstance(text, str) for text in texts):
        return None
    task, agent, run, proof = texts
    return Claim(task, agent, run, attempt, proof, until, commit)
