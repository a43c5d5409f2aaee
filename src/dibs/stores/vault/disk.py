"""Atomic file operations, and the locks between processes of this host.

A file is never overwritten. A move renames it to a free name. A rewrite swaps a complete new version with the old one,
which is checked once more afterwards: an edit made in that moment wins. People and other programs do not know the
locks, so each step is safe without them. Tests stop, fail and kill a store at each step.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from stat import S_ISREG
from typing import Any, NamedTuple, NoReturn

from dibs.core.errors import NoStore, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

_TOP = 4096
LARGEST = 16 << 20  # bytes; a task's texts are limited to less

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_NOT_THERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class Stamp(NamedTuple):
    """Inode, time and size, by which an unchanged file is recognised. Renaming changes none of them."""

    inode: int
    mtime_ns: int
    size: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Stamp:
        return cls(stat.st_ino, stat.st_mtime_ns, stat.st_size)


class Snapshot(NamedTuple):
    """A file at one moment. `unfinished` means that a program has it open for writing."""

    stat: os.stat_result
    data: bytes
    unfinished: bool


class Disk:
    """One vault's file operations, by absolute path."""

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable
        self._in_order: bool | None = None

    def look(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> Snapshot:
        """A file's content and stat at one moment. Never follows a link, never waits for a pipe."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            stat = os.fstat(fd)
            data = os.read(fd, min(stat.st_size, LARGEST) + 1) if S_ISREG(stat.st_mode) else b""
            return Snapshot(stat, data, _open_for_writing(fd))
        finally:
            os.close(fd)

    def read_top(self, path: str) -> bytes:
        """A file's first bytes, which hold its front matter."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(fd, _TOP)
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes) -> os.stat_result:
        """Write a new file with this content; remove it again if that fails half-way."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            return self._fill(fd, data)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def write_over(self, spare: str, path: str, data: bytes) -> os.stat_result | None:
        """Write to the spare file and move it to `path`, which is far cheaper. None without a spare of our own."""
        try:
            fd = os.open(spare, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if not _ours_alone(fd):
                os.unlink(spare)
                return None
            stat = self._fill(fd, data)
        finally:
            os.close(fd)
        if path != spare:
            self.move(spare, path)
        return stat

    def _fill(self, fd: int, data: bytes) -> os.stat_result:
        _write_all(fd, data)
        os.ftruncate(fd, len(data))
        now = time.time_ns()
        os.utime(fd, ns=(now, now))  # the kernel's clock ticks too slowly to distinguish two versions
        if self.durable:
            self._settle_content(fd)
        return os.fstat(fd)

    def _settle_content(self, fd: int) -> None:
        """Wait until the disk has a file's content, before the file gets its final name.

        On ext4 that is enough: it writes the length no later than any name the file gets afterwards. Elsewhere a full
        fsync waits for the length as well.
        """
        if self._in_order is None:
            self._in_order = file_system(os.fstat(fd).st_dev) == "ext4"
        if not (self._in_order and _written_out(fd)):
            os.fsync(fd)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file that only dibs writes."""
        fresh = f"{path}.{os.getpid()}"
        self.write(fresh, data)
        os.rename(fresh, path)

    def append(self, path: str, data: bytes) -> None:
        """Append lines, after ending a last line that a full disk or a crash cut off."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            cut_off = size and os.pread(fd, 1, size - 1) != b"\n"
            _write_all(fd, b"\n" + data if cut_off else data)
        finally:
            os.close(fd)

    def move(self, source: str, target: str) -> None:
        """Rename to a free name, making its folder if needed. FileExistsError if the name is taken."""
        try:
            _rename(source, target, _NOREPLACE)
        except FileNotFoundError:
            if os.path.isdir(os.path.dirname(target)) or not os.path.lexists(source):
                raise
            self.make_folder(os.path.dirname(target))
            _rename(source, target, _NOREPLACE)

    def swap(self, one: str, other: str) -> None:
        """Exchange two files. Where the system cannot, the first replaces the second."""
        _rename(one, other, _EXCHANGE)

    def put_by(self, path: str, spare: str) -> None:
        """Keep a swapped-out file as the spare for the next write."""
        if self.look(path) is not None:
            os.rename(path, spare)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        self.settle(os.path.dirname(path))

    def settle(self, path: str) -> None:
        """Wait until the disk has lines appended to a file, or moves into and out of a folder."""
        if not self.durable:
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def translated(error: OSError, root: str) -> StoreError:
    """The store's error for an error of the system."""
    place = error.filename if isinstance(error.filename, str) else root
    if error.errno in FULL:
        return StoreFull(f"No room left for {place}. Free some space and try again.")
    if error.errno in _FORBIDDEN:
        return StoreReadOnly(f"{place} cannot be written: {error.strerror}. Check its permissions.")
    if error.errno == errno.EXDEV:
        return StoreUnavailable(f"{place} is on another file system; all folders of a vault must share one.")
    if error.errno == errno.ENOENT and not os.path.isdir(root):
        return NoStore(f"There is no vault at {root} any more.")
    return StoreError(f"{place}: {error.strerror}. Check the disk and its limits, or run 'dibs doctor'.")


def _open_for_writing(fd: int) -> bool:
    """Someone else has this file open to write to it."""
    return _lease(fd, fcntl.F_RDLCK) is False


def _ours_alone(fd: int) -> bool:
    """Whether no other process has this file open, and it has no other name."""
    return _lease(fd, fcntl.F_WRLCK) is True and os.fstat(fd).st_nlink == 1


def _lease(fd: int, kind: int) -> bool | None:
    """Whether Linux grants a lease: only on a file that no other process writes, or has open. None: unknown."""
    try:
        # If the lease is broken, the usual signal would end this process; this one is ignored.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
    except AttributeError:  # another system
        return None
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _rename(source: str, target: str, how: int) -> None:
    call = _system_call("renameat2")
    if call is None:
        _rename_plainly(source, target, how)
        return
    import ctypes

    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), how):
        number = ctypes.get_errno()
        if number in _NOT_THERE:
            _rename_plainly(source, target, how)
        else:
            _fail(number, source if number == errno.ENOENT else target)


def _rename_plainly(source: str, target: str, how: int) -> None:
    """Without renameat2: link and unlink overwrite nothing; an exchange leaves only the new version."""
    if how == _NOREPLACE:
        os.link(source, target, follow_symlinks=False)
        os.unlink(source)
    else:
        os.lstat(target)  # raises if the file has gone: it must not come back
        os.rename(source, target)


def file_system(device: int) -> str:
    """The type of a device's file system; empty where the system does not report it."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            found = (line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ", 3)[2] == wanted)
            return next(found, "")
    except OSError:
        return ""


def _written_out(fd: int) -> bool:
    """Write a file's content to the disk without its metadata. False where the system cannot."""
    call = _system_call("sync_file_range")
    if call is None:
        return False
    import ctypes

    before_write_after = 7
    return int(call(fd, ctypes.c_int64(0), ctypes.c_int64(0), before_write_after)) == 0


_found: dict[str, Any] = {}


def _system_call(name: str) -> Any:
    """The C library's function of that name, or None."""
    if name not in _found:
        import ctypes

        _found[name] = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return _found[name]


def _fail(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


_PATIENCE = 0.02  # seconds of polling before a process queues in the kernel


class Flock:
    """One lock file, held exclusively or shared. A process that dies releases it."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._fd = -1

    def take(self, *, shared: bool) -> None:
        """Wait for the lock. A reader of a read-only folder needs none. StoreBusy after the timeout."""
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                if not shared:
                    raise
                if not os.path.exists(self._path):
                    return
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        if not self._seize(how):
            self._queue(how)

    def give(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _seize(self, how: int) -> bool:
        """Poll for a moment: locks are held briefly."""
        pause, waited = 0.00005, 0.0
        while True:
            try:
                fcntl.flock(self._fd, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if waited > _PATIENCE:
                    return False
                time.sleep(pause)
                waited += pause
                pause = min(2 * pause, 0.002)
            else:
                return True

    def _queue(self, how: int) -> None:
        """Queue in the kernel from a helper thread: flock has no timeout, and a stopped holder must not hang us."""
        import threading

        fd, done, settled = self._fd, threading.Event(), threading.Lock()
        outcome: list[str] = []

        def wait() -> None:
            fcntl.flock(fd, how)
            with settled:
                if outcome:
                    os.close(fd)  # too late: the caller has given up
                else:
                    outcome.append("granted")
            done.set()

        threading.Thread(target=wait, daemon=True).start()
        granted = False
        try:
            granted = done.wait(self._timeout)
        finally:
            with settled:
                if not outcome:
                    outcome.append("abandoned")
                    self._fd = -1
                elif not granted:
                    fcntl.flock(fd, fcntl.LOCK_UN)
        if not granted:
            raise StoreBusy(
                f"Another process has been using the vault for {self._timeout:g} s. Try again.", retry_after_ms=1000
            )


class Turns:
    """The lock of one vault: exclusive, or shared by processes that only read or claim.

    An exclusive taker closes the gate first, so that a steady stream of shared holders cannot keep it out.
    """

    def __init__(self, folder: str, timeout: float) -> None:
        self._gate = Flock(os.path.join(folder, "gate"), timeout)
        self._room = Flock(os.path.join(folder, "lock"), timeout)

    def take(self, *, shared: bool) -> None:
        self._gate.take(shared=shared)
        try:
            self._room.take(shared=shared)
        finally:
            self._gate.give()

    def give(self) -> None:
        self._room.give()

    def close(self) -> None:
        self._gate.close()
        self._room.close()
