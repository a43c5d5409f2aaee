"""Clones of one vault over a bare repository, as agents and people use them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from dibs.core.lifecycle import Verb
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.vault.disk import Disk
from dibs.stores.vault.places import place_for
from dibs.stores.vault.store import VaultStore
from dibs.stores.vault.vault import host_clock
from dibs.sync.git import Clone, Published, folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from dibs.core.task import Claimed, Task

TEXT = "# A task\n\nDo it.\n"
PATIENCE = 120.0  # seconds that git may take on a busy machine


def git(where: Path, *words: str, given: bytes | None = None, ok: bool = True) -> str:
    """What a person types."""
    done = subprocess.run(
        ["git", "-c", "user.name=Pat", "-c", "user.email=pat@example.org", *words],
        cwd=where,
        input=given,
        capture_output=True,
        env=os.environ | {"GIT_EDITOR": "true", "LC_ALL": "C"},
        check=False,
    )
    assert not ok or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="surrogateescape")


def place_of(task: Task) -> str:
    return place_for(task).path


class Machine:
    """A clone on some machine: the folder, the desk over it, and people's actions there."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = host_clock, **more: Any) -> None:
        self.path = path
        options: dict[str, Any] = {"timeout": PATIENCE, "disk": Disk(durable=False)} | more
        self.clone = Clone(str(path), **options)
        self._clock = clock

    def desk(self) -> Desk:
        return Desk(VaultStore(str(self.path), durable=False, clock=self._clock), by=Actor("ann"))

    def identity(self, path: str) -> str:
        """By what the task of this file is claimed."""
        file = self.path / path
        return folder.identity((path, file.read_bytes() if file.exists() else b""))

    # An agent

    def publish(self, paths: Sequence[str], message: str) -> Published:
        """Publish what was changed in this turn, with whatever else waits. OFFLINE: it waits."""
        group = self.clone.post(paths, message)
        self.clone.flush()
        return self.clone.fate(group)

    def claim(self, agent: str, *ids: str, **more: Any) -> tuple[Published | None, Claimed | None]:
        """Claim and publish in one turn, as agents do; without asking the remote first."""
        with self.clone.turn(), self.desk() as desk:
            before = {task: place_of(desk.get(task)) for task in ids}
            found = desk.claim(agent, refs=ids, **more)
            if not found:
                return None, None
            (claimed,) = found
            old = before.get(claimed.task.id, f"Needs_Action/{claimed.task.id.replace('%20', ' ')}.md")
            paths = [old, place_of(claimed.task)]
            published = self.publish(paths, f"{agent} claims {claimed.task.id}")
            if published is Published.OFFLINE:
                self.clone.undo(paths)
            return published, claimed

    def hold(self, agent: str, *ids: str, **more: Any) -> Claimed:
        published, claimed = self.claim(agent, *ids, **more)
        assert published is Published.ACCEPTED
        assert claimed is not None
        return claimed

    def finish(self, claimed: Claimed, verb: Verb = Verb.DONE, **more: Any) -> Published:
        assert claimed.task.lease is not None
        with self.clone.turn(), self.desk() as desk:
            moved = desk.move(verb, claimed.task.id, token=claimed.task.lease.token, **more).task
            return self.publish([place_of(claimed.task), place_of(moved)], f"{claimed.task.id}: {verb}")

    # A person

    def put(self, place: str, text: str = TEXT) -> Path:
        target = self.path / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        return target

    def move(self, source: str, target: str) -> None:
        goal = self.path / target
        goal.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.path / source, goal)

    def read(self, place: str) -> str:
        return (self.path / place).read_bytes().decode()

    def git(self, *words: str, **more: Any) -> str:
        return git(self.path, *words, **more)

    def commit(self, message: str = "by hand") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    # Looking

    def find(self, name: str) -> list[str]:
        """The paths of files of this name in a vault."""
        found = (path.relative_to(self.path) for path in self.path.rglob(name))
        return sorted(str(path) for path in found if not str(path).startswith("."))

    def files(self) -> dict[str, bytes]:
        """Everything in the folder but what each machine has for itself."""
        tops = ("In_Progress", "Needs_Action", "Pending_Approval", "Done", "Rejected", "Plans", "Updates", "Errors")
        found = (path for top in tops for path in (self.path / top).rglob("*") if path.is_file() or path.is_symlink())
        return {str(path.relative_to(self.path)): b"" if path.is_symlink() else path.read_bytes() for path in found}

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def status(self) -> list[str]:
        return [line for line in self.git("status", "--porcelain", "-z").split("\0") if line]


def new_remote(where: Path, files: dict[str, str] | None = None) -> Path:
    """A bare repository with a vault in it."""
    remote = where / "remote.git"
    git(where, "init", "-q", "--bare", "-b", "main", str(remote))
    first = where / "first"
    git(where, "clone", "-q", str(remote), str(first))
    git(first, "checkout", "-q", "-B", "main")
    VaultStore(str(first), create=True, durable=False).close()
    for place, text in (files or {}).items():
        target = first / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    git(first, "add", "-A")
    git(first, "commit", "-qm", "a vault")
    git(first, "push", "-q", "origin", "main")
    return remote


def machine(where: Path, name: str, remote: Path, **more: Any) -> Machine:
    git(where, "clone", "-q", str(remote), str(where / name))
    return Machine(where / name, **more)
