"""One agent's place in a vault: its desk, its log, and the names of files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.console.streams import printable
from dibs.core.errors import InvalidInput, NotFound, StoreUnavailable
from dibs.core.task import Edit, Status
from dibs.core.times import time_text
from dibs.stores.vault import places
from dibs.stores.vault.places import agent_folder, place_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dibs.core.lifecycle import Verb
    from dibs.core.task import Draft, Json, Task
    from dibs.desk import Desk
    from dibs.protocols.vault.execution import Waiter
    from dibs.protocols.vault.publishing import Publisher


def task_id_of(name: str) -> str:
    """The id of the task in the file of this name; a path, a hidden file or `..` is refused."""
    if "/" in name or "\\" in name or name.startswith("."):
        raise InvalidInput(f"{name[:60]!r} is no file name of a task: no separators, no leading dot.")
    return places.id_from(name if name.endswith(places.SUFFIX) else f"{name}{places.SUFFIX}")


def scope_of(desk: Desk, task_id: str, domain: str | None) -> str:
    """The domain a file lies in: the one that is named, or the only one that has such a file."""
    if domain is not None:
        return places.scope_from(domain) if domain != places.ROOT_SCOPE else domain
    found = [scope for scope in desk.scopes() if desk.at(scope).has(task_id)]
    if len(found) > 1:
        raise InvalidInput(f"There is a {places.file_name(task_id)} in {', '.join(found)}; say which with --domain.")
    if not found:
        raise NotFound(f"There is no file {places.file_name(task_id)} in the vault; 'dibs vault status' tells what is.")
    return found[0]


def path_of(task: Task) -> str:
    """Where a task's file lies, relative to the vault."""
    return place_for(task.scope, task.id, task.status, task.lease.agent if task.lease else None).path


def name_of(task: Task) -> str:
    """A file as it is spoken of: its name, with the domain where it has one."""
    folder = places.scope_folder(task.scope)
    return f"{folder}/{places.file_name(task.id)}" if folder else places.file_name(task.id)


class TrackedDesk:
    """One agent's work in a vault, at a desk of its own. `touched` are the paths that a clone has to publish."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.touched: list[str] = []

    @property
    def agent(self) -> str:
        return self.desk.by.agent or ""

    def add(self, scope: str, draft: Draft) -> Task:
        (task,) = self.desk.at(scope).add([draft])
        self.touched.append(path_of(task))
        return task

    def move(self, task: Task, verb: Verb, **brings: Any) -> Task:
        desk = self.desk.at(task.scope)
        moved = desk.move(verb, task.id, **brings)
        self.touched += [path_of(task), path_of(moved.task)]
        for drawn in (*moved.escalated, *moved.canceled):
            after = desk.get(drawn)
            self.touched += [path_of(after._replace(status=Status.READY, lease=None)), path_of(after)]
        return moved.task

    def mark(self, task: Task, **extra: Json) -> Task:
        """Say something in the front matter."""
        self.touched.append(path_of(task))
        return self.desk.at(task.scope).edit(task.id, Edit(extra={**task.extra, **extra}))

    def take_touched(self) -> list[str]:
        """The paths touched since the last time, each once."""
        touched, self.touched = list(dict.fromkeys(self.touched)), []
        return touched


def log_path(root: str, agent: str) -> str:
    return os.path.join(root, "Logs", f"agent-{agent_folder(agent)}.log")


class Journal:
    """Opened anew for every line, so that the file may be rotated away at any time."""

    def __init__(self, path: str, clock: Callable[[], datetime], echo: Callable[[str], None]) -> None:
        self._path = path = os.path.abspath(path)
        self._clock = clock
        self._echo = echo
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._write(b"")
        except OSError as error:
            raise StoreUnavailable(f"The log {path} cannot be written: {error.strerror}.") from None
        self._complained = False

    def say(self, text: str) -> None:
        """For the log and for whoever watches."""
        self._echo(text)
        self.note(text)

    def note(self, text: str) -> None:
        """For the log only; a log that cannot be written is no reason to stop working, but one to speak of, once."""
        stamp = time_text(self._clock().replace(microsecond=0))
        lines = "".join(f"{stamp} {printable(line)}\n" for line in text.splitlines() or [""])
        try:
            self._write(lines.encode(errors="backslashreplace"))
            self._complained = False
        except OSError as error:
            if not self._complained:
                self._complained = True
                self._echo(f"the log {self._path} cannot be written: {error.strerror}")

    def _write(self, data: bytes) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


class Workplace(NamedTuple):
    """One agent's place in one vault, whose folder is `root`."""

    root: str
    tracked: TrackedDesk
    journal: Journal
    waiter: Waiter
    publisher: Publisher

    @property
    def agent(self) -> str:
        return self.tracked.agent
