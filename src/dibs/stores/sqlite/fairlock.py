"""Who writes next, first come first served.

SQLite's own waiting is a sleep that grows while others come and go, so under load one process can starve for seconds.
An flock on a file beside the database queues the writers in the kernel instead. It only orders the writers: what keeps
them apart is still SQLite's own lock, so a foreign program that ignores this file does no harm.
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

    def take(self) -> None:
        if self._fd < 0:
            self._fd = _open(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait_in_line()

    def give(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait_in_line(self) -> None:
        """Queue in the kernel from a helper thread: flock has no timeout, and a stopped holder must not hang us."""
        import threading

        fd = self._fd
        done = threading.Event()
        outcome: list[str] = []
        turn = threading.Lock()

        def queue() -> None:
            fcntl.flock(fd, fcntl.LOCK_EX)
            with turn:
                if "abandoned" in outcome:
                    os.close(fd)
                else:
                    outcome.append("granted")
            done.set()

        threading.Thread(target=queue, daemon=True).start()
        granted = False
        try:
            granted = done.wait(self._timeout)
        finally:  # also when interrupted: nobody would ever give back a turn that came after that
            with turn:
                if "granted" not in outcome:
                    # The thread still waits on this descriptor and closes it when its turn comes; we open a new one.
                    outcome.append("abandoned")
                    self._fd = -1
                elif not granted:
                    fcntl.flock(fd, fcntl.LOCK_UN)
        if not granted:
            place = self._path.removesuffix("-lock")
            raise StoreBusy(
                f"Another process has been writing to {place} for {self._timeout:g} s. "
                "Try again; 'dibs doctor' tells more.",
                retry_after_ms=1000,
            )


class NoLock:
    """The turn to write to a database in memory, which has one user."""

    def take(self) -> None: ...

    def give(self) -> None: ...

    def close(self) -> None: ...


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise StoreReadOnly(f"Cannot write to {path}: permission denied. Check who owns the folder.") from None
    except OSError as error:
        kind = StoreReadOnly if error.errno == errno.EROFS else StoreUnavailable
        raise kind(f"Cannot open {path}: {error.strerror}. Check what is in its place.") from None
