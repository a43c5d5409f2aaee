"""Stopping a command that runs until it is stopped, such as `dibs serve` or `dibs work`."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """The request to stop. Enter it in the main thread, before the command starts anything.

    The first signal is remembered, so it is never too early and never cuts a step short: the command ends with
    status 0. A second signal forces the end: it calls `force` if there is one, else it raises SystemExit.
    """

    def __init__(self) -> None:
        self.by: int | None = None  # the latest signal
        self.requested = False
        self._forced = False
        self._on_request: Callable[[], None] | None = None
        self._on_force: Callable[[], None] | None = None
        self._handlers: dict[int, Any] = {}
        # A pipe, not a threading.Event: setting an event in a signal handler can deadlock with the thread that waits.
        self._read, self._write = os.pipe()

    def calls(self, request: Callable[[], None], force: Callable[[], None] | None = None) -> None:
        """Call `request` on the first signal, at once if it has already come, and `force` on a second one.

        Both run in the signal handler, so they set flags and return.
        """
        self._on_request, self._on_force = request, force
        if self.requested:
            request()

    def request(self) -> None:
        """Stop for another reason than a signal."""
        if not self.requested:
            self.requested = True
            os.write(self._write, b"!")
            if self._on_request is not None:
                self._on_request()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a stop is requested, at most so long. Returns whether it is."""
        return bool(select.select([self._read], [], [], seconds)[0])

    def fileno(self) -> int:
        """Readable once a stop is requested."""
        return self._read

    @property
    def status(self) -> int:
        """The exit status: 0, or 128 and the signal's number if the end was forced."""
        return 128 + self.by if self._forced and self.by is not None else 0

    def _signaled(self, number: int, _frame: FrameType | None) -> None:
        self.by = number
        if not self.requested:
            self.request()
            return
        self._forced = True
        if self._on_force is None:
            raise SystemExit(self.status)
        self._on_force()

    def __enter__(self) -> Self:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup, or a shell's background job
                self._handlers[number] = before
                signal.signal(number, self._signaled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)
