"""The index of a vault's files in memory: finds the next task without reading every file each time.

A file is read again only when its stamp has changed. Processes of dibs note their changes in `.dibs/changes` for the
others. Changes by people are found by a sweep, which checks the stamp of every file. A claim sweeps at most once a
second, or when it finds nothing, because it checks the file it picks once more anyway.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput
from dibs.core.task import Holder, LinkKind, Status, order_key
from dibs.stores.vault import reading
from dibs.stores.vault.disk import LARGEST, Stamp
from dibs.stores.vault.page import Page, said_at_top
from dibs.stores.vault.places import (
    FINISHED,
    IN_PROGRESS,
    NEEDS_ACTION,
    TASK_FOLDERS,
    Place,
    id_from,
    id_said,
    numbered,
    place_from,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from datetime import datetime

    from dibs.core.task import Link, OrderKey, Task
    from dibs.stores.vault.disk import Disk, Snapshot
    from dibs.stores.vault.reading import Reading


class Sight(NamedTuple):
    """Stamps of files that may be tasks, and problems of entries that cannot be one, by path."""

    stamps: dict[str, Stamp]
    problems: dict[str, str]


def look_around(root: str, known: Container[str]) -> Sight:
    """List the task folders. Hidden files are ignored, links are never followed, known paths are not checked again."""
    sight = Sight({}, {})
    for folder in TASK_FOLDERS:
        _look_through(root, folder, known, sight)
    return sight


def _look_through(root: str, folder: str, known: Container[str], sight: Sight) -> None:
    try:
        listing = os.scandir(f"{root}/{folder}")
    except FileNotFoundError:
        return
    except OSError as error:
        sight.problems[_shown(folder)] = f"cannot be looked through: {error.strerror}"
        return
    with listing:
        for found in listing:
            name = found.name
            if name[0] == ".":
                continue
            path = f"{folder}/{name}"
            if found.is_dir(follow_symlinks=False):
                _look_through(root, path, known, sight)
            elif name.endswith(".md") or found.is_symlink():
                _look_at(path, found, known, sight)


def _look_at(path: str, found: os.DirEntry[str], known: Container[str], sight: Sight) -> None:
    problem = _misplaced(path, found) if path not in known or found.is_symlink() else None
    if problem is not None or not found.is_file(follow_symlinks=False):
        sight.problems[_shown(path)] = problem or "is no regular file"
        return
    try:
        sight.stamps[path] = Stamp.of(found.stat(follow_symlinks=False))
    except FileNotFoundError:
        return  # gone since the listing


def _misplaced(path: str, found: os.DirEntry[str]) -> str | None:
    """Why this file cannot be a task."""
    if found.is_symlink():
        return "is a symbolic link, which is never followed"
    try:
        place_from(path)
    except InvalidInput as error:
        return error.message.rstrip(".")
    return None


def _shown(path: str) -> str:
    """A path with unprintable bytes escaped."""
    return path.encode("utf-8", "backslashreplace").decode().translate({10: "\\n", 13: "\\r"})


Key: TypeAlias = "tuple[str, str]"


_MARKERS = re.compile(rb"^<{7} .*^={7}\r?$.*^>{7} ", re.MULTILINE | re.DOTALL)


class Entry:
    """One task file. `reading` is None until its content is needed."""

    __slots__ = ("base", "listed", "name", "path", "place", "problem", "reading", "says_id", "stamp", "wake", "woken")

    def __init__(self, place: Place, stamp: Stamp | None, *, says_id: bool = True) -> None:
        self.place = place
        self.base = place.key  # by its task_id or its name; the index may give the task another id
        self.says_id = says_id
        self.name: Key = (place.scope, id_from(place.file))
        self.path = place.path  # relative to the vault
        self.stamp = stamp
        self.reading: Reading | None = None
        self.problem: str | None = None
        self.wake: datetime | None = None  # when time alone will make it claimable
        self.woken = False
        self.listed: OrderKey | None = None  # its place among the claimable tasks


class Index:
    """The tasks of one vault."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._root = root
        self._disk = disk
        self._paths: dict[str, Entry] = {}
        self._tasks: dict[Key, list[Entry]] = {}  # several: files with the same task_id
        self._bases: dict[Key, list[Entry]] = {}  # several: a name used again, or duplicates
        self._given: dict[Key, Key] = {}  # ids given to files whose name was used before, and their base
        self._named: dict[Key, list[Entry]] = {}  # by the names of their files, as ids
        self._dependents: dict[Key, set[Key]] = {}
        self._children: dict[Key, set[Key]] = {}
        self._ready: dict[str, list[tuple[OrderKey, Key]]] = {}
        self._due: list[tuple[datetime, Key]] = []
        self.problems: dict[str, str] = {}  # of files that cannot be tasks, by path
        self.now: datetime

    # Looking

    def entry(self, key: Key) -> Entry | None:
        """The file of a task, read. Of several, the one in the folder that counts most."""
        found = self._first(key)
        if found is not None and found.reading is None and found.problem is None:
            self._load(found.path)
            return self._first(key)
        return found

    def _first(self, key: Key) -> Entry | None:
        """By id, or by file name, which people use in links."""
        found = self._tasks.get(key) or self._named.get(key)
        return found[0] if found else None

    def twins(self, key: Key) -> list[str]:
        """The paths of a task that has several files."""
        found = self._tasks.get(key, ())
        return sorted(entry.path for entry in found) if len(found) > 1 else []

    def keys_in(self, scope: str | None = None, *, finished: bool = True) -> list[Key]:
        found = (key for key in self._tasks if scope is None or key[0] == scope)
        return sorted(found if finished else (key for key in found if not self.finished(key)))

    def tasks(self, scope: str | None = None, *, finished: bool = True) -> list[Task]:
        """Every readable task, with its count of blockers."""
        found = (self.entry(key) for key in self.keys_in(scope, finished=finished))
        return [self.counted(entry.reading) for entry in found if entry and entry.reading]

    def places(self, scope: str | None) -> list[Place]:
        """The places of all tasks, whether or not their files were read."""
        return [same[0].place for key, same in self._tasks.items() if scope in {None, key[0]}]

    def counted(self, known: Reading) -> Task:
        blockers = self.blockers(known)
        return known.task._replace(blockers=blockers) if blockers else known.task

    def blockers(self, known: Reading) -> int:
        scope = known.task.scope
        return sum(link.kind is LinkKind.BLOCKS and not self.finished((scope, link.on)) for link in known.links)

    def finished(self, key: Key) -> bool:
        """Whether a task is finished. A missing one is not: its file may still arrive, and `check` reports it."""
        entry = self._first(key)
        return entry is not None and entry.place.finished

    def by_stamp(self, stamp: Stamp) -> Entry | None:
        """The file with this stamp, in whatever folder."""
        return next((entry for entry in self._paths.values() if entry.stamp == stamp), None)

    def read_all(self) -> None:
        """Read all files, also of finished and held tasks."""
        for key in list(self._tasks):
            self.entry(key)

    def dependents(self, key: Key) -> list[Link]:
        """The links that lead to a task."""
        found: list[Link] = []
        names = self._names(key)
        for other in sorted({other for name in names for other in self._dependents.get(name, ())}):
            entry = self.entry(other)
            known = entry.reading.links if entry and entry.reading else ()
            found += [link for link in known if (key[0], link.on) in names]
        return found

    def _names(self, key: Key) -> set[Key]:
        """The names that links use for a task: its id, and its file's name unless that is another task's id."""
        entry = self._first(key)
        if entry is None:
            return {key}
        return {key, entry.name} if self._first(entry.name) is entry else {key}

    def free(self, place: Place, entry: Entry | None = None) -> Place:
        """The same place, numbered if another task of the scope has the name in any folder."""
        first, number = place.file, 1
        while any(other is not entry for other in self._named.get((place.scope, id_from(place.file)), ())):
            number += 1
            place = place._replace(file=numbered(first, number))
        return place

    def children(self, key: Key) -> list[Entry]:
        """The files of a task's sub-tasks."""
        found = (self.entry(child) for child in sorted(self._children.get(key, ())))
        return [entry for entry in found if entry and entry.reading and entry.reading.task.parent == key[1]]

    def head(self, scope: str | None) -> Iterator[Key]:
        """Claimable tasks in order. The index may change between two of them."""
        scopes = list(self._ready) if scope is None else [scope]
        at: OrderKey | None = None
        while True:
            fronts = [front for one in scopes if (front := self._front(self._ready.get(one, []), at))]
            if not fronts:
                return
            at, key = min(fronts)
            yield key

    def _front(self, line: list[tuple[OrderKey, Key]], after: OrderKey | None) -> tuple[OrderKey, Key] | None:
        """The next claimable task of a scope. Removes entries of tasks that others have claimed."""
        place = 0 if after is None else bisect_left(line, (after, ("\U0010ffff", "")))
        while place < len(line):
            entry = self._first(line[place][1])
            if entry is not None and entry.listed == line[place][0]:
                return line[place]
            del line[place]
        return None

    def due(self) -> list[Entry]:
        """Tasks that have become due, each returned once."""
        found: dict[Key, Entry] = {}
        while self._due and self._due[0][0] <= self.now:
            moment, key = heappop(self._due)
            entry = self._first(key)
            if entry is None or entry.wake != moment:
                continue
            entry = self.entry(key)  # once read, it may belong to another agent or be due later
            if entry is not None and entry.wake is not None and entry.wake <= self.now:
                found[key] = entry
        return list(found.values())

    def anything_due(self, now: datetime) -> bool:
        """Whether a task has become due that `due` has not returned yet."""
        while self._due:
            moment, key = self._due[0]
            entry = self._first(key)
            if entry is not None and entry.wake == moment:
                return moment <= now
            heappop(self._due)
        return False

    def not_yet(self, entries: list[Entry]) -> None:
        """Let `due` return these again."""
        for entry in entries:
            self._schedule(entry)

    def wake(self, entry: Entry) -> None:
        """Make a due task claimable."""
        entry.woken, entry.wake = True, None
        self._schedule(entry)

    # Keeping up

    def sweep(self) -> None:
        """Look at every file, and read those that are new or have changed."""
        sight = look_around(self._root, self._paths)
        self.problems = sight.problems
        for path in [path for path in self._paths if path not in sight.stamps]:
            self.forget(path)
        for path, stamp in sight.stamps.items():
            entry = self._paths.get(path)
            if entry is not None and entry.stamp in {None, stamp}:
                entry.stamp = stamp
            elif path.partition("/")[0] in FINISHED:
                self._glance(path, stamp)
            else:
                self._load(path)
        for same in [same for same in self._tasks.values() if len(same) > 1]:
            for entry in list(same):
                self.confirm(entry.place)  # a file that moved during the sweep was seen twice

    def notice(self, path: str, wake: datetime | None) -> None:
        """Take in a file that another process has written. Finished and held tasks are read only when needed."""
        if wake is not None and self._claimed_by_others(path, wake):
            return
        try:
            folder = place_from(path).folder
        except InvalidInput:
            return  # not written by dibs
        if folder in FINISHED or (wake is not None and folder == IN_PROGRESS):
            self._glance(path, None, wake)
        else:
            self._load(path)
        entry = self._paths.get(path)
        for other in list(self._tasks.get(entry.place.key, ())) if entry is not None else ():
            if other is not entry:
                self.confirm(other.place)

    def _glance(self, path: str, stamp: Stamp | None, wake: datetime | None = None) -> None:
        """Read only a file's id; the rest is read when needed."""
        try:
            top = self._disk.read_top(self.absolute(path))
            said = id_said(said_at_top(top, reading.TASK_ID))
        except (OSError, ValueError):
            self._load(path)  # gone, unreadable, or a front matter that is too long
            return
        entry = Entry(place_from(path, said), stamp, says_id=said is not None)
        entry.wake = wake
        self.put(entry)

    def _claimed_by_others(self, path: str, wake: datetime) -> bool:
        """A short cut for the most frequent change: an agent has claimed a waiting task."""
        folder, agent, tail = (*path.split("/", 2), "", "")[:3]
        entry = self._paths.get(f"{NEEDS_ACTION}/{tail}") if folder == IN_PROGRESS else None
        if entry is None or len(self._bases[entry.base]) > 1:
            return False
        del self._paths[entry.path]
        entry.place, entry.path, entry.wake = entry.place._replace(folder=IN_PROGRESS, agent=agent), path, wake
        entry.listed = entry.stamp = entry.reading = entry.problem = None
        self._paths[path] = entry
        heappush(self._due, (wake, entry.place.key))
        return True

    def place_of(self, key: Key) -> Place | None:
        entry = self._first(key)
        return None if entry is None else entry.place

    def confirm(self, place: Place) -> None:
        """Forget a file that has gone."""
        if self._disk.look(self.absolute(place.path)) is None:
            self.forget(place.path)

    def refresh(self, path: str) -> None:
        """Read a file again even if its stamp is unchanged, or forget it if it has gone."""
        if self._disk.look(self.absolute(path)) is None:
            self.forget(path)
        else:
            self._load(path)

    def _load(self, path: str) -> None:
        try:
            snapshot = self._disk.read(self.absolute(path))
        except FileNotFoundError:
            self.forget(path)
            return
        except OSError as error:
            self.problems[path] = f"cannot be read: {error.strerror}"
            self.forget(path)
            return
        self.put(read_entry(path, snapshot))

    def put(self, entry: Entry) -> None:
        """Add a file, or replace its entry."""
        old = self._paths.get(entry.path)
        if old is not None and old.base == entry.base and len(self._bases[old.base]) == 1:
            self._leave(old)
            self._bases[entry.base] = [entry]
            self._paths[entry.path] = entry
            self._seat(entry, old.place.key)
            return
        self.forget(entry.path)
        self._paths[entry.path] = entry
        self._bases.setdefault(entry.base, []).append(entry)
        self._assign(entry.base)
        other = self._given.get(entry.base)
        if other is not None:
            self._assign(other)

    def forget(self, path: str) -> None:
        entry = self._paths.pop(path, None)
        if entry is None:
            return
        self._leave(entry)
        others = self._bases[entry.base]
        others.remove(entry)
        if others:
            self._assign(entry.base)
        else:
            del self._bases[entry.base]
        self._reschedule(entry.place.key, entry.name)

    def _assign(self, base: Key) -> None:
        """Give each file with this id or name its task."""
        first, *others = _parted(self._bases[base])
        for key in [key for key, of in self._given.items() if of == base] if self._given else ():
            del self._given[key]
        for entry in first:
            self._seat(entry, base)
        number = 1
        for group in others:
            key = base
            while key in self._bases or key in self._given:
                number += 1
                key = base[0], id_from(numbered(group[0].place.file, number))
            self._given[key] = base
            for entry in group:
                self._seat(entry, key)

    def _seat(self, entry: Entry, key: Key) -> None:
        """Make a file the file of this task."""
        if entry.place.key != key:
            before = entry.place.key
            self._leave(entry)
            self._reschedule(before)
            entry.place = entry.place._replace(id=key[1])
            if entry.reading is not None:
                entry.reading = reading.known_as(entry.reading, entry.place)
        for line, one in ((self._tasks, key), (self._named, entry.name)):
            same = line.setdefault(one, [])
            if entry not in same:
                same.append(entry)
                same.sort(key=_precedence)
        known = entry.reading
        if known is not None:
            for link in known.links:
                self._dependents.setdefault((key[0], link.on), set()).add(key)
            if known.task.parent is not None:
                self._children.setdefault((key[0], known.task.parent), set()).add(key)
        self._reschedule(key, entry.name)

    def _leave(self, entry: Entry) -> None:
        self._unlist(entry)
        for line, one in ((self._tasks, entry.place.key), (self._named, entry.name)):
            same = line.get(one, [])
            if entry in same:
                same.remove(entry)
                if not same:
                    del line[one]

    def _reschedule(self, *keys: Key) -> None:
        for key in dict.fromkeys(keys):
            for entry in self._tasks.get(key, ()):
                self._schedule(entry)
            for dependent in tuple(self._dependents.get(key, ())):  # reading one may add another
                waiting = self.entry(dependent)
                if waiting is not None and not waiting.place.finished:
                    self._schedule(waiting)

    def _schedule(self, entry: Entry) -> None:
        """List a task as claimable, or as due later, or as neither."""
        self._unlist(entry)
        known = entry.reading
        if known is None:
            if entry.wake is not None:
                heappush(self._due, (entry.wake, entry.place.key))
            return
        task = known.task
        open_to_all = task.status is Status.READY
        if not entry.woken:
            entry.wake = None
            if open_to_all and task.not_before is not None and task.not_before > self.now:
                entry.wake = task.not_before
            elif task.lease is not None and task.lease.holder is Holder.AGENT:
                entry.wake = task.lease.expires_at
        if entry.wake is not None:
            heappush(self._due, (entry.wake, entry.place.key))
        elif (open_to_all or entry.woken) and len(self._tasks[entry.place.key]) == 1 and not self.blockers(known):
            entry.listed = order_key(task)
            insort(self._ready.setdefault(task.scope, []), (entry.listed, entry.place.key))

    def _unlist(self, entry: Entry) -> None:
        if entry.listed is None:
            return
        line = self._ready[entry.place.scope]
        del line[bisect_left(line, (entry.listed, entry.place.key))]
        entry.listed = None

    def absolute(self, path: str) -> str:
        return f"{self._root}/{path}"


def _parted(here: list[Entry]) -> list[list[Entry]]:
    """Files of one name or id, grouped by task; the first group has it as its id.

    A new file under the name of a finished task is another task, unless its task_id is the same.
    """
    if len(here) == 1:
        return [here]
    first = [entry for entry in here if entry.says_id]
    finished = sorted((entry for entry in here if not entry.says_id and entry.place.finished), key=_precedence)
    unfinished = [entry for entry in here if not entry.says_id and not entry.place.finished]
    if not first:
        first, finished = finished[:1], finished[1:]
    if not all(entry.place.finished for entry in first) or not first:
        first, unfinished = first + unfinished, []
    return [first, *([entry] for entry in finished), *([unfinished] if unfinished else [])]


def read_entry(path: str, snapshot: Snapshot) -> Entry:
    """The entry of a file, with its problem if it cannot be read as a task."""
    entry = Entry(place_from(path), Stamp.of(snapshot.stat), says_id=False)
    try:
        if len(snapshot.data) > LARGEST:
            entry.problem = f"is larger than {LARGEST >> 20} MiB"
            return entry
        if _MARKERS.search(snapshot.data):
            entry.problem = "holds the conflict markers of a merge"
            return entry
        page = Page(snapshot.data.decode())
        said = reading.said_id(page)
        if said is not None:
            entry = Entry(place_from(path, said), entry.stamp)
        entry.reading = reading.read(page, entry.place, snapshot.stat)
    except UnicodeDecodeError:
        entry.problem = "is not UTF-8 text"
    except ValueError as error:
        entry.problem = str(error)
    return entry


_ORDER = {folder: place for place, folder in enumerate((*TASK_FOLDERS[1:3], *TASK_FOLDERS[:1], *TASK_FOLDERS[3:]))}


def _precedence(entry: Entry) -> tuple[int, str]:
    return _ORDER[entry.place.folder], entry.path
