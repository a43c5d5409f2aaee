"""An end to waiting for a server that has fallen silent.

The driver bounds how long it takes to connect. After that it waits for an answer for as long as the server once told it
to, which is two minutes unless somebody set it otherwise, or for ever.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK = 0.5


class Watch:
    """Calls `give_up` when somebody has waited longer than they may. Its thread is there only while somebody waits."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # until when each may
        self._thread: threading.Thread | None = None

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        waiter = object()
        with self._lock:
            self._waiting[waiter] = time.monotonic() + seconds
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._thread = threading.Thread(target=self._look, name="dibs-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(waiter, None)

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                late = [waiter for waiter, until in self._waiting.items() if until < time.monotonic()]
                for waiter in late:
                    del self._waiting[waiter]
            if late:
                self._give_up()
