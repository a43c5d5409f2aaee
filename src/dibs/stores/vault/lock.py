"""Whose turn it is, among the processes of this host.

The locks keep dibs from dibs. People and other programs do not know of them; against them every step is safe by itself.
"""

from __future__ import annotations

import fcntl
import os
import time

from dibs.core.errors import StoreBusy

_PATIENCE = 0.02  # seconds of looking every now and then, before queueing in the kernel


class Flock:
    """One lock file, held alone or together with others. A process that dies gives it back."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._fd = -1

    def take(self, *, shared: bool) -> None:
        """Wait for it. Where nothing can be locked, as in a folder that may only be read, a reader needs no lock."""
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
        """Turns are short, so the next one usually comes at once."""
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
        """Wait in line from a helper thread: flock has no timeout, and a stopped holder must not hang us."""
        import threading

        fd, done, settled = self._fd, threading.Event(), threading.Lock()
        outcome: list[str] = []

        def wait() -> None:
            fcntl.flock(fd, how)
            with settled:
                if outcome:
                    os.close(fd)  # too late: nobody waits for this turn any more
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
    """The turn to use one vault: alone, or beside others who do nothing but look or claim.

    Who wants to be alone closes the gate first, so that a steady stream of others cannot keep it out.
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
