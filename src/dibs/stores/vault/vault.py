"""An open vault: its folders, and how one process keeps up with what the others do to them.

Whatever dibs changes, it notes in `.dibs/changes`: the file, and when its time will come. Others read on there instead
of looking at every file. What people do leaves no note; `sweep` finds it.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import NoStore
from dibs.stores.vault.disk import Disk, translated
from dibs.stores.vault.index import Index
from dibs.stores.vault.lock import Turns
from dibs.stores.vault.log import Log
from dibs.stores.vault.places import NEEDS_ACTION, OTHER_FOLDERS, TASK_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.events import Event
    from dibs.core.task import Task

    Clock = Callable[[], datetime]

HOME = ".dibs"  # beside the tasks, none of them: safe to delete while nobody is at work

_SWEEP_EVERY = 1.0  # seconds; or longer, where a sweep takes more than a small part of that
_SWEEP_SHARE = 50
_CHANGES_MAX = 1 << 20
_NO_CHANGES = (0, 0)  # where there is no file of changes yet
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def host_clock() -> datetime:
    """The machine's clock: all who share a vault's folder share it."""
    return _EPOCH + timedelta(0, 0, time.time_ns() // 1000)


class Vault:
    """One folder, opened by one process."""

    def __init__(
        self, root: str, *, create: bool, durable: bool, timeout: float, clock: Clock, disk: Disk | None = None
    ) -> None:
        self.root = root
        self.clock = clock
        self.disk = disk or Disk(durable=durable)
        self.turns = Turns(self.path(HOME), timeout)
        self.index = Index(root, self.disk)
        self.log = Log(root, self.disk)
        self.unlogged: list[Event] = []  # events that found no room
        self.unwritten: dict[str, tuple[Task, Event]] = {}  # claims that stand but found no room for their lease
        name = f"{os.getpid()}-{id(self):x}"  # no other that is open now has it
        self._name = name.encode()
        self.spare = self.path(HOME, "tmp", f"spare-{name}")
        self._changes = self.path(HOME, "changes")
        self._seen: tuple[int, int] | None = None  # the file of changes, and how far it was read
        self._sweep_at = float("-inf")
        self._prepare(create=create)

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    def _prepare(self, *, create: bool) -> None:
        if os.path.exists(self.root) and not os.path.isdir(self.root):
            raise NoStore(f"{self.root} is a file; a vault is a folder.")
        if create:
            try:
                for folder in (*TASK_FOLDERS, *OTHER_FOLDERS):
                    _make(self.path(folder))
                self.make_home()
            except OSError as error:
                raise translated(error, self.root) from error
        elif not os.path.isdir(self.path(NEEDS_ACTION)):
            raise NoStore(f"There is no vault at {self.root}. 'dibs --store vault:///FOLDER init' makes one.")

    def make_home(self) -> None:
        for folder in (self.path(HOME), self.path(HOME, "tmp")):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        ignored = self.path(HOME, ".gitignore")
        if not os.path.exists(ignored):
            with open(ignored, "w", encoding="utf-8") as file:
                file.write("*\n")

    def catch_up(self) -> None:
        """Learn what other processes have changed since our last turn; at first, everything."""
        stat = self.disk.look(self._changes)
        if stat is None:
            if self._seen != _NO_CHANGES:
                self._seen = _NO_CHANGES
                self.sweep()
            return
        if self._seen == _NO_CHANGES:
            self._seen = (stat.st_ino, 0)  # begun since we looked at everything: all that is in it is news
        if self._seen is None or self._seen[0] != stat.st_ino or self._seen[1] > stat.st_size:
            self._seen = (stat.st_ino, stat.st_size)
            self.sweep()
        elif self._seen[1] < stat.st_size:
            with open(self._changes, "rb", buffering=0) as file:
                file.seek(self._seen[1])
                fresh = file.read(stat.st_size - self._seen[1])
            whole = fresh[: fresh.rfind(b"\n") + 1]
            self._seen = (stat.st_ino, self._seen[1] + len(whole))
            for line in whole.split(b"\n"):
                wake, writer, path = (*line.split(b"\t", 2), b"", b"")[:3]
                if path and writer != self._name:
                    self.index.notice(os.fsdecode(path), _moment(wake))

    def sweep(self) -> None:
        """Look at every folder for what people have changed."""
        started = time.monotonic()
        self.index.sweep()
        ended = time.monotonic()
        self._sweep_at = ended + max(_SWEEP_EVERY, _SWEEP_SHARE * (ended - started))

    def sweep_now_and_then(self) -> None:
        if time.monotonic() > self._sweep_at:
            self.sweep()

    def tell(self, changed: list[tuple[str, datetime | None]]) -> None:
        """Note for other processes what has changed."""
        lines = b"".join(b"%s\t%s\t%s\n" % (_micros(wake), self._name, os.fsencode(path)) for path, wake in changed)
        self.disk.append(self._changes, lines)

    def tidy(self) -> None:
        """While nobody else is at work, start the notes on changes anew when there are many."""
        stat = self.disk.look(self._changes)
        if stat is not None and stat.st_size > _CHANGES_MAX:
            self.disk.remove(self._changes)  # whoever misses it there looks at everything

    def pulse(self) -> list[tuple[str, int]]:
        """Something that changes whenever a file comes or goes, or is changed by dibs."""
        folders = [path for path, _, _ in os.walk(self.path(NEEDS_ACTION))]
        looked = ((path, self.disk.look(path)) for path in [self._changes, *folders])
        return [(path, stat.st_mtime_ns) for path, stat in looked if stat is not None]

    def close(self) -> None:
        if self.disk.look(self.spare) is not None:
            self.disk.remove(self.spare)
        self.turns.close()


def _make(folder: str) -> None:
    """A folder that stays, also in a git clone, when it is empty."""
    os.makedirs(folder, exist_ok=True)
    keep = f"{folder}/.gitkeep"
    if not os.path.lexists(keep):
        os.close(os.open(keep, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))


def _micros(moment: datetime | None) -> bytes:
    return b"" if moment is None else b"%d" % ((moment - _EPOCH) // timedelta(microseconds=1))


def _moment(micros: bytes) -> datetime | None:
    return _EPOCH + timedelta(0, 0, int(micros)) if micros.isdigit() else None
