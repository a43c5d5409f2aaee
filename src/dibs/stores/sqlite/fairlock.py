"""A first-in, first-out lock for writers.

SQLite retries a busy lock after growing sleeps, so under load one process can starve for seconds. An flock on a file
beside the database queues the writers in the kernel instead. It only orders the writers; SQLite's own lock still
separates them, so a program that ignores this file does no harm.
"""

from __future__ import annotations

import errno
import fcntl
import os

from dibs.core.errors import StoreBusy, StoreReadOnly, StoreUnavailable


class FairLock:
    """The turn to write to one database file."""

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
