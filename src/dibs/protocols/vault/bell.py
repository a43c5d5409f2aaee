"""What an agent waits for: a file that is touched, a command that ends, a signal that says to leave."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Self

from dibs.stores.vault.places import TASK_FOLDERS
from dibs.stores.vault.watching import Watcher

if TYPE_CHECKING:
    from types import TracebackType

    from dibs.console.stopping import Stop
    from dibs.fleet.supervisor.client import Supervisor

_LOOK_EVERY = 1.0  # seconds, where the system does not tell of files


class Bell:
    """Rings for files and signals alike, so that an agent with nothing to do does nothing. For the main thread."""

    def __init__(self, root: str, stop: Stop) -> None:
        self._watcher = Watcher.over(root, TASK_FOLDERS)
        self._stop = stop
        self._pipe = os.pipe()
        for fd in self._pipe:
            os.set_blocking(fd, False)

    @property
    def watching(self) -> bool:
        return self._watcher is not None

    @property
    def stopped_by(self) -> int | None:
        """The signal that requested the stop."""
        return self._stop.by

    @property
    def leaving(self) -> bool:
        return self._stop.requested

    def wait(self, seconds: float, supervisor: Supervisor | None = None) -> bool:
        """Sleep until something rings, a command has ended or the time is over. True: files may have changed."""
        span = seconds if self.watching else min(seconds, _LOOK_EVERY)
        ears = select.poll()
        ears.register(self._pipe[0], select.POLLIN)
        ears.register(self._stop, select.POLLIN)
        if supervisor is not None:
            ears.register(supervisor, select.POLLIN)
        if self._watcher is not None:
            ears.register(self._watcher, select.POLLIN)
        if not self.leaving:
            ears.poll(max(0.0, 1000 * span))
        self._drain()
        return self._heard()

    def nap(self, seconds: float) -> None:
        """Sleep, whatever happens to files; only being told to leave ends it."""
        until = time.monotonic() + seconds
        while not self.leaving and (left := until - time.monotonic()) > 0:
            self._stop.wait(left)

    def _heard(self) -> bool:
        if self._watcher is None:
            return True
        try:
            return self._watcher.heard()
        except OSError:  # more folders than can be watched: from now on we look
            self._watcher.close()
            self._watcher = None
            return True

    def _drain(self) -> None:
        try:
            os.read(self._pipe[0], 512)
        except BlockingIOError:
            return

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # so that it is written to the pipe
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGCHLD, self._before)
        signal.set_wakeup_fd(self._wakeup)
        for fd in self._pipe:
            os.close(fd)
        if self._watcher is not None:
            self._watcher.close()
