"""What an agent waits for: a file that is touched, a command that ends, a signal that says to leave."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Self

from dibs.stores.vault.places import TASK_FOLDERS
from dibs.stores.vault.watching import Watcher

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from dibs.fleet.minder.client import Minder

_LEAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_EVERY = 1.0  # seconds, where the system does not tell of files


class Bell:
    """Rings for files and signals alike, so that an agent with nothing to do does nothing. For the main thread."""

    def __init__(self, root: str) -> None:
        self._watcher = Watcher.over(root, TASK_FOLDERS)
        self.left_by: int | None = None  # the signal that told us to leave
        self._pipe = os.pipe()
        for fd in self._pipe:
            os.set_blocking(fd, False)
        self._before: dict[int, Any] = {}

    @property
    def watching(self) -> bool:
        return self._watcher is not None

    @property
    def leaving(self) -> bool:
        return self.left_by is not None

    def wait(self, seconds: float, minder: Minder | None = None) -> bool:
        """Sleep until something rings, a command has ended or the time is over. True: files may have changed."""
        span = seconds if self.watching else min(seconds, _LOOK_EVERY)
        ears = select.poll()
        ears.register(self._pipe[0], select.POLLIN)
        if minder is not None:
            ears.register(minder, select.POLLIN)
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
            select.select([self._pipe[0]], [], [], left)
            self._drain()

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

    def _told(self, number: int, _frame: FrameType | None) -> None:
        if number in _LEAVING:
            self.left_by = number

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for number in (*_LEAVING, signal.SIGCHLD):
            self._before[number] = signal.signal(number, self._told)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._wakeup)
        for fd in self._pipe:
            os.close(fd)
        if self._watcher is not None:
            self._watcher.close()
