"""The files of a clone: read them, and bring in another state without losing text.

A replaced file is checked once more after it was swapped out. If a person has changed it, the swap is undone and the
file read again. A file that moves is renamed, so it is never missing in between.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from itertools import count
from stat import S_ISDIR, S_ISLNK
from typing import TYPE_CHECKING, NamedTuple, cast

from dibs.core.errors import InvalidInput, NoStore, StoreError
from dibs.core.task import Edit, Task
from dibs.stores.vault import reading
from dibs.stores.vault.disk import LARGEST, Disk, Stamp
from dibs.stores.vault.index import Index
from dibs.stores.vault.page import Page
from dibs.stores.vault.places import (
    DONE,
    FILE,
    FINISHED,
    IN_PROGRESS,
    NEEDS_ACTION,
    PENDING_APPROVAL,
    REJECTED,
    TASK_FOLDERS,
    numbered,
    place_from,
    scope_folder,
)
from dibs.stores.vault.vault import HOME, Vault, host_clock
from dibs.stores.vault.writing import Changed
from dibs.sync.git import repository
from dibs.sync.git.repository import LINK, MODULE, Blob, Difference, Places, Trees, is_task, places_of, shown, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.stores.vault.reading import Reading

    File = tuple[str, bytes]  # a path and its content


_FIELDS = tuple(name for name in Edit._fields if name in Task._fields and name != "queued_at")
_NO_TIME = os.stat_result((0,) * 10, {"st_mtime_ns": 0, "st_ctime_ns": 0})
_NOTED = re.compile(
    r"# Claimed Task: .*|## (Progress|Completion)|<!-- Agent adds progress notes here -->"
    r"|\*\*(Claimed By|Claimed At|Status|Completed At|Duration|Result|Reason|Next State)\*\*: .*"
)


def read(file: File) -> Reading | None:
    """The task in a file, or None if it is not one."""
    path, data = file
    if not is_task(unit_of(path)):
        return None
    try:
        page = Page(data.decode())
        return reading.read(page, place_from(path, reading.said_id(page)), _NO_TIME)
    except (ValueError, InvalidInput):
        return None


def identity(file: File) -> str:
    """The name of a file's task at the remote, by its `task_id`, else by its path."""
    path, data = file
    unit = unit_of(path)
    try:
        place = place_from(path, reading.said_id(Page(data.decode())))
        return repository.identity(scope_folder(place.scope), place.id)
    except (ValueError, InvalidInput):
        return unit


def said_in(data: bytes) -> str | None:
    """The `task_id` in a file's text, or None."""
    try:
        return reading.said_id(Page(data.decode()))
    except ValueError:
        return None


def text_of_task(file: File) -> object:
    """The text of a file with a `task_id`, which is one task in any domain; else its path."""
    return file[0] if said_in(file[1]) is None else file[1]


def _is_of(task: str, path: str, said: str | None) -> bool:
    if said is not None and not task.endswith(f"/{said}"):
        return False
    try:
        place = place_from(path, said)
    except InvalidInput:
        return False
    return repository.identity(scope_folder(place.scope), place.id) == task


def alike(one: File, other: File) -> bool:
    """Whether two files are one task, if only one of them can be there: the same text, or `task_id` in any domain."""
    said = said_in(one[1])
    return one[1] == other[1] or (said is not None and said == said_in(other[1]))


def is_new_task(file: File, others: Sequence[File]) -> bool:
    """Whether a waiting file is another task than these files, which have its name and have moved on."""
    if not others or not file[0].startswith(f"{NEEDS_ACTION}/"):
        return False
    if said_in(file[1]) is None:
        return all(path.partition("/")[0] in FINISHED for path, _ in others)
    return identity(file) not in {identity(other) for other in others}


def loses(file: File, others: Iterable[File]) -> bool:
    """Whether a file has text that none of the others has."""
    said, notes = _words(file)
    known = [_words(other) for other in others]
    return all(said != other for other, _ in known) or not notes <= set().union(*(more for _, more in known))


def _words(file: File) -> tuple[object, set[str]]:
    """The task's values, and the lines added to its notes."""
    found = read(file)
    if found is None:
        return file[1], set()
    lines = (line.strip() for line in Page(file[1].decode()).notes.splitlines())
    extra = {name: value for name, value in found.task.extra.items() if name != FILE}
    task = found.task._replace(extra=extra)  # a file's name is not part of its text
    said = [getattr(task, name) for name in _FIELDS], sorted(link._replace(task="") for link in found.links)
    return said, {line for line in lines if line and not _NOTED.fullmatch(line)}


def goes_on(file: File, published: File) -> bool:
    """Whether a file continues a published claim: renewed or ended by its holder."""
    claimed, now = read(published), read(file)
    if claimed is None or now is None or any(one.by_hand or one.edited for one in (claimed, now)):
        return False
    if claimed.proof is None or not published[0].startswith(f"{IN_PROGRESS}/"):
        return False
    return claimed.proof == (now.proof if file[0].startswith(f"{IN_PROGRESS}/") else now.task.spent_token)


_ASIDE = "Errors"
_STAGE = "incoming-"
_FURTHEST = (NEEDS_ACTION, IN_PROGRESS, PENDING_APPROVAL, REJECTED, DONE)
_TRIES = 10
_NAMES = 1000  # tried for a file whose own is taken
_UNFINISHED = 0.5  # seconds in which another program may finish writing a file

_numbers = count()


class Found(NamedTuple):
    """A file in the folder at one moment. For a link, `data` is its target."""

    path: str
    stamp: Stamp
    data: bytes
    link: bool

    @property
    def file(self) -> File:
        return self.path, self.data


def _progress(found: Found) -> tuple[int, int, int]:
    """How far a task has got: by folder, then attempt, then time of change."""
    known = read((found.path, found.data))
    folder = found.path.partition("/")[0]
    return _FURTHEST.index(folder), known.task.attempt if known else 0, found.stamp.mtime_ns


class Made(NamedTuple):
    """A unit in the folder, and as it was last published."""

    found: Sequence[Found]
    before: Places
    after: Places


class Brought(NamedTuple):
    """The result of bringing units into the folder."""

    changed: tuple[str, ...] = ()  # paths
    dropped: tuple[str, ...] = ()  # units whose local version gave way
    set_aside: tuple[str, ...] = ()


class Folder:
    """The work folder of one clone."""

    def __init__(self, root: str, trees: Trees, disk: Disk, timeout: float) -> None:
        self._root = root
        self._trees = trees
        self._disk = disk
        self._timeout = timeout
        self._said: dict[str, str | None] = {}  # the ids in contents that git has, by hash

    # Looking

    def look(self, unit: str) -> list[Found]:
        """The files of a unit in the folder."""
        found = (self._look_at(path) for path in places_of(unit, self._holders() if is_task(unit) else ()))
        return [one for one in found if one is not None]

    def without_old_claim(self, unit: str) -> list[Found]:
        """The same, after removing a claimed file that git brought back beside its finished version."""
        found = self.look(unit)
        if not is_task(unit) or len(found) == 1:
            return found
        files = [(one.path, one.data) for one in found if not one.link]
        old = {claim[0] for claim in files if any(end is not claim and goes_on(end, claim) for end in files)}
        for path in old:
            self.drop(path)
        return [one for one in found if one.path not in old]

    def _holders(self) -> list[str]:
        try:
            return sorted(os.listdir(self._path(IN_PROGRESS)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _look_at(self, path: str) -> Found | None:
        stat = self._disk.look(self._path(path))
        if stat is None or not self._inside(path):
            return None
        if S_ISDIR(stat.st_mode):
            raise StoreError(f"{path} is a folder here, and a file in the repository. Move one of them away.")
        try:
            if S_ISLNK(stat.st_mode):
                return Found(path, Stamp.of(stat), os.fsencode(os.readlink(self._path(path))), link=True)
            return self._read(path)
        except FileNotFoundError:
            return self._look_at(path)  # it has gone or was replaced in this moment

    def _read(self, path: str) -> Found:
        deadline = time.monotonic() + _UNFINISHED
        while True:
            snapshot = self._disk.read(self._path(path))
            if not snapshot.unfinished or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        data = snapshot.data
        if len(data) > LARGEST:
            with open(self._path(path), "rb") as file:
                data = file.read()
        return Found(path, Stamp.of(snapshot.stat), data, link=False)

    def _inside(self, path: str) -> bool:
        """Whether no folder on the way is a link, which might lead out of the vault."""
        parts = path.split("/")[:-1]
        ways = ("/".join(parts[: depth + 1]) for depth in range(len(parts)))
        return not any(os.path.islink(self._path(way)) for way in ways)

    def places(self, task: str, units: Mapping[str, Places]) -> dict[str, Blob]:
        """The files of a task in a commit, under any name."""
        tasks = {path: blob for unit, places in units.items() if is_task(unit) for path, blob in places.items()}
        unknown = {blob.sha for blob in tasks.values() if blob.mode not in {LINK, MODULE}} - self._said.keys()
        for sha, data in self._trees.contents(unknown) if unknown else ():
            self._said[sha] = said_in(data)
        return {path: blob for path, blob in tasks.items() if _is_of(task, path, self._said.get(blob.sha))}

    def unfinished(self, units: Mapping[str, Places]) -> Iterator[File]:
        """The files of a commit's unfinished tasks."""
        for unit, places in units.items():
            if is_task(unit):
                open_ones = {path: blob for path, blob in places.items() if path.partition("/")[0] not in FINISHED}
                yield from self.files(open_ones)

    def same(self, found: Sequence[Found], places: Places) -> bool:
        """Whether the folder has exactly these files."""
        known = {path: blob for path, blob in places.items() if blob.mode != MODULE}
        return {one.path for one in found} == known.keys() and all(self._is(one, known[one.path]) for one in found)

    def goes_on(self, found: Sequence[Found], places: Places) -> bool:
        """Whether the folder continues this published claim."""
        files = self.files(places)
        return len(found) == len(files) == 1 and goes_on((found[0].path, found[0].data), files[0])

    def _is(self, found: Found, blob: Blob) -> bool:
        if found.link != (blob.mode == LINK):
            return False
        kind = hashlib.sha1 if len(blob.sha) == 40 else hashlib.sha256  # noqa: PLR2004 - the two that git has
        plain = kind(b"blob %d\0" % len(found.data), usedforsecurity=False)
        plain.update(found.data)
        return plain.hexdigest() == blob.sha or (
            not found.link and self._trees.hash(found.path, found.data) == blob.sha  # the repository converts it
        )

    # Changing

    def bring(self, changes: Mapping[str, Difference], commit: str | None) -> Brought:
        """Bring these units to their state in a commit. Replaced text by people is copied to `Errors/`."""
        brought = Brought()
        missing = {unit: change for unit, change in changes.items() if not self._has(unit, change.after)}
        if not missing:
            return brought
        with self._turn() as vault, self._staging(commit, missing) as stage:
            for unit in sorted(missing, key=lambda unit: bool(missing[unit].after)):  # deletions first
                one = self._bring_one(unit, missing[unit], stage)
                brought = Brought(*(left + right for left, right in zip(brought, one, strict=True)))
            tasks = [path for path in brought.changed if is_task(unit_of(path))]
            if vault is not None and tasks:
                vault.announce([(path, None) for path in tasks])
        return brought

    def _has(self, unit: str, places: Places) -> bool:
        """Whether the folder has these files already."""
        return is_task(unit) and self.same(self.look(unit), places)

    def _bring_one(self, unit: str, change: Difference, stage: str) -> Brought:
        before, after = change
        for _ in range(_TRIES):
            new = [one for one in self.look(unit) if self._new_under_old_name(one, change)]
            if any(self._step_aside(one) for one in new if one.path in after):
                continue
            found = [one for one in self.look(unit) if one.path not in {other.path for other in new}]
            if self.same(found, after):
                return Brought()
            gives_way = not self.same(found, before)
            if gives_way and self.goes_on(found, after):
                return Brought()
            aside = self._set_aside(found, change) if gives_way else ()
            try:
                if not found and after:
                    aside += self._drop_renamed(unit, before, stage)
                changed = self._put(found, {path: blob for path, blob in after.items() if blob.mode != MODULE}, stage)
            except (Changed, FileNotFoundError, FileExistsError):
                continue  # a person has changed them
            self._clear_away(unit, changed)
            return Brought(tuple(changed), (unit,) if gives_way else (), aside)
        raise StoreError(f"{shown(unit)} changes all the time, or something is in its way. Try again.")

    def _new_under_old_name(self, one: Found, change: Difference) -> bool:
        """Whether a person has given a new task the name of a task that the remote has changed."""
        known = (side[one.path] for side in change if one.path in side)
        if one.link or any(self._is(one, blob) for blob in known):
            return False
        return is_new_task((one.path, one.data), self.files(change.before) + self.files(change.after))

    def _step_aside(self, one: Found) -> bool:
        """Give a new task a numbered name, because the remote has another task under its name."""
        folder, _, name = one.path.rpartition("/")
        for number in range(2, _NAMES):
            with suppress(FileExistsError, FileNotFoundError):
                self._disk.move(self._path(one.path), self._path(f"{folder}/{numbered(name, number)}"))
                return True
        return False

    def _drop_renamed(self, unit: str, before: Places, stage: str) -> tuple[str, ...]:
        """A person has renamed the task here, and others went on with it: it keeps its old name, and is there once."""
        files = self.files(before) if is_task(unit) else []
        if len(files) != 1:
            return ()
        aside: tuple[str, ...] = ()
        for one in self._alike(files[0]):
            if loses((one.path, one.data), files):
                aside += (self.keep(one.path, one.data),)
            self._take_out(one, stage)
        return aside

    def _alike(self, file: File) -> Iterator[Found]:
        """Files that git does not know, with the same text or `task_id` under another name."""
        known = self._trees.known_paths()
        for folder in TASK_FOLDERS:
            for place, _, names in os.walk(self._path(folder)):
                for name in names:
                    path = os.path.relpath(os.path.join(place, name), self._root)
                    if not is_task(unit_of(path)) or path in known or unit_of(path) == unit_of(file[0]):
                        continue
                    one = self._look_at(path)
                    if one is not None and not one.link and alike(file, (path, one.data)):
                        yield one

    def renamed_from(self, path: str, units: Mapping[str, Places]) -> File | None:
        """The file of a commit that a person has renamed to this one: the commit lacks this, and the folder that."""
        one = self._look_at(path)
        if one is None or one.link or path in units.get(unit_of(path), {}):
            return None
        known = (item for unit, places in units.items() if is_task(unit) for item in places.items())
        left = {place: blob for place, blob in known if not os.path.lexists(self._path(place))}
        return next((file for file in self.files(left) if alike(file, one.file)), None)

    def _put(self, found: Sequence[Found], after: Places, stage: str) -> list[str]:
        here = {one.path: one for one in found}
        leaving = [path for path in here if path not in after]
        coming = [path for path in after if path not in here]
        for source, target in zip(leaving, coming, strict=False):
            self._step_inside(target)
            self._disk.move(self._path(source), self._path(target))
            here[target] = here.pop(source)
        for path, blob in after.items():
            if path not in here:
                self._step_inside(path)
                self._disk.move(f"{stage}/{path}", self._path(path))
            elif not self._is(here[path], blob):
                self._swap(f"{stage}/{path}", here[path], path)
        for path in leaving[len(coming) :]:
            self._take_out(here[path], stage)
        self._settle(after)
        return [*leaving, *after]

    def drop(self, path: str) -> None:
        """Delete a file whose text git has."""
        with suppress(FileNotFoundError):
            self._disk.remove(self._path(path))

    def doubled(self) -> list[tuple[str, list[Found]]]:
        """Tasks with several files, by id."""
        index = Index(self._root, self._disk)
        index.now = host_clock()
        index.sweep()
        index.read_all()
        paths = [(key[1], index.twins(key)) for key in index.keys_in()]
        found = [(task, [self._look_at(path) for path in twins]) for task, twins in paths if twins]
        return [(task, [one for one in here if one is not None]) for task, here in found]

    def furthest(self, paths: Iterable[str]) -> tuple[str | None, list[str]]:
        """Of several files of a task, the one that has got furthest; and those in earlier folders without more text."""
        found = [one for path in paths if (one := self._look_at(path)) is not None]
        if not found:
            return None, []
        kept = max(found, key=_progress)
        old = [one for one in found if not one.link and _progress(one)[0] < _progress(kept)[0]]
        return kept.path, [one.path for one in old if not loses((one.path, one.data), [(kept.path, kept.data)])]

    def settle_doubled(self, found: Sequence[Found], kept: str | None) -> list[str]:
        """Keep one file of a task; copy text that only the others have to `Errors/`."""
        winner = next((one for one in found if one.path == kept), None) or max(found, key=_progress)
        gone = []
        for one in found:
            if one is not winner and not one.link:
                if loses((one.path, one.data), [(winner.path, winner.data)]):
                    self.keep(one.path, one.data)
                self.drop(one.path)
                gone.append(one.path)
        return gone

    def raise_attempt(self, path: str, attempt: int) -> None:
        """Write the number of earlier attempts to a waiting task's file."""
        found = self._look_at(path)
        if found is None or found.link:
            return
        page = Page(found.data.decode())
        page.give_front()
        page.front.put("attempt", attempt)
        with self._turn() as vault:
            if vault is None:
                return
            fresh = vault.path(HOME, "tmp", f"attempt-{os.getpid()}")
            self._disk.write(fresh, page.text().encode())
            try:
                self._swap(fresh, found, path)
            finally:
                self._disk.remove(fresh)
            vault.announce([(path, None)])

    def _swap(self, fresh: str, old: Found, path: str) -> None:
        self._disk.swap(fresh, self._path(path))
        stat = self._disk.look(fresh)
        if stat is None or Stamp.of(stat) != old.stamp:
            self._disk.swap(fresh, self._path(path))
            raise Changed

    def _take_out(self, old: Found, stage: str) -> None:
        out = f"{stage}/out-{next(_numbers)}"
        self._disk.move(self._path(old.path), out)
        stat = self._disk.look(out)
        if stat is None or Stamp.of(stat) != old.stamp:
            self._disk.move(out, self._path(old.path))
            raise Changed

    def _step_inside(self, path: str) -> None:
        if not self._inside(path):
            raise StoreError(f"{path} would lead through a symbolic link. Remove the link first.")

    def _settle(self, paths: Iterable[str]) -> None:
        for path in paths:
            if not os.path.islink(self._path(path)):
                self._disk.settle(self._path(path))
            self._disk.settle(os.path.dirname(self._path(path)))

    def _clear_away(self, unit: str, paths: Iterable[str]) -> None:
        """Remove folders that are empty now, except those of tasks."""
        if is_task(unit):
            return
        for path in paths:
            folder = os.path.dirname(path)
            while folder:
                try:
                    os.rmdir(self._path(folder))
                except OSError as error:
                    if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}:
                        raise
                    break
                folder = os.path.dirname(folder)

    # Keeping what people wrote

    def _set_aside(self, found: Sequence[Found], change: Difference) -> tuple[str, ...]:
        kept = (self.keep_text(one.path, one.data, change) for one in found if not one.link)
        return tuple(path for path in kept if path is not None)

    def keep_text(self, path: str, data: bytes, change: Difference) -> str | None:
        """Copy a replaced text to `Errors/` if it has words that neither version has."""
        files = self.files(change.before) + self.files(change.after)
        return self.keep(path, data) if loses((path, data), files) else None

    def files(self, places: Places) -> list[tuple[str, bytes]]:
        return [(path, self._trees.content(path, blob)) for path, blob in places.items() if blob.mode != MODULE]

    def keep(self, path: str, data: bytes) -> str:
        """Copy a text to `Errors/` and return the copy's path."""
        stem, suffix = os.path.splitext(os.path.basename(path))
        name = f"{_ASIDE}/{stem[:100]} kept-{hashlib.sha256(data).hexdigest()[:10]}{suffix}"
        self._disk.make_folder(self._path(_ASIDE))
        if self._disk.look(self._path(name)) is None:
            self._disk.write(self._path(name), data)
        return name

    # Room to work in

    @contextmanager
    def _turn(self) -> Iterator[Vault | None]:
        """An exclusive turn of the vault; None before the first pull has brought one."""
        try:
            vault = Vault(self._root, create=False, durable=False, timeout=self._timeout, clock=host_clock)
        except NoStore:
            yield None
            return
        vault.make_home()
        vault.turns.take(shared=False)
        try:
            yield vault
        finally:
            vault.turns.give()
            vault.close()

    @contextmanager
    def _staging(self, commit: str | None, changes: Mapping[str, Difference]) -> Iterator[str]:
        """The new versions of files, in a folder on the same file system."""
        name = f"{HOME}/{_STAGE}{os.getpid()}-{next(_numbers)}"
        stage = self._path(name)
        os.makedirs(stage)
        try:
            coming = (item for change in changes.values() for item in change.after.items())
            files = [path for path, blob in coming if blob.mode != MODULE]
            if commit is not None and files:
                self._trees.check_out(commit, files, name)
            for path in files:
                now = time.time_ns()  # the kernel's clock ticks too slowly to distinguish two versions
                os.utime(f"{stage}/{path}", ns=(now, now), follow_symlinks=False)
            yield stage
        finally:
            shutil.rmtree(stage)

    def tidy(self) -> None:
        """Remove files left by killed processes. Needs the clone's lock."""
        try:
            left = [name for name in os.listdir(self._path(HOME)) if name.startswith(_STAGE)]
        except FileNotFoundError:
            return
        for name in left:
            for folder, _, files in os.walk(self._path(f"{HOME}/{name}")):
                for file in files:
                    self._keep_if_unknown(f"{folder}/{file}")
            shutil.rmtree(self._path(f"{HOME}/{name}"))

    def _keep_if_unknown(self, place: str) -> None:
        """Keep a file that was swapped out just after a person saved it, if its process was killed."""
        if os.path.islink(place):
            return
        with open(place, "rb") as file:
            data = file.read()
        if not self._trees.knows(data):
            self.keep(place, data)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


def resolve_folder(root: str) -> list[str]:
    """Keep one file of each task, in a vault that is not a clone. Returns the removed files."""
    folder = Folder(root, cast("Trees", None), Disk(durable=True), 30.0)  # without commits to compare with
    return [path for _, found in folder.doubled() for path in folder.settle_doubled(found, None)]
