"""The file operations everything rests on: each is one step that happens as a whole or not at all.

A file is never overwritten. To move is to rename onto a name that is free; to rewrite is to swap a finished new version
with the old one, which is looked at once more before it goes: whoever edited it in that moment has the last word.
Tests stop, fail and kill a store at each of these steps.
"""

import errno
import fcntl
import os
import signal
import time
from stat import S_ISREG
from typing import Any, NamedTuple, NoReturn

from dibs.core.errors import NoStore, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

LARGEST = 16 << 20  # bytes; a task's texts are limited to less

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_NOT_THERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class Stamp(NamedTuple):
    """By what a file is recognised as unchanged. Renaming changes none of it."""

    inode: int
    mtime_ns: int
    size: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "Stamp":
        return cls(stat.st_ino, stat.st_mtime_ns, stat.st_size)


class Snapshot(NamedTuple):
    """A file at one moment. `unfinished` means that someone has it open for writing."""

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
        """A file's content and what it looked like at that time. Never follows a link, never waits for a pipe."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            stat = os.fstat(fd)
            data = os.read(fd, min(stat.st_size, LARGEST) + 1) if S_ISREG(stat.st_mode) else b""
            return Snapshot(stat, data, _open_for_writing(fd))
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes) -> os.stat_result:
        """A new file with this content, all of it; what could not be finished is taken away again."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            return self._fill(fd, data)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def write_over(self, spare: str, path: str, data: bytes) -> os.stat_result | None:
        """The same in a file that is done with, where there is one that nobody else has open: far cheaper."""
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
        os.utime(fd, ns=(now, now))  # the kernel's own clock ticks too slowly to tell two versions apart
        if self.durable:
            self._settle_content(fd)
        return os.fstat(fd)

    def _settle_content(self, fd: int) -> None:
        """Wait until the disk has what a file holds, before it gets a name under which it counts.

        On ext4 that is enough: the file's length is written with, or before, any name that it gets later, and a wait
        for the folder is one for both. Elsewhere the length is waited for as well.
        """
        if self._in_order is None:
            self._in_order = file_system(os.fstat(fd).st_dev) == "ext4"
        if not (self._in_order and _written_out(fd)):
            os.fsync(fd)

    def replace(self, path: str, data: bytes) -> None:
        """Another content for a file of our own, that no person edits."""
        fresh = f"{path}.{os.getpid()}"
        self.write(fresh, data)
        os.rename(fresh, path)

    def append(self, path: str, data: bytes) -> None:
        """Add lines to a file's end; a line there that was cut off by a full disk or a crash is ended first."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            cut_off = size and os.pread(fd, 1, size - 1) != b"\n"
            _write_all(fd, b"\n" + data if cut_off else data)
        finally:
            os.close(fd)

    def move(self, source: str, target: str) -> None:
        """Rename, unless the target is there already (FileExistsError). Makes the target's folder if need be."""
        try:
            _rename(source, target, _NOREPLACE)
        except FileNotFoundError:
            if os.path.isdir(os.path.dirname(target)) or not os.path.lexists(source):
                raise
            self.make_folder(os.path.dirname(target))
            _rename(source, target, _NOREPLACE)

    def swap(self, one: str, other: str) -> None:
        """Let two files change places. Where the system cannot do that, the second is replaced by the first."""
        _rename(one, other, _EXCHANGE)

    def put_by(self, path: str, spare: str) -> None:
        """Keep a file that is done with for the next to be written, in place of an earlier one."""
        if self.look(path) is not None:
            os.rename(path, spare)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        self.settle(os.path.dirname(path))

    def settle(self, path: str) -> None:
        """Wait until the disk knows what was added to a file, or moved into or out of a folder."""
        if not self.durable:
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def translated(error: OSError, root: str) -> StoreError:
    """Our error for the system's."""
    place = error.filename if isinstance(error.filename, str) else root
    if error.errno in FULL:
        return StoreFull(f"No room left for {place}. Free some space and try again.")
    if error.errno in _FORBIDDEN:
        return StoreReadOnly(f"{place} cannot be written: {error.strerror}. Check its permissions.")
    if error.errno == errno.EXDEV:
        return StoreUnavailable(f"{place} lies on another file system; all folders of a vault must share one.")
    if error.errno == errno.ENOENT and not os.path.isdir(root):
        return NoStore(f"There is no vault at {root} any more.")
    return StoreError(f"{place}: {error.strerror}. Check the disk and its limits; 'dibs doctor' tells more.")


def _open_for_writing(fd: int) -> bool:
    """Someone else has this file open to write to it."""
    return _lease(fd, fcntl.F_RDLCK) is False


def _ours_alone(fd: int) -> bool:
    """Nobody else has this file open, and it has no other name."""
    return _lease(fd, fcntl.F_WRLCK) is True and os.fstat(fd).st_nlink == 1


def _lease(fd: int, kind: int) -> bool | None:
    """Linux grants a lease only on a file that nobody writes, or has open; closing gives it back. None: cannot tell."""
    try:
        # Were the lease to be broken in between, the usual signal would end us; this one is ignored.
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
    """Without the system's help: link and unlink to overwrite nothing; an exchange leaves only the new version."""
    if how == _NOREPLACE:
        os.link(source, target, follow_symlinks=False)
        os.unlink(source)
    else:
        os.lstat(target)  # what is gone is not brought back
        os.rename(source, target)


def file_system(device: int) -> str:
    """What kind of file system a device holds; nothing where the system does not tell."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            found = (line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ", 3)[2] == wanted)
            return next(found, "")
    except OSError:
        return ""


def _written_out(fd: int) -> bool:
    """All of a file's content has gone to the disk; False where the system cannot do that without the rest."""
    call = _system_call("sync_file_range")
    if call is None:
        return False
    import ctypes

    before_write_after = 7
    return int(call(fd, ctypes.c_int64(0), ctypes.c_int64(0), before_write_after)) == 0


_found: dict[str, Any] = {}


def _system_call(name: str) -> Any:
    """The system's function of that name, or None where there is none."""
    if name not in _found:
        import ctypes

        _found[name] = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return _found[name]


def _fail(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)
