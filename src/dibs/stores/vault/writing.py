"""Turns of a process at a vault, and the steps by which it writes a file.

A finish, an edit or a link writes the new version to `.dibs/tmp`, moves the file if its folder changes, then swaps the
two. A claim moves first: the move decides who has the task. Each step finds the file in the state last seen, or raises
Changed and changes nothing. If a process dies in between, the next `Alone` turn completes its write.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from dibs.core.errors import AlreadyExists, NotFound, StoreBusy, StoreCorrupt, StoreFull
from dibs.stores.vault import reading
from dibs.stores.vault.disk import FULL, Stamp, translated
from dibs.stores.vault.index import Entry, read_entry
from dibs.stores.vault.page import Page
from dibs.stores.vault.places import NEEDS_ACTION, file_name, numbered, place_for
from dibs.stores.vault.reading import Reading
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Link, Task
    from dibs.stores.vault.disk import Snapshot
    from dibs.stores.vault.places import Place

    Links = tuple[Link, ...]
    from collections.abc import Callable
    from datetime import datetime
    from types import TracebackType

    from dibs.core.events import Event
    from dibs.stores.vault.index import Key
    from dibs.stores.vault.vault import Vault

Value = TypeVar("Value")

_TRIES = 5


class Changed(Exception):
    """A file has moved or changed since it was read: look again."""


class Unfinished(Exception):
    """A program is writing the file at this moment."""


class NeedsAlone(Exception):
    """This needs an exclusive turn."""


class Turn:
    """A turn to read the vault."""

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
        vault = self.vault
        while True:
            try:
                vault.turns.take(shared=self.shared)
            except FileNotFoundError:
                vault.refuse_another_folder()
                vault.make_home()
                vault.turns.take(shared=self.shared)
            if vault.recognise():
                return
            vault.turns.give()
            vault.turns.close()

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
            raise StoreCorrupt(f"{entry.path} {entry.problem}. Correct it in an editor, or move it away.")
        return entry

    def _current(self, key: Key) -> Entry | None:
        return self.index.entry(key)

    def task(self, scope: str, task_id: str) -> Task:
        entry = self.entry(scope, task_id)
        if entry.reading is None:
            raise Changed
        return self.index.counted(entry.reading)


class Claiming(Turn):
    """A turn to claim, shared with other processes. Its changes and events are published at its end."""

    def __init__(self, vault: Vault, *, shared: bool = True) -> None:
        super().__init__(vault, shared=shared)
        self._events: list[Event] = []
        self._changed: list[tuple[str, datetime | None]] = []
        self._announced: list[tuple[str, datetime | None]] = []
        self._touched: set[str] = set()  # folders
        self._log: str | None = None

    def _begin(self) -> None:
        self.vault.catch_up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._publish()
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
        """Note a written file, and the folder that must reach the disk with it."""
        self._touched.add(folder)
        if (path, wake) not in self._announced:
            self._changed.append((path, wake))

    def announce_claim(self, path: str, wake: datetime | None) -> None:
        """Announce a claim before waiting for the disk, so that others do not try the same task."""
        with suppress(OSError):  # then they try it, and lose
            self.vault.announce([(path, wake)])
            self._announced.append((path, wake))

    def _publish(self) -> None:
        """Announce changes and write events. A full disk undoes nothing: events are kept for the next turn."""
        vault = self.vault
        vault.unlogged += self._events
        if not (self._changed or vault.unlogged):
            return
        try:
            if self._changed:
                vault.announce(self._changed)
            if vault.unlogged:
                self._log = vault.log.append(vault.unlogged)
                vault.unlogged = []
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _settle(self) -> None:
        """Wait until the disk has the folders that files came to.

        A journaling file system writes the folders they left, and the log, with them. Elsewhere a power cut may cost
        the log its last lines, which is not worth a second wait for each claim.
        """
        for path in self._touched or filter(None, (self._log,)):
            try:
                self.vault.disk.settle(path)
            except FileNotFoundError:
                continue  # an agent's folder that has been removed since

    def entry(self, scope: str, task_id: str) -> Entry:
        if self.index.twins((scope, task_id)):
            self.vault.sweep()  # a person may have corrected one of them
        entry = super().entry(scope, task_id)
        twins = self.index.twins(entry.place.key)
        if twins:
            raise StoreCorrupt(
                f"{task_id} is the task of {' and of '.join(twins)}. Give one of them another task_id, or let "
                "'dibs vault resolve' keep the one that has gone furthest."
            )
        return entry

    def _current(self, key: Key) -> Entry | None:
        """The file's current entry, with changes that people have made since the last look."""
        entry = self.index.entry(key)
        if entry is not None:
            stat = self.vault.disk.look(self.index.absolute(entry.path))
            if stat is not None and Stamp.of(stat) == entry.stamp:
                return entry
        self.vault.sweep()
        if entry is not None and self.index.place_of(key) is None:
            self.vault.sweep()  # a file that was moved during the sweep may have been missed
        return self.index.entry(key)

    def settled(self, act: Callable[[], Value]) -> Value:
        """Call `act` again after each change by a person; StoreBusy if the changes do not stop."""
        for _ in range(_TRIES):
            try:
                return act()
            except Changed:
                self.vault.sweep()
            except Unfinished:
                time.sleep(0.02)
        raise StoreBusy("The file is being changed by another program. Try again.", retry_after_ms=1000)


class Alone(Claiming):
    """An exclusive turn. It begins by completing the write of a process that died."""

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
            if not self._is_spare_in_use(name):
                self._complete_interrupted_write(name)

    def _is_spare_in_use(self, name: str) -> bool:
        kind, _, owner = name.partition("-")
        pid = owner.partition("-")[0]
        return kind == "spare" and pid.isdigit() and os.path.exists(f"/proc/{pid}")

    def _complete_interrupted_write(self, name: str) -> None:
        """Complete an interrupted write if its file was moved already; else drop the new version."""
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
    """The name of a new version in `.dibs/tmp`: the stamp of its file, and its full size."""
    return "-".join(str(part) for part in (*(stamp or (0, 0, 0)), size))


def stamp_from(name: str) -> tuple[Stamp | None, int]:
    parts = name.split("-")
    if len(parts) != len(Stamp._fields) + 1 or not all(part.isdigit() for part in parts):
        return None, 0
    *stamp, size = (int(part) for part in parts)
    return Stamp(*stamp), size


_NAMES = 1000  # tried for a file whose own is taken
_NEW = "new"  # the name of a new file before it has a place; only an exclusive turn makes one
_PATIENCE = 0.5  # seconds in which another program may close a file it is writing


def create(tx: Alone, task: Task, links: Links) -> None:
    """Write a new file, complete from its first moment."""
    place = tx.index.free(place_for(task, file_name(task.id)))
    page = Page("")
    page.front.put(reading.TASK_ID, task.id)
    reading.write(page, task, links, place.file)
    fresh = tx.vault.path(HOME, "tmp", _NEW)
    stamp = _write(tx, fresh, page)
    for target in _targets(place):
        try:
            tx.vault.disk.move(fresh, tx.index.absolute(target.path))
        except FileExistsError:
            continue
        target.stamp = stamp
        _took_place(tx, None, target, _reading(task, links, target))
        return
    tx.vault.disk.remove(fresh)
    raise AlreadyExists(f"There is a file {place.path} already; 'dibs edit' changes a task.")


def rewrite(tx: Claiming, entry: Entry, after: Task, links: Links | None = None, note: str = "") -> None:
    """Write `after` to its file and move that to its folder. Changed if the file differs from the entry."""
    page = _page(_snapshot(tx, entry))
    place = place_for(after, entry.place.file)
    if place.path != entry.path:
        place = tx.index.free(place, entry)
    linked = _update(page, entry, after, links, note, place.file)
    fresh = tx.vault.path(HOME, "tmp", name_for(entry.stamp, len(page.text().encode())))
    stamp = _write(tx, fresh, page)
    target = entry
    try:
        target = _move(tx, entry, place)
        target.stamp = stamp
        _swap(tx, fresh, entry.stamp, target)
    except (Changed, AlreadyExists):
        _discard(tx, fresh)
        if target.path != entry.path:
            _move_back(tx, target, entry)
        raise
    tx.vault.disk.put_by(fresh, tx.vault.spare)
    _took_place(tx, entry, target, _reading(after, linked, target, entry))


def take(tx: Claiming, entry: Entry, after: Task, note: str) -> None:
    """Claim: move the file, which decides, then write the lease into it.

    If the disk has no room for the lease, the claim is valid all the same, and StoreFull is raised.
    """
    snapshot = _snapshot(tx, entry)
    target = _move(tx, entry, tx.index.free(place_for(after, entry.place.file), entry))
    tx.announce_claim(target.path, after.lease and after.lease.expires_at)
    try:
        known = _annotate(tx, entry, snapshot, target, after, note)
    except OSError as error:
        there = read_entry(target.path, tx.vault.disk.read(tx.index.absolute(target.path)))
        target.stamp = there.stamp
        _took_place(tx, entry, target, there.reading)
        if error.errno not in FULL:
            raise
        raise StoreFull(
            f"{after.id} is yours, in {os.path.dirname(target.path)}, but there was no room to write your "
            f"lease. Free some space and repeat the claim; no other agent gets it for {reading.UNPROVED_LEASE}."
        ) from error
    _took_place(tx, entry, target, known)


def remove(tx: Alone, entry: Entry) -> None:
    """Delete a finished task's file."""
    path = tx.index.absolute(entry.path)
    tx.vault.disk.remove(path)
    tx.index.forget(entry.path)
    tx.changed(entry.path, None, os.path.dirname(path))


def _annotate(tx: Claiming, entry: Entry, snapshot: Snapshot, target: Entry, after: Task, note: str) -> Reading:
    """Write the lease into the claimed file. If this process dies first, the folder still names the holder."""
    for _ in range(_TRIES):
        page = _page(snapshot)
        linked = _update(page, entry, after, None, note, target.place.file)
        target.stamp = _write(tx, tx.vault.spare, page)
        try:
            _swap(tx, tx.vault.spare, entry.stamp, target)
        except Changed:  # edited in this moment: it is claimed already, with the new text
            snapshot = _read(tx, target.path)
            entry = read_entry(target.path, snapshot)
            after = _with_new_text(after, entry)
        else:
            return _reading(after, linked, target, entry)
    raise StoreBusy(f"{target.path} changes all the time; your claim is valid.", retry_after_ms=1000)


def _with_new_text(after: Task, entry: Entry) -> Task:
    known = entry.reading
    return after if known is None else after._replace(title=known.task.title, description=known.task.description)


def _snapshot(tx: Claiming, entry: Entry) -> Snapshot:
    """Read the file; Changed if it differs from the entry. Waits a moment for a program that is writing it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        snapshot = _read(tx, entry.path)
        if Stamp.of(snapshot.stat) != entry.stamp:
            raise Changed
        if not snapshot.unfinished:
            return snapshot
        if entry.place.folder == NEEDS_ACTION:
            raise Unfinished
        if time.monotonic() > deadline:
            raise StoreBusy(f"{entry.path} is open for writing in another program.", retry_after_ms=1000)
        time.sleep(0.01)


def _read(tx: Claiming, path: str) -> Snapshot:
    try:
        return tx.vault.disk.read(tx.index.absolute(path))
    except (FileNotFoundError, NotADirectoryError):
        raise Changed from None


def _page(snapshot: Snapshot) -> Page:
    try:
        return Page(snapshot.data.decode())
    except ValueError:
        raise Changed from None


def _update(page: Page, entry: Entry, after: Task, links: Links | None, note: str, file: str) -> Links:
    if note:
        page.add_note(note)
    if links is None:
        links = entry.reading.links if entry.reading else ()
    reading.write(page, after, links, file, entry.reading)
    return links


def _reading(task: Task, links: Links, target: Entry, before: Entry | None = None) -> Reading:
    """The reading of a page that was just written."""
    doubts = before.reading.doubts if before is not None and before.reading else ()
    proof = task.lease.token if task.lease else None
    return reading.known_as(Reading(task._replace(blockers=0), links, proof, doubts=doubts), target.place)


def _write(tx: Claiming, fresh: str, page: Page) -> Stamp:
    """Write the new version. Its name identifies the file it replaces, except for a claim."""
    disk, data = tx.vault.disk, page.text().encode()
    try:
        stat = disk.write_over(tx.vault.spare, fresh, data) or disk.write(fresh, data)
    except FileNotFoundError:
        tx.vault.make_home()
        stat = disk.write(fresh, data)
    return Stamp.of(stat)


def _move(tx: Claiming, source: Entry, place: Place) -> Entry:
    """Move a file to its place, numbered if another task's file has the name."""
    if source.path == place.path:
        return Entry(place, None)
    for target in _targets(place):
        try:
            tx.vault.disk.move(tx.index.absolute(source.path), tx.index.absolute(target.path))
        except FileNotFoundError:
            raise Changed from None
        except FileExistsError:
            continue
        return target
    raise AlreadyExists(f"{place.id} cannot go to {place.path}: there are too many files of that name. Rename some.")


def _targets(place: Place) -> Iterator[Entry]:
    yield Entry(place, None)
    for number in range(2, _NAMES + 2):
        yield Entry(place._replace(file=numbered(place.file, number)), None)


def _move_back(tx: Claiming, target: Entry, source: Entry) -> None:
    """Move a file back that a person edited during the move, unless they have moved it on."""
    try:
        tx.vault.disk.move(tx.index.absolute(target.path), tx.index.absolute(source.path))
    except (FileNotFoundError, FileExistsError):
        tx.vault.sweep()


def _swap(tx: Claiming, fresh: str, stamp: Stamp | None, target: Entry) -> None:
    """Swap in the new version; swap back and raise Changed if the old one differs from the stamp."""
    disk, path = tx.vault.disk, tx.index.absolute(target.path)
    try:
        disk.swap(fresh, path)
    except FileNotFoundError:
        raise Changed from None
    old = disk.look(fresh)
    if old is not None and Stamp.of(old) != stamp:
        disk.swap(fresh, path)
        raise Changed


def _discard(tx: Claiming, fresh: str) -> None:
    if tx.vault.disk.look(fresh) is not None:
        tx.vault.disk.remove(fresh)


def _took_place(tx: Claiming, left: Entry | None, entry: Entry, known: Reading | None) -> None:
    """Record a file's new place and content in the index, and for other processes."""
    entry.reading = known
    if left is not None and left.path != entry.path:
        tx.index.forget(left.path)
    tx.index.put(entry)
    tx.changed(entry.path, entry.wake, os.path.dirname(tx.index.absolute(entry.path)))
