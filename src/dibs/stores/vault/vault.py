"""An open vault: its folders, its log of events, and the exchange of changes between processes.

A process notes each changed file in `.dibs/changes`, with the time when it becomes due. The others read that instead of
every file. `sweep` finds the changes of people.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, NoStore, StoreReplaced
from dibs.core.wire import event_from_json, event_json
from dibs.stores.vault.disk import Disk, Turns, translated
from dibs.stores.vault.index import Index
from dibs.stores.vault.places import NEEDS_ACTION, OTHER_FOLDERS, TASK_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.events import Event
    from dibs.core.task import Task

    Clock = Callable[[], datetime]
    from collections.abc import Sequence

    from dibs.stores.port import EventQuery

FOLDER = "Logs"
_PREFIX, _SUFFIX = "dibs-", ".jsonl"
_DROPPED = "dropped"
_line = json.JSONEncoder(ensure_ascii=False).encode


class Log:
    """The events of one vault."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._disk = disk
        self._days: dict[str, _Day] = {}
        self._newest = ""

    def append(self, events: Sequence[Event]) -> str:
        """Add events; the file they went to is returned."""
        path = self._file_for(events[-1].at)
        text = "".join(f"{_line(event_json(event))}\n" for event in events)
        try:
            self._disk.append(path, text.encode())
        except FileNotFoundError:
            self._disk.make_folder(self._folder)
            self._disk.append(path, text.encode())
        return path

    def _file_for(self, moment: datetime) -> str:
        """The day's file, or the newest if a clock was set back: events are always appended."""
        path = os.path.join(self._folder, f"{_PREFIX}{moment.date().isoformat()}{_SUFFIX}")
        if path > self._newest:
            self._newest = max([path, *self._paths()])
        return self._newest

    def read(self, query: EventQuery) -> list[Event]:
        found = [event for event in self.all() if event.seq > query.after]
        if query.scope is not None:
            found = [event for event in found if event.scope == query.scope]
        if query.task is not None:
            found = [event for event in found if event.task == query.task]
        if query.last is not None:
            return found[max(0, len(found) - query.last) :]
        return found if query.limit is None else found[: query.limit]

    def all(self) -> list[Event]:
        """Every event, under its number."""
        found: list[Event] = []
        base = 0
        for day in self._read_days():
            found += [event._replace(seq=base + place) for place, event in day.events]
            base += day.numbers
        return found

    def unreadable(self) -> list[tuple[str, int]]:
        """Lines that are no events, by file."""
        days = self._read_days()
        return [(os.path.basename(day.path), day.damaged) for day in days if day.damaged]

    def drop(self, before: datetime, most: int) -> int:
        """Delete up to `most` of the oldest events before a moment; never the newest, which keeps the count."""
        dropped = passed_on = 0
        days = self._read_days()
        for day in days:
            old = [place for place, event in day.events if event.at < before]
            if day is days[-1]:
                old = [place for place in old if place != day.numbers]
            old = old[: most - dropped]
            dropped += len(old)
            kept = [(place, event) for place, event in day.events if place not in set(old)]
            if kept and (old or passed_on):
                self._rewrite(day, kept, passed_on)
                passed_on = 0
            elif not kept:
                self._disk.remove(day.path)
                passed_on += day.numbers
        return dropped

    def _rewrite(self, day: _Day, kept: list[tuple[int, Event]], passed_on: int) -> None:
        """Rewrite a day without its dropped events. It keeps their count, so numbers do not change."""
        lines: list[str] = []
        expected = 1 - passed_on
        for place, event in kept:
            if place > expected:
                lines.append(json.dumps({_DROPPED: place - expected}))
            lines.append(_line(event_json(event._replace(seq=0))))
            expected = place + 1
        self._disk.replace(day.path, "".join(f"{line}\n" for line in lines).encode())

    def _read_days(self) -> list[_Day]:
        self._days = {path: self._days.get(path) or _Day(path) for path in self._paths()}
        for day in self._days.values():
            day.catch_up()
        return list(self._days.values())

    def _paths(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        ours = (name for name in sorted(names) if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
        return [os.path.join(self._folder, name) for name in ours]


class _Day:
    """One file of events, read on from where it was read to before."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.events: list[tuple[int, Event]] = []  # each with its place among this day's numbers
        self.numbers = 0
        self.damaged = 0
        self._inode = 0
        self._read_to = 0

    def catch_up(self) -> None:
        with open(self.path, "rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_ino != self._inode or stat.st_size < self._read_to:
                self.events, self.numbers, self.damaged = [], 0, 0
                self._inode, self._read_to = stat.st_ino, 0
            if stat.st_size == self._read_to:
                return
            file.seek(self._read_to)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.split(b"\n"):
            if line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        """Take in a line. An unreadable one keeps its number, so that the others keep theirs."""
        try:
            said = json.loads(line)
            if isinstance(said, dict) and isinstance(said.get(_DROPPED), int):
                self.numbers += said[_DROPPED]
                return
            self.numbers += 1
            self.events.append((self.numbers, event_from_json(said)))
        except (ValueError, RecursionError):
            self.numbers += 1
            self.damaged += 1
        except InvalidInput:
            self.damaged += 1


HOME = ".dibs"  # locks and notes of dibs: safe to delete while no agent is at work

_SWEEP_EVERY = 1.0  # seconds; or longer, where a sweep takes long
_SWEEP_SHARE = 50
_CHANGES_MAX = 1 << 20
_NO_CHANGES = (0, 0)  # there is no file of changes yet
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def host_clock() -> datetime:
    """The machine's clock, which all processes of a vault's folder share."""
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
        self.unlogged: list[Event] = []  # events without room on the disk
        self.unwritten: dict[str, tuple[Task, Event]] = {}  # claims whose lease had no room on the disk
        name = f"{os.getpid()}-{id(self):x}"  # unique among the open vaults
        self._name = name.encode()
        self.spare = self.path(HOME, "tmp", f"spare-{name}")
        self._changes = self.path(HOME, "changes")
        self._seen: tuple[int, int] | None = None  # inode of the file of changes, and the offset read
        self._sweep_at = float("-inf")
        self._prepare(create=create)
        found = os.stat(root)
        self._root = (found.st_dev, found.st_ino)
        self._mark = self.path(HOME, "id")
        self._marked: tuple[int, int, int] | None = None  # the file with the id, as it was when we last read it
        self.id = ""  # where there is none yet, and none can be made
        self.id = self._read_id()

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

    def recognise(self) -> bool:
        """Raise StoreReplaced unless this is the vault that was opened. False: its `.dibs` was deleted and is there
        again, so the locks that we have are not those of the others."""
        try:
            stat = os.stat(self._mark)
        except FileNotFoundError:
            stat = None
        marked = None if stat is None else (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
        if marked is not None and marked == self._marked:
            return True
        self.refuse_another_folder()
        known = self._marked
        if marked is None:
            self._write_id()
        there = self._read_id()
        if self.id and there != self.id:
            self._marked = known
            raise self._replaced("holds another vault than the one that was opened")
        self.id = there
        return known is None or self._marked is None or known[:2] == self._marked[:2]

    def refuse_another_folder(self) -> None:
        try:
            found = os.stat(self.root)
        except FileNotFoundError:
            raise self._replaced("is gone: it was deleted or moved while it was open") from None
        if (found.st_dev, found.st_ino) != self._root:
            raise self._replaced("is another folder than the one that was opened")

    def _replaced(self, what: str) -> StoreReplaced:
        return StoreReplaced(
            f"{self.root} {what}. Nothing was written to it. Start again to use the folder that is there now."
        )

    def _read_id(self) -> str:
        try:
            with open(self._mark, encoding="ascii", errors="replace") as file:
                stat = os.fstat(file.fileno())
                self._marked = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
                return file.read().strip()
        except OSError:
            self._marked = None
            return self.id

    def _write_id(self) -> None:
        """Write the file with the id, complete at once, unless another process has. A read-only folder gets none."""
        fresh = f"{self._mark}.{self._name.decode()}"
        with suppress(OSError):
            self.make_home()
            with open(fresh, "w", encoding="ascii", opener=_private) as file:
                file.write(f"{self.id or os.urandom(16).hex()}\n")
            try:
                os.link(fresh, self._mark)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                os.rename(fresh, self._mark)
            with suppress(FileNotFoundError):
                os.unlink(fresh)

    def catch_up(self) -> None:
        """Take in the changes of other processes since the last turn; look at every file the first time."""
        stat = self.disk.look(self._changes)
        if stat is None:
            if self._seen != _NO_CHANGES:
                self._seen = _NO_CHANGES
                self.sweep()
            return
        if self._seen == _NO_CHANGES:
            self._seen = (stat.st_ino, 0)  # created since the last sweep: all of it is new
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
        """Find the changes of people, in every folder."""
        started = time.monotonic()
        self.index.sweep()
        ended = time.monotonic()
        self._sweep_at = ended + max(_SWEEP_EVERY, _SWEEP_SHARE * (ended - started))

    def sweep_now_and_then(self) -> None:
        if time.monotonic() > self._sweep_at:
            self.sweep()

    def announce(self, changed: list[tuple[str, datetime | None]]) -> None:
        """Note changes for other processes."""
        lines = b"".join(b"%s\t%s\t%s\n" % (_micros(wake), self._name, os.fsencode(path)) for path, wake in changed)
        self.disk.append(self._changes, lines)

    def tidy(self) -> None:
        """Start a new file of changes when it is long. Needs the exclusive lock."""
        stat = self.disk.look(self._changes)
        if stat is not None and stat.st_size > _CHANGES_MAX:
            self.disk.remove(self._changes)  # a process that misses it looks at every file

    def pulse(self) -> list[tuple[str, int]]:
        """A value that changes whenever a file arrives or leaves, or dibs changes one."""
        folders = [path for path, _, _ in os.walk(self.path(NEEDS_ACTION))]
        looked = ((path, self.disk.look(path)) for path in [self._changes, *folders])
        return [(path, stat.st_mtime_ns) for path, stat in looked if stat is not None]

    def close(self) -> None:
        if self.disk.look(self.spare) is not None:
            self.disk.remove(self.spare)
        self.turns.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _make(folder: str) -> None:
    """Make a folder that git keeps when it is empty."""
    os.makedirs(folder, exist_ok=True)
    keep = f"{folder}/.gitkeep"
    if not os.path.lexists(keep):
        os.close(os.open(keep, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))


def _micros(moment: datetime | None) -> bytes:
    return b"" if moment is None else b"%d" % ((moment - _EPOCH) // timedelta(microseconds=1))


def _moment(micros: bytes) -> datetime | None:
    return _EPOCH + timedelta(0, 0, int(micros)) if micros.isdigit() else None
