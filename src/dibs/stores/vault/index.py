"""What lies where, kept in memory, so that the next task is found without reading every file each time.

A file is read again only when its stamp has changed. Whatever dibs changes, it notes in `.dibs/changes`, and others
read on there; what people change is found by sweeping over the folders, which reads no files but looks at each. A claim
sweeps at most once a second, or when it finds nothing: the file it picks is looked at once more anyway.
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
from dibs.stores.vault.page import Page
from dibs.stores.vault.places import FINISHED, IN_PROGRESS, NEEDS_ACTION, TASK_FOLDERS, Place, place_from

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from datetime import datetime

    from dibs.core.task import Link, OrderKey, Task
    from dibs.stores.vault.disk import Disk, Snapshot
    from dibs.stores.vault.reading import Reading


class Sight(NamedTuple):
    """Files that may be tasks, by path, and what lies among them and cannot be one."""

    stamps: dict[str, Stamp]
    problems: dict[str, str]


def look_around(root: str, known: Container[str]) -> Sight:
    """Hidden files are none of ours, and links are never followed. Paths that are known need no second judgement."""
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
        return  # gone meanwhile


def _misplaced(path: str, found: os.DirEntry[str]) -> str | None:
    """Why there can be no task in this file."""
    if found.is_symlink():
        return "is a symbolic link, which is never followed"
    try:
        place_from(path)
    except InvalidInput as error:
        return error.message.rstrip(".")
    return None


def _shown(path: str) -> str:
    """A path that can be printed, whatever its bytes are."""
    return path.encode("utf-8", "backslashreplace").decode().translate({10: "\\n", 13: "\\r"})


Key: TypeAlias = "tuple[str, str]"


_MARKERS = re.compile(rb"^<{7} .*^={7}\r?$.*^>{7} ", re.MULTILINE | re.DOTALL)


class Entry:
    """One task file. `reading` is None as long as nobody needed to know what it says."""

    __slots__ = ("listed", "path", "place", "problem", "reading", "stamp", "wake", "woken")

    def __init__(self, place: Place, stamp: Stamp | None) -> None:
        self.place = place
        self.path = place.path  # relative to the vault
        self.stamp = stamp
        self.reading: Reading | None = None
        self.problem: str | None = None
        self.wake: datetime | None = None  # when time alone will make it claimable
        self.woken = False
        self.listed: OrderKey | None = None  # under which it stands among the claimable


class Index:
    """The tasks of one vault, by what a claim needs to know of them."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._root = root
        self._disk = disk
        self._paths: dict[str, Entry] = {}
        self._tasks: dict[Key, list[Entry]] = {}  # more than one: the same name in several folders
        self._dependents: dict[Key, set[Key]] = {}
        self._children: dict[Key, set[Key]] = {}
        self._ready: dict[str, list[tuple[OrderKey, Key]]] = {}
        self._due: list[tuple[datetime, Key]] = []
        self.problems: dict[str, str] = {}  # what lies among the tasks and cannot be one, by path
        self.now: datetime

    # Looking

    def entry(self, key: Key) -> Entry | None:
        """The file of a task, read; of several that share the name, the one that matters most."""
        found = self._first(key)
        if found is not None and found.reading is None and found.problem is None:
            self._load(found.path)
            return self._first(key)
        return found

    def _first(self, key: Key) -> Entry | None:
        found = self._tasks.get(key)
        return found[0] if found else None

    def twins(self, key: Key) -> list[str]:
        """Where a task lies, if that is more than one place."""
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
        """Where every task lies, whether or not its file was read."""
        return [same[0].place for key, same in self._tasks.items() if scope in {None, key[0]}]

    def counted(self, known: Reading) -> Task:
        blockers = self.blockers(known)
        return known.task._replace(blockers=blockers) if blockers else known.task

    def blockers(self, known: Reading) -> int:
        scope = known.task.scope
        return sum(link.kind is LinkKind.BLOCKS and not self.finished((scope, link.on)) for link in known.links)

    def finished(self, key: Key) -> bool:
        """What is not there is not finished: it may be on its way, and a check tells of it."""
        entry = self._first(key)
        return entry is not None and entry.place.finished

    def by_stamp(self, stamp: Stamp) -> Entry | None:
        """The file that looks exactly like this, wherever it lies."""
        return next((entry for entry in self._paths.values() if entry.stamp == stamp), None)

    def read_all(self) -> None:
        """Read also what is over and what others hold, for questions about the whole."""
        for key in list(self._tasks):
            self.entry(key)

    def dependents(self, key: Key) -> list[Link]:
        """The links that lead to a task."""
        found: list[Link] = []
        for other in sorted(self._dependents.get(key, ())):
            entry = self.entry(other)
            found += [link for link in entry.reading.links if link.on == key[1]] if entry and entry.reading else []
        return found

    def children(self, key: Key) -> list[Entry]:
        """The files of a task's sub-tasks."""
        found = (self.entry(child) for child in sorted(self._children.get(key, ())))
        return [entry for entry in found if entry and entry.reading and entry.reading.task.parent == key[1]]

    def head(self, scope: str | None) -> Iterator[Key]:
        """What may be claimed now, in order, while the index changes beneath."""
        scopes = list(self._ready) if scope is None else [scope]
        at: OrderKey | None = None
        while True:
            fronts = [front for one in scopes if (front := self._front(self._ready.get(one, []), at))]
            if not fronts:
                return
            at, key = min(fronts)
            yield key

    def _front(self, line: list[tuple[OrderKey, Key]], after: OrderKey | None) -> tuple[OrderKey, Key] | None:
        """The next in a line. Whoever was only struck off, because others have it now, goes for good."""
        place = 0 if after is None else bisect_left(line, (after, ("\U0010ffff", "")))
        while place < len(line):
            entry = self._first(line[place][1])
            if entry is not None and entry.listed == line[place][0]:
                return line[place]
            del line[place]
        return None

    def due(self) -> list[Entry]:
        """Those whose time has come, each told of once."""
        found: dict[Key, Entry] = {}
        while self._due and self._due[0][0] <= self.now:
            moment, key = heappop(self._due)
            entry = self._first(key)
            if entry is None or entry.wake != moment:
                continue
            entry = self.entry(key)  # read, by now it may be another's, or later
            if entry is not None and entry.wake is not None and entry.wake <= self.now:
                found[key] = entry
        return list(found.values())

    def anything_due(self, now: datetime) -> bool:
        """Whether time alone has unblocked something that nobody has been told of."""
        while self._due:
            moment, key = self._due[0]
            entry = self._first(key)
            if entry is not None and entry.wake == moment:
                return moment <= now
            heappop(self._due)
        return False

    def not_yet(self, entries: list[Entry]) -> None:
        """Tell of them again."""
        for entry in entries:
            self._schedule(entry)

    def wake(self, entry: Entry) -> None:
        """Time has made this one claimable."""
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
                self.put(Entry(place_from(path), stamp))
            else:
                self._load(path)
        for same in [same for same in self._tasks.values() if len(same) > 1]:
            for entry in list(same):
                self.confirm(entry.place)  # moved on between two looks, it was seen twice

    def notice(self, path: str, wake: datetime | None) -> None:
        """Another process has written this file. What is over or held is not read before someone asks."""
        if wake is not None and self._claimed_by_others(path, wake):
            return
        try:
            place = place_from(path)
        except InvalidInput:
            return  # no word of ours
        known = list(self._tasks.get(place.key, ()))
        for entry in known:
            if entry.path != path:
                self.forget(entry.path)
        if place.finished or (wake is not None and known):
            fresh = Entry(place, None)
            fresh.wake = wake
            self.put(fresh)
        else:
            self._load(path)

    def _claimed_by_others(self, path: str, wake: datetime) -> bool:
        """What is heard most often, made short: the file of a waiting task has gone to someone's folder."""
        folder, agent, tail = (*path.split("/", 2), "", "")[:3]
        entry = self._paths.get(f"{NEEDS_ACTION}/{tail}") if folder == IN_PROGRESS else None
        if entry is None or len(self._tasks[entry.place.key]) > 1:
            return False
        del self._paths[entry.path]
        entry.place, entry.path, entry.wake = Place(IN_PROGRESS, agent, *entry.place.key), path, wake
        entry.listed = entry.stamp = entry.reading = entry.problem = None
        self._paths[path] = entry
        heappush(self._due, (wake, entry.place.key))
        return True

    def place_of(self, key: Key) -> Place | None:
        entry = self._first(key)
        return None if entry is None else entry.place

    def confirm(self, place: Place) -> None:
        """Forget a file that is not there any more."""
        if self._disk.look(self.absolute(place.path)) is None:
            self.forget(place.path)

    def refresh(self, path: str) -> None:
        """Read a file again, whatever its stamp says; or forget it."""
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
        """Take a file in, in place of what was known of it."""
        path, key = entry.path, entry.place.key
        old = self._paths.get(path)
        if old is not None:
            self._unlist(old)
            self._tasks[key].remove(old)
        self._paths[path] = entry
        same = self._tasks.setdefault(key, [])
        same.append(entry)
        same.sort(key=_precedence)
        known = entry.reading
        if known is not None:
            for link in known.links:
                self._dependents.setdefault((key[0], link.on), set()).add(key)
            if known.task.parent is not None:
                self._children.setdefault((key[0], known.task.parent), set()).add(key)
        self._reschedule(key)

    def forget(self, path: str) -> None:
        entry = self._paths.pop(path, None)
        if entry is None:
            return
        self._unlist(entry)
        same = self._tasks[entry.place.key]
        same.remove(entry)
        if not same:
            del self._tasks[entry.place.key]
        self._reschedule(entry.place.key)

    def _reschedule(self, key: Key) -> None:
        for entry in self._tasks.get(key, ()):
            self._schedule(entry)
        for dependent in tuple(self._dependents.get(key, ())):  # reading one may tell of another
            waiting = self.entry(dependent)
            if waiting is not None and not waiting.place.finished:
                self._schedule(waiting)

    def _schedule(self, entry: Entry) -> None:
        """Put a task among the claimable, or on the list of those whose time will come, or on neither."""
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


def read_entry(path: str, snapshot: Snapshot) -> Entry:
    """An entry for a file that was read; one that makes no sense carries the reason."""
    entry = Entry(place_from(path), Stamp.of(snapshot.stat))
    try:
        if len(snapshot.data) > LARGEST:
            entry.problem = f"is larger than {LARGEST >> 20} MiB"
            return entry
        if _MARKERS.search(snapshot.data):
            entry.problem = "holds the conflict markers of a merge"
            return entry
        entry.reading = reading.read(Page(snapshot.data.decode()), entry.place, snapshot.stat)
    except UnicodeDecodeError:
        entry.problem = "is not UTF-8 text"
    except ValueError as error:
        entry.problem = str(error)
    return entry


_ORDER = {folder: place for place, folder in enumerate((*TASK_FOLDERS[1:3], *TASK_FOLDERS[:1], *TASK_FOLDERS[3:]))}


def _precedence(entry: Entry) -> tuple[int, str]:
    return _ORDER[entry.place.folder], entry.path
