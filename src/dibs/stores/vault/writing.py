"""How a file is written: the few steps at which people and processes meet.

A finish, an edit or a link first gets the new version ready in `.dibs/tmp`, then moves the file if it is to lie
elsewhere, then lets the two change places. A claim moves first: the move decides who has it. Each step either finds the
file as it was last seen, or gives up without having changed it. Whoever comes after a process that died in between puts
right what it left behind (`turns.Alone`), or goes by what the folder tells.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists, StoreBusy, StoreFull
from dibs.stores.vault import reading
from dibs.stores.vault.disk import FULL, Stamp
from dibs.stores.vault.index import Entry, read_entry
from dibs.stores.vault.page import Page
from dibs.stores.vault.places import NEEDS_ACTION, place_for
from dibs.stores.vault.reading import Reading
from dibs.stores.vault.turns import Changed, Unfinished, name_for
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from dibs.core.task import Link, Task
    from dibs.stores.vault.disk import Snapshot
    from dibs.stores.vault.turns import Alone, Claiming

    Links = tuple[Link, ...]

_TRIES = 5
_NEW = "new"  # what a new file is called before it has a place; only who is alone makes any
_PATIENCE = 0.5  # seconds in which whoever has a file open for writing may close it


def create(tx: Alone, task: Task, links: Links) -> None:
    """A new file, complete from its first moment."""
    target = Entry(place_for(task.scope, task.id, task.status, None), None)
    page = Page("")
    page.front.put(reading.TASK_ID, task.id)
    reading.write(page, task, links)
    fresh = tx.vault.path(HOME, "tmp", _NEW)
    target.stamp = _write(tx, fresh, page)
    try:
        tx.vault.disk.move(fresh, tx.index.absolute(target.path))
    except FileExistsError:
        tx.vault.disk.remove(fresh)
        raise AlreadyExists(f"There is a file {target.path} already; 'dibs edit' changes a task.") from None
    _took_place(tx, None, target, _reading(task, links))


def rewrite(tx: Claiming, entry: Entry, after: Task, links: Links | None = None, note: str = "") -> None:
    """Make a file say, and lie where, `after` means; Changed if it is not as it was when we looked."""
    page = _page(_snapshot(tx, entry))
    linked = _update(page, entry, after, links, note)
    target = Entry(place_for(after.scope, after.id, after.status, after.lease and after.lease.agent), None)
    fresh = tx.vault.path(HOME, "tmp", name_for(entry.stamp, len(page.text().encode())))
    target.stamp = _write(tx, fresh, page)
    moved = False
    try:
        moved = _move(tx, entry, target)
        _swap(tx, fresh, entry.stamp, target)
    except (Changed, AlreadyExists):
        _discard(tx, fresh)
        if moved:
            _move_back(tx, target, entry)
        raise
    tx.vault.disk.put_by(fresh, tx.vault.spare)
    _took_place(tx, entry, target, _reading(after, linked, entry))


def take(tx: Claiming, entry: Entry, after: Task, note: str) -> None:
    """Claim: move the file, and whoever moved it has it; then let it say so.

    If there is no room to say so, the claim stands all the same, and StoreFull tells of it.
    """
    snapshot = _snapshot(tx, entry)
    target = Entry(place_for(after.scope, after.id, after.status, after.lease and after.lease.agent), None)
    _move(tx, entry, target)
    tx.tell_ahead(target.path, after.lease and after.lease.expires_at)
    try:
        known = _annotate(tx, entry, snapshot, target, after, note)
    except OSError as error:
        there = read_entry(target.path, tx.vault.disk.read(tx.index.absolute(target.path)))
        target.stamp = there.stamp
        _took_place(tx, entry, target, there.reading)
        if error.errno not in FULL:
            raise
        raise StoreFull(
            f"{after.id} is yours and lies in {os.path.dirname(target.path)}, but there was no room to write your "
            f"lease down. Free some space and ask again; for {reading.UNPROVED_LEASE} nobody else will get it."
        ) from error
    _took_place(tx, entry, target, known)


def remove(tx: Alone, entry: Entry) -> None:
    """Take a finished task's file away for good."""
    path = tx.index.absolute(entry.path)
    tx.vault.disk.remove(path)
    tx.index.forget(entry.path)
    tx.changed(entry.path, None, os.path.dirname(path))


def _annotate(tx: Claiming, entry: Entry, snapshot: Snapshot, target: Entry, after: Task, note: str) -> Reading:
    """Say on the page whose it is. Nobody has to finish this for us if we die: the folder tells."""
    for _ in range(_TRIES):
        page = _page(snapshot)
        linked = _update(page, entry, after, None, note)
        target.stamp = _write(tx, tx.vault.spare, page)
        try:
            _swap(tx, tx.vault.spare, entry.stamp, target)
        except Changed:  # edited in this very moment: it is ours already, with the new text
            snapshot = _read(tx, target.path)
            entry = read_entry(target.path, snapshot)
            after = _with_new_text(after, entry)
        else:
            return _reading(after, linked, entry)
    raise StoreBusy(f"{target.path} changes all the time; your claim stands.", retry_after_ms=1000)


def _with_new_text(after: Task, entry: Entry) -> Task:
    known = entry.reading
    return after if known is None else after._replace(title=known.task.title, description=known.task.description)


def _snapshot(tx: Claiming, entry: Entry) -> Snapshot:
    """The file, as long as it is what we know; whoever is writing it gets a moment to finish."""
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


def _update(page: Page, entry: Entry, after: Task, links: Links | None, note: str) -> Links:
    if note:
        page.add_note(note)
    if links is None:
        links = entry.reading.links if entry.reading else ()
    reading.write(page, after, links, entry.reading)
    return links


def _reading(task: Task, links: Links, before: Entry | None = None) -> Reading:
    """What a page says that was written just now."""
    doubts = before.reading.doubts if before is not None and before.reading else ()
    proof = task.lease.token if task.lease else None
    return Reading(task._replace(blockers=0), links, proof, doubts=doubts)


def _write(tx: Claiming, fresh: str, page: Page) -> Stamp:
    """A finished new version; it shows by its name which file it is for, unless it is a claim's."""
    disk, data = tx.vault.disk, page.text().encode()
    try:
        stat = disk.write_over(tx.vault.spare, fresh, data) or disk.write(fresh, data)
    except FileNotFoundError:
        tx.vault.make_home()
        stat = disk.write(fresh, data)
    return Stamp.of(stat)


def _move(tx: Claiming, source: Entry, target: Entry) -> bool:
    if source.path == target.path:
        return False
    try:
        tx.vault.disk.move(tx.index.absolute(source.path), tx.index.absolute(target.path))
    except FileNotFoundError:
        raise Changed from None
    except FileExistsError:
        raise AlreadyExists(
            f"{source.place.id} cannot go to {target.path}: there is a file of that name. Rename one of them."
        ) from None
    return True


def _move_back(tx: Claiming, target: Entry, source: Entry) -> None:
    """Someone edited the file while it was on its way: it goes back as they left it, unless they moved it on."""
    try:
        tx.vault.disk.move(tx.index.absolute(target.path), tx.index.absolute(source.path))
    except (FileNotFoundError, FileExistsError):
        tx.vault.sweep()


def _swap(tx: Claiming, fresh: str, stamp: Stamp | None, target: Entry) -> None:
    """Put the new version in place, and take it back if the old one is not what it was made from."""
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
    """Remember where a file lies now and what it says, and tell the others."""
    entry.reading = known
    if left is not None and left.path != entry.path:
        tx.index.forget(left.path)
    tx.index.put(entry)
    tx.changed(entry.path, entry.wake, os.path.dirname(tx.index.absolute(entry.path)))
