"""Python loads this at its start: the clocks of the process follow the file that `HOST_CLOCK` names.

Timed waits end when the moved clock passes their end, so that a process notices a moved clock at once.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Any

_STEP = 0.1  # seconds between two looks at the file during a wait
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_FILE = os.environ.get("HOST_CLOCK", "")

_clock_gettime, _time_ns = time.clock_gettime, time.time_ns
_select, _poll, _condition_wait = select.select, select.poll, threading.Condition.wait


def _told() -> tuple[int, int, int]:
    """Offset, then the boot time and the real time at which the clock is stopped (-1: it runs), in nanoseconds."""
    try:
        with open(_FILE, encoding="ascii") as file:
            offset, boottime, realtime = map(int, file.read().split())
    except OSError:  # the test is over
        return 0, -1, -1
    return offset, boottime, realtime


def _boottime_ns() -> int:
    offset, stopped, _ = _told()
    return time.clock_gettime_ns(_BOOTTIME) + offset if stopped < 0 else stopped


def _moved_clock_gettime(clock: int) -> float:
    return _boottime_ns() / 1e9 if clock == _BOOTTIME else _clock_gettime(clock)


def _moved_time_ns() -> int:
    offset, _, stopped = _told()
    return _time_ns() + offset if stopped < 0 else stopped


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._real = time.monotonic() + seconds
        self._moved = _boottime_ns() / 1e9 + seconds

    def left(self) -> float:
        return max(0.0, min(self._real - time.monotonic(), self._moved - _boottime_ns() / 1e9))


def _moved_select(read: Any, write: Any, odd: Any, timeout: float | None = None) -> Any:
    if timeout is None:
        return _select(read, write, odd)
    deadline = _Deadline(timeout)
    while True:
        left = deadline.left()
        found = _select(read, write, odd, min(left, _STEP))
        if any(found) or left <= 0:
            return found


class _MovedPoll:
    """`select.poll()`"""

    def __init__(self) -> None:
        self._poll = _poll()
        self.register, self.modify, self.unregister = self._poll.register, self._poll.modify, self._poll.unregister

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        if timeout is None or timeout < 0:
            return self._poll.poll()
        deadline = _Deadline(timeout / 1000)
        while True:
            left = deadline.left()
            found = self._poll.poll(1000 * min(left, _STEP))
            if found or left <= 0:
                return found


def _moved_condition_wait(self: threading.Condition, timeout: float | None = None) -> bool:
    if timeout is None:
        return _condition_wait(self)
    deadline = _Deadline(timeout)
    while True:
        left = deadline.left()
        if _condition_wait(self, min(left, _STEP)):
            return True
        if left <= 0:
            return False


if _FILE:
    time.clock_gettime = _moved_clock_gettime
    time.time_ns = _moved_time_ns
    select.select = _moved_select
    select.poll = _MovedPoll  # type: ignore[misc, assignment]  # as the two above
    threading.Condition.wait = _moved_condition_wait  # type: ignore[method-assign]
