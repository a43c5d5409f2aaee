"""An end to waiting for an answer that will never come.

A network that swallows packets without a word leaves libpq waiting for good. The kernel notices a peer that is gone,
but not one behind something that keeps the connection up. So a thread looks at the clock now and then. It asks the
server, over another connection, whether it is still at work on a statement that is overdue, and if not shuts the
socket: to libpq that is a broken connection, which we know how to mend.
"""

from __future__ import annotations

import _thread
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK = 0.25


class Watchdog:
    """Starting and stopping the watch is two assignments: they are on every statement's path."""

    def __init__(self, seconds: float, at_work: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._at_work = at_work
        self._until: float | None = None
        self._descriptor = -1
        self._thread: int | None = None
        self._over = False

    def watch(self, descriptor: int) -> None:
        """This is the connection from now on."""
        self._until = None
        self._descriptor = descriptor

    def start(self) -> None:
        self._until = time.monotonic() + self._seconds
        if self._thread is None:
            self._thread = _thread.start_new_thread(self._look, ())

    def stop(self) -> None:
        self._until = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The same where it is not every statement's path."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def forget(self) -> None:
        self._until = None
        self._over = True

    def _look(self) -> None:
        while not self._over:
            time.sleep(_LOOK)
            until = self._until
            if until is None or time.monotonic() < until:
                continue
            at_work = self._at_work()
            if self._until is until:  # it is still the same statement that we wait for
                self._until = time.monotonic() + self._seconds if at_work else None
                if not at_work:
                    self._shut()

    def _shut(self) -> None:
        import socket  # not before it is needed: a cold claim has no time for it

        try:
            with socket.socket(fileno=os.dup(self._descriptor)) as copy:
                copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has broken by itself meanwhile
