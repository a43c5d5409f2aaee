"""The clock of a host that real processes of dibs run on: it runs, and a test moves it forward or stops it.

A process started with `environ` goes by it: leases, time limits, retry pauses, timed waits, and a store that goes by
the machine's clock. Real time alone ends none of those if the test chooses them long (an hour).
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

_SITE = Path(__file__).with_name("host_clock_site")
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RUNS = (-1, -1)


def _nanoseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000


class HostClock:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "host-clock"
        self._offset = 0
        self._stopped = _RUNS
        self._write()

    @property
    def environ(self) -> dict[str, str]:
        """For the processes of this host."""
        return {"HOST_CLOCK": str(self._file), "PYTHONPATH": self.python_path(os.environ.get("PYTHONPATH", ""))}

    @staticmethod
    def python_path(*more: str) -> str:
        return os.pathsep.join([str(_SITE), *filter(None, more)])

    def __call__(self) -> datetime:
        realtime = time.time_ns() + self._offset if self._stopped == _RUNS else self._stopped[1]
        return _EPOCH + timedelta(microseconds=realtime // 1000)

    def advance(self, **span: float) -> None:
        """`advance(minutes=30)`; a stopped clock runs again."""
        if self._stopped != _RUNS:
            self._offset = self._stopped[1] - time.time_ns()
            self._stopped = _RUNS
        self._offset += _nanoseconds(timedelta(**span))
        self._write()

    def stop_at(self, moment: datetime) -> None:
        """Stop the clock, so that everything happens at this moment."""
        realtime = _nanoseconds(moment - _EPOCH)
        self._stopped = (time.clock_gettime_ns(_BOOTTIME) + realtime - time.time_ns(), realtime)
        self._write()

    def _write(self) -> None:
        """In one step: a process may be reading."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{self._offset} {self._stopped[0]} {self._stopped[1]}", encoding="ascii")
        written.replace(self._file)
