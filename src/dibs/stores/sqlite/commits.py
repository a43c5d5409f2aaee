"""Turns to write, and commits: synced after the turn, and shared by the waiting writes of a process.

SQLite itself would sync the log inside its write lock, so that all other writers wait for the disk. Here a commit only
writes the log (`synchronous = NORMAL`). The writer gives its turn back, syncs the log, and answers after that; the
kernel merges the syncs of several writers. Because the log is read in order after a power cut, a sync covers every
earlier commit. A checkpoint needs no care: SQLite syncs the log before it, the database after it, and the log's new
header before it writes over old frames.
"""

from __future__ import annotations

import errno
import fcntl
import os
from _thread import allocate_lock  # `threading` costs a cold command more than a millisecond
from contextlib import suppress
from functools import lru_cache
from sys import byteorder
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.core.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.sqlite.database import Database, Transaction, Writing

    Work = Callable[[Transaction], Any]

T = TypeVar("T")

_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

_SIZE = 16  # bytes of a number in the lock file: the number, and once more with every bit inverted
_ALL_BITS = (1 << 64) - 1
_ANNOUNCED, _SYNCED, _FAILED = range(3)  # their places
_UNKNOWN = -1
_READS = 100  # of numbers of which one is being written at this moment


class FairLock:
    """The turn to write to one database file, first in, first out.

    SQLite retries a busy lock after growing sleeps, so under load one process can starve for seconds. An flock on a
    file beside the database queues the writers in the kernel instead. It only orders the writers; SQLite's own lock
    still separates them, so a program that ignores this file does no harm.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._fd = -1
        self._deputy: _Deputy | None = None

    def take(self) -> bool:
        """Whether another process had it, so that we had to wait."""
        if self._fd < 0:
            self._fd = open_lock_file(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait_in_line()
            return True
        return False

    def give(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._deputy is not None:
            self._deputy.dismiss()
            self._deputy = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait_in_line(self) -> None:
        """Queue in the kernel by deputy: flock has no timeout, and a stopped holder must not hang us."""
        deputy = self._deputy = self._deputy or _Deputy(self._fd)
        granted = False
        try:
            granted = deputy.queue(self._timeout)
        finally:  # also on an interrupt: else a turn granted later is never given back
            if not granted and not deputy.withdraw():
                self._deputy = None  # it still waits on this descriptor and will close it; we open a new one
                self._fd = -1
        if not granted:
            place = self._path.removesuffix("-lock")
            raise StoreBusy(
                f"Another process has been writing to {place} for {self._timeout:g} s. "
                "Try again. Run 'dibs doctor' for details.",
                retry_after_ms=1000,
            )


class _Deputy:
    """A thread that queues in the kernel. It is started by the first wait and kept for the next ones."""

    def __init__(self, fd: int) -> None:
        import threading

        self._fd = fd
        self._state = threading.Lock()
        self._asked, self._granted = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._granted.acquire()
        self._has_turn = self._abandoned = self._dismissed = False
        threading.Thread(target=self._run, daemon=True).start()

    def queue(self, seconds: float) -> bool:
        """Wait for the turn; False if the time is over."""
        self._has_turn = False
        self._asked.release()
        return self._granted.acquire(timeout=seconds)

    def withdraw(self) -> bool:
        """Give the turn back if it came too late. False: it has not come, and this deputy ends when it does."""
        with self._state:
            if not self._has_turn:
                self._abandoned = True
                return False
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._granted.acquire(blocking=False)
            return True

    def dismiss(self) -> None:
        self._dismissed = True
        self._asked.release()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if self._dismissed:
                return
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._state:
                if self._abandoned:
                    os.close(self._fd)
                    return
                self._has_turn = True
                self._granted.release()


class NoLock:
    """The turn to write to a database in memory, which has one user."""

    def take(self) -> bool:
        return False

    def give(self) -> None: ...

    def close(self) -> None: ...


def open_lock_file(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise StoreReadOnly(f"Cannot write to {path}: permission denied. Check who owns the folder.") from None
    except OSError as error:
        if error.errno == errno.EROFS:
            raise on_read_only_file_system(path) from None
        raise StoreUnavailable(f"Cannot open {path}: {error.strerror}. Check what is in its place.") from None


def on_read_only_file_system(path: str) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} is on a file system that is mounted read-only. Nothing was changed. Check the disk and mount it "
        "for writing. To look only, copy the store to a folder that may be written."
    )


class LogSync:
    """Puts commits on disk, and holds back answers that a power cut could make untrue.

    Three numbers in the lock file are shared by all processes. `announced` is the last commit that may be in the log.
    All commits up to `synced` are on disk. `failed` is a commit whose sync failed, 0 if none. A writer syncs its own
    commit. A reader, or a write that changed nothing, syncs only if `announced` is ahead of `synced`: it may have seen
    a commit whose writer has not synced it yet, or was killed before it could.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = -1
        self._shared = -1
        self._writable = False

    def announce(self) -> int:
        """Number the commit that comes next. Called inside the write transaction: numbers rise in the log's order."""
        fd = self._shared if self._writable else self._open_shared(write=True)
        announced, synced, failed = _numbers(fd)
        if failed > 0:
            raise Unsynced
        number = max(announced, synced, 0) + 1
        try:
            if not synced:  # so that all of them can be read at once
                _write(fd, _SYNCED, 0)
                _write(fd, _FAILED, 0)
            _write(fd, _ANNOUNCED, number)
        except OSError as error:
            if error.errno == errno.EROFS:
                raise on_read_only_file_system(f"{self._path}-lock") from None
            kind = StoreFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else StoreError
            raise kind(
                f"Cannot write {self._path}-lock: {error.strerror}. Check the disk; nothing was changed."
            ) from None
        return number

    def unsynced(self) -> int:
        """The last commit that may not be on disk, 0 if none. Raise Unsynced after a failed sync."""
        announced, synced, failed = _numbers(self._shared if self._writable else self._open_shared(write=True))
        if failed > 0:
            raise Unsynced
        return announced if announced > synced else 0

    def publish(self, number: int) -> None:
        """Record that everything up to this commit is on disk. If that fails, readers sync once more."""
        with suppress(OSError):
            _write(self._open_shared(write=True), _SYNCED, number)

    def sync(self, number: int) -> None:
        """Return when this commit is on disk. Raise StoreError if the disk failed."""
        fd = self._shared if self._writable else self._open_shared(write=True)
        try:
            _sync(self._log if self._log >= 0 else self._open_log())
        except OSError as error:
            with suppress(OSError):  # the same disk
                _write(fd, _FAILED, number)
            raise StoreError(
                f"{self._path}: the disk failed ({error.strerror}), so the last change may be lost. Check the disk, "
                "then look whether the change is there."
            ) from error
        if _numbers(fd)[_SYNCED] < number:
            self.publish(number)

    def settle(self) -> None:
        """Return when every commit that this process can have seen is on disk."""
        try:
            announced, synced, _ = _numbers(self._shared if self._shared >= 0 else self._open_shared(write=False))
        except FileNotFoundError:
            return  # no process has written yet
        except OSError:
            announced = synced = _UNKNOWN  # not a file that we may read
        if _UNKNOWN < announced <= synced:
            return
        try:
            _sync(self._open_log())
        except FileNotFoundError:
            return  # the last writer has closed the database, and with it the log
        except OSError as error:
            raise StoreError(f"{self._path}: the disk failed ({error.strerror}). Check the disk.") from error

    def healed(self) -> None:
        """Record that a checkpoint has put on disk what a failed sync left out."""
        _write(self._open_shared(write=True), _FAILED, 0)

    def close(self) -> None:
        for fd in (self._log, self._shared):
            if fd >= 0:
                os.close(fd)
        self._log = self._shared = -1
        self._writable = False

    def _open_log(self) -> int:
        """The log stays the same file as long as our connection is open."""
        if self._log < 0:
            self._log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        return self._log

    def _open_shared(self, *, write: bool) -> int:
        if self._shared < 0 or write > self._writable:
            path = f"{self._path}-lock"
            fd = open_lock_file(path) if write else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if self._shared >= 0:
                os.close(self._shared)
            self._shared, self._writable = fd, write
        return self._shared


class Unsynced(Exception):
    """An earlier sync failed, so a later sync proves nothing about the earlier writes."""


def _numbers(fd: int) -> tuple[int, int, int]:
    """All three. One that does not match its inversion is being written, or was when the machine stopped."""
    numbers = _parsed(os.pread(fd, 3 * _SIZE, 0))
    for _ in range(_READS):
        if _UNKNOWN not in numbers:
            break
        numbers = _parsed(os.pread(fd, 3 * _SIZE, 0))
    return numbers


@lru_cache(4)  # while a store is alone, every transaction reads the same
def _parsed(raw: bytes) -> tuple[int, int, int]:
    words = memoryview(raw.ljust(3 * _SIZE, b"\0")).cast("Q").tolist()
    return _number(*words[:2]), _number(*words[2:4]), _number(*words[4:])


def _number(number: int, inverse: int) -> int:
    return number if number ^ inverse == _ALL_BITS or number == inverse == 0 else _UNKNOWN


def _write(fd: int, place: int, number: int) -> None:
    both = number.to_bytes(8, byteorder) + (number ^ _ALL_BITS).to_bytes(8, byteorder)
    os.pwrite(fd, both, place * _SIZE)


class Request:
    """A write that waits for its turn, and its outcome."""

    def __init__(self, database: Database, work: Work) -> None:
        self.database = database
        self.work = work
        self.value: Any = None
        self.error: Exception | None = None
        self.leads = False
        self.taken = False  # into a transaction: it cannot be withdrawn any more
        self.performed = False
        self.unsynced: Writing | None = None  # its commit, if the leader was interrupted before it was on disk
        self._signal = allocate_lock()
        self._signal.acquire()

    def wait(self, seconds: float) -> bool:
        """Wait for an outcome, or for the lead; without a limit if `seconds` is -1."""
        return self._signal.acquire(True, seconds)

    def wake(self) -> None:
        self._signal.release()

    def perform_alone(self) -> None:
        self.error = None
        try:
            with self.database.write() as tx:
                self.value = self.work(tx)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits for it
            self.error = error
        self.performed = True


class Group:
    """The writes of one process on one file. Those that wait for their turn are committed together.

    It speeds up `dibs serve`, `dibs mcp` over HTTP and any program with several threads, without a setting: each thread
    opens its own store (a store is for one thread at a time), and the stores of one file in one process share a group.
    The first write leads. It waits for the turn, performs all waiting writes on its connection, commits and syncs once,
    and wakes the other threads with their outcomes; then the next write leads. More waiting threads make larger
    commits: a server with N busy clients needs about N threads.

    Each write has its own savepoint and time, so an error undoes that write only. No write is answered before the
    common commit is on disk.
    """

    def __init__(self) -> None:
        self.users = 0  # open stores
        self._mutex = allocate_lock()
        self._waiting: list[Request] = []
        self._led = False

    def run(self, database: Database, work: Callable[[Transaction], T]) -> T:
        request = Request(database, work)
        with self._mutex:
            self._waiting.append(request)
            request.leads, self._led = not self._led, True
        try:
            if not request.leads:
                self._follow(request)
            if request.leads:
                self._lead(request)
        finally:
            self._leave(request)
        if request.error is not None:
            raise request.error
        if request.unsynced is not None:
            request.unsynced.sync_commit(database)
        value: T = request.value
        return value

    def _follow(self, request: Request) -> None:
        patience = request.database.timeout
        if request.wait(patience):
            return
        with self._mutex:
            withdrawn = not request.taken and not request.leads
            if withdrawn:
                self._waiting.remove(request)
        if withdrawn:
            raise StoreBusy(
                f"{request.database.path} has been busy for {patience:g} s. Try again. Run 'dibs doctor' for details.",
                retry_after_ms=1000,
            )
        request.wait(-1)

    def _lead(self, leader: Request) -> None:
        batch: list[Request] = []
        writing = leader.database.write()
        try:
            with writing as tx:
                batch = self._take()
                _perform(batch, tx)
            for request in batch:
                request.performed = True
        except Exception as error:  # noqa: BLE001 - it is raised in the threads that wait for it
            undone = len(batch) > 1 and not writing.committed
            batch = batch or self._take()  # all that have waited for the turn, if it was not to be had
            for request in batch:
                if undone:
                    request.perform_alone()
                else:
                    request.error, request.performed = error, True
        finally:
            self._release(leader, batch, writing)

    def _take(self) -> list[Request]:
        with self._mutex:
            batch, self._waiting = self._waiting, []
            for request in batch:
                request.taken = True
        return batch

    def _release(self, leader: Request, batch: list[Request], writing: Writing) -> None:
        """Wake the followers. What an interrupted leader left unperformed waits again, first in line."""
        left = []
        for request in batch:
            if not request.performed and writing.committed:
                request.performed, request.unsynced = True, writing
            if request is leader:
                continue
            if request.performed:
                request.wake()
            else:
                left.append(request)
        with self._mutex:
            for request in left:
                request.taken = False
            self._waiting[:0] = left

    def _leave(self, request: Request) -> None:
        """Also when interrupted: a leader passes the lead on, and a follower does not stay in line."""
        with self._mutex:
            if request in self._waiting:
                self._waiting.remove(request)
            if not request.leads:
                return
            self._led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].wake()


def _perform(batch: list[Request], tx: Transaction) -> None:
    if len(batch) == 1:
        batch[0].value = batch[0].work(tx)
        return
    for request in batch:
        own = tx.apart(request.database.now())
        try:
            request.value = request.work(own)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits for it
            own.undo_apart()
            request.error = request.database.translated(error)
        own.end_apart()


_groups: dict[tuple[object, ...], Group] = {}
_registry = allocate_lock()


def join(key: tuple[object, ...]) -> Group:
    """The group of a file, which `leave` has to follow."""
    with _registry:
        group = _groups.setdefault(key, Group())
        group.users += 1
        return group


def leave(key: tuple[object, ...]) -> None:
    with _registry:
        group = _groups[key]
        group.users -= 1
        if not group.users:
            del _groups[key]
