"""One agent's access to a vault: its desk, its log, and file names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.console.streams import printable
from dibs.core.errors import InvalidInput, NotFound, StoreUnavailable
from dibs.core.task import TERMINAL, Edit, Status
from dibs.core.times import time_text
from dibs.stores.port import Query
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
    """The id of the task in a file of this name; InvalidInput for a path, a hidden file or `..`."""
    if "/" in name or "\\" in name or name.startswith("."):
        raise InvalidInput(f"{name[:60]!r} is not a file name: it has a separator or a leading dot.")
    return places.id_from(name if name.endswith(places.SUFFIX) else f"{name}{places.SUFFIX}")


def find_file(desk: Desk, name: str, domain: str | None, agent: str | None = None) -> Task:
    """The task in the file of this name, in a domain or in all. An unfinished one comes before finished ones.

    Of several, the one that `agent` holds is meant; InvalidInput if that is not exactly one.
    """
    task_id = task_id_of(name)
    file = name if name.endswith(places.SUFFIX) else f"{name}{places.SUFFIX}"
    asked = None if domain is None else places.scope_from(domain) if domain != places.ROOT_SCOPE else domain
    unfinished = Query(asked, statuses=tuple(status for status in Status if status not in TERMINAL))
    found = [task for task in desk.find(unfinished) if places.file_of(task) == file]
    scopes = [asked] if asked is not None else desk.scopes()
    found = found or [desk.at(scope).get(task_id) for scope in scopes if desk.at(scope).has(task_id)]
    held = [task for task in found if agent is not None and task.lease is not None and task.lease.agent == agent]
    found = held if len(held) == 1 else found
    if len(found) > 1:
        scopes = sorted(task.scope for task in found)
        raise InvalidInput(f"{file} exists in {' and in '.join(scopes)}. Choose one with --domain.")
    if not found:
        raise NotFound(f"There is no file {file} in the vault. 'dibs vault status' shows the folders.")
    return found[0]


def path_of(task: Task) -> str:
    """The path of a task's file, relative to the vault."""
    return place_for(task).path


def name_of(task: Task) -> str:
    """A file's name as shown to people, with its domain if it has one."""
    folder = places.scope_folder(task.scope)
    return f"{folder}/{places.file_of(task)}" if folder else places.file_of(task)


class TrackedDesk:
    """A desk that collects changed paths in `touched`, for a clone to publish."""

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
        """Set keys of the front matter."""
        self.touched.append(path_of(task))
        return self.desk.at(task.scope).edit(task.id, Edit(extra={**task.extra, **extra}))

    def take_touched(self) -> list[str]:
        """The paths touched since the last time, each once."""
        touched, self.touched = list(dict.fromkeys(self.touched)), []
        return touched


def log_path(root: str, agent: str) -> str:
    return os.path.join(root, "Logs", f"agent-{agent_folder(agent)}.log")


class Journal:
    """An agent's log. The file is reopened for every line, so that it may be rotated at any time."""

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
        """Write to the log and to stdout."""
        self._echo(text)
        self.note(text)

    def note(self, text: str) -> None:
        """Write to the log only. A log that cannot be written is reported once, and does not stop the agent."""
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
    """Everything an agent uses in one vault, whose folder is `root`."""

    root: str
    tracked: TrackedDesk
    journal: Journal
    waiter: Waiter
    publisher: Publisher

    @property
    def agent(self) -> str:
        return self.tracked.agent
