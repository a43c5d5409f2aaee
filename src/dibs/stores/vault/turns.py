"""Turns: to look at the vault, to claim in it, or to change it.

Those who look or claim may do so side by side, for the move of a file decides who has it. Whoever changes anything else
is alone. What was written stays written, whatever is raised later: there is no way back over many files.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from dibs.core.errors import NotFound, StoreBusy, StoreCorrupt
from dibs.stores.vault.disk import FULL, Stamp, translated
from dibs.stores.vault.index import Entry, read_entry
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from types import TracebackType

    from dibs.core.events import Event
    from dibs.core.task import Task
    from dibs.stores.vault.index import Key
    from dibs.stores.vault.vault import Vault

Value = TypeVar("Value")

_TRIES = 5


class Changed(Exception):
    """A file is not where, or not what, it was a moment ago: look again."""


class Unfinished(Exception):
    """Someone is writing the file at this moment."""


class NeedsAlone(Exception):
    """This cannot be done side by side with others."""


class Turn:
    """A look at the vault."""

    def __init__(self, vault: Vault, *, shared: bool = True) -> None:
        self.vault = vault
        self.index = vault.index
        self.shared = shared
        self.now: datetime

    def __enter__(self) -> Self:
        try:
            self._take()
            self.now = self.index.now = self.vault.clock()
            self._begin()
        except OSError as error:
            self.vault.turns.give()
            raise translated(error, self.vault.root) from error
        except BaseException:
            self.vault.turns.give()
            raise
        return self

    def _take(self) -> None:
        try:
            self.vault.turns.take(shared=self.shared)
        except FileNotFoundError:
            self.vault.make_home()
            self.vault.turns.take(shared=self.shared)

    def _begin(self) -> None:
        self.vault.catch_up()
        self.vault.sweep()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.vault.turns.give()
        if isinstance(error, OSError):
            raise translated(error, self.vault.root) from error

    def entry(self, scope: str, task_id: str) -> Entry:
        """The file of a task that can be read, or the error that says why not."""
        entry = self._current((scope, task_id))
        if entry is None:
            raise NotFound(f"There is no task '{task_id}' in {scope}.")
        if entry.problem is not None:
            raise StoreCorrupt(f"{entry.path} {entry.problem}. Put it right in an editor, or move it away.")
        return entry

    def _current(self, key: Key) -> Entry | None:
        return self.index.entry(key)

    def task(self, scope: str, task_id: str) -> Task:
        entry = self.entry(scope, task_id)
        if entry.reading is None:
            raise Changed
        return self.index.counted(entry.reading)


class Claiming(Turn):
    """A turn to claim, beside others. What has been done is told to them at the end, with the events."""

    def __init__(self, vault: Vault, *, shared: bool = True) -> None:
        super().__init__(vault, shared=shared)
        self._events: list[Event] = []
        self._changed: list[tuple[str, datetime | None]] = []
        self._told: list[tuple[str, datetime | None]] = []
        self._touched: set[str] = set()  # folders
        self._log: str | None = None

    def _begin(self) -> None:
        self.vault.catch_up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._tell()
        except OSError as failure:
            raise translated(failure, self.vault.root) from failure
        finally:
            self.vault.turns.give()
        self._settle()
        if isinstance(error, OSError):
            raise translated(error, self.vault.root) from error

    def record(self, event: Event) -> None:
        self._events.append(event)

    def changed(self, path: str, wake: datetime | None, folder: str) -> None:
        """A file was written; this folder has to reach the disk with it."""
        self._touched.add(folder)
        if (path, wake) not in self._told:
            self._changed.append((path, wake))

    def tell_ahead(self, path: str, wake: datetime | None) -> None:
        """Tell others of a claim as soon as it stands, before the disk is waited for: they need not run into it."""
        with suppress(OSError):  # they will, then
            self.vault.tell([(path, wake)])
            self._told.append((path, wake))

    def _tell(self) -> None:
        """A disk too full for the record undoes nothing: the events are kept for the next time, and reported."""
        vault = self.vault
        vault.unlogged += self._events
        if not (self._changed or vault.unlogged):
            return
        try:
            if self._changed:
                vault.tell(self._changed)
            if vault.unlogged:
                self._log = vault.log.append(vault.unlogged)
                vault.unlogged = []
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _settle(self) -> None:
        """Wait for the folders that files came to. What they left, and the log, go with them on a journaling file
        system; elsewhere a power cut may cost the log its last lines, which is not worth a second wait for each claim.
        """
        for path in self._touched or filter(None, (self._log,)):
            try:
                self.vault.disk.settle(path)
            except FileNotFoundError:
                continue  # an agent's folder that someone has cleared away since

    def entry(self, scope: str, task_id: str) -> Entry:
        if self.index.twins((scope, task_id)):
            self.vault.sweep()  # one of them may have been put right by now
        entry = super().entry(scope, task_id)
        twins = self.index.twins(entry.place.key)
        if twins:
            raise StoreCorrupt(f"{task_id} lies in {' and in '.join(twins)}. 'dibs vault resolve' lets it lie in one.")
        return entry

    def _current(self, key: Key) -> Entry | None:
        """The file as it is now: what people have done to it since our last look counts."""
        entry = self.index.entry(key)
        if entry is not None:
            stat = self.vault.disk.look(self.index.absolute(entry.path))
            if stat is not None and Stamp.of(stat) == entry.stamp:
                return entry
        self.vault.sweep()
        if entry is not None and self.index.place_of(key) is None:
            self.vault.sweep()  # it may have been moved back and forth over a sweep's head
        return self.index.entry(key)

    def settled(self, act: Callable[[], Value]) -> Value:
        """Do it, and if a person was quicker, look at what they did and do it again."""
        for _ in range(_TRIES):
            try:
                return act()
            except Changed:
                self.vault.sweep()
            except Unfinished:
                time.sleep(0.02)
        raise StoreBusy("The file is being changed by another program. Try again.", retry_after_ms=1000)


class Alone(Claiming):
    """A turn to change anything. It begins by ending what a process could not that died."""

    def __init__(self, vault: Vault) -> None:
        super().__init__(vault, shared=False)

    def _begin(self) -> None:
        super()._begin()
        self.vault.tidy()
        try:
            left = os.listdir(self.vault.path(HOME, "tmp"))
        except FileNotFoundError:
            return
        for name in left:
            if not self._spare_of_the_living(name):
                self._finish_for_the_dead(name)

    def _spare_of_the_living(self, name: str) -> bool:
        kind, _, owner = name.partition("-")
        pid = owner.partition("-")[0]
        return kind == "spare" and pid.isdigit() and os.path.exists(f"/proc/{pid}")

    def _finish_for_the_dead(self, name: str) -> None:
        """A new version lies about: put it in place if its file was moved there already, and else forget it."""
        disk, fresh = self.vault.disk, self.vault.path(HOME, "tmp", name)
        stamp, size = stamp_from(name)
        stat = disk.look(fresh)
        if stamp is not None and stat is not None and stat.st_ino != stamp.inode and stat.st_size == size:
            self.vault.sweep()
            entry = self.index.by_stamp(stamp)
            made = None if entry is None else read_entry(entry.path, disk.read(fresh)).reading
            if entry is not None and made is not None and not made.by_hand:
                disk.swap(fresh, self.index.absolute(entry.path))
                self.vault.sweep()
                self._changed.append((entry.path, None))
        if disk.look(fresh) is not None:
            disk.remove(fresh)


def name_for(stamp: Stamp | None, size: int) -> str:
    """What a new version is called while it waits: which file it is for, and how long it is when it is complete."""
    return "-".join(str(part) for part in (*(stamp or (0, 0, 0)), size))


def stamp_from(name: str) -> tuple[Stamp | None, int]:
    parts = name.split("-")
    if len(parts) != len(Stamp._fields) + 1 or not all(part.isdigit() for part in parts):
        return None, 0
    *stamp, size = (int(part) for part in parts)
    return Stamp(*stamp), size
