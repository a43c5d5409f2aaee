"""Ends all processes of a demo with it: `python -m dibs.onboarding.demo.guard [FOLDER]`.

It leads their process group. On stdin it reads the ids of started and ended processes, `+PID` and `-PID`, one per
line. When stdin ends, because the demo ended or was killed, it kills the whole group and deletes the folder. A process
that started in the last moment is in the group too.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from shutil import rmtree
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Seconds after each SIGTERM: a first lets a worker finish what it runs, a second makes it end that, too.
_PATIENCE = (0.3, 6.0)
_LOOK = 0.05  # seconds


def main(folder: str | None, told: Iterable[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    living: set[int] = set()
    for line in told:
        (living.add if line.startswith("+") else living.discard)(int(line[1:]))
    for patience in _PATIENCE:
        os.killpg(os.getpgrp(), signal.SIGTERM)
        _wait(living, patience)
    for pid in living:  # before the folder goes: a process that is still there would write into it again
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait(living, _PATIENCE[-1])
    if folder is not None:
        rmtree(folder, ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)  # which ends this process, too


def _wait(living: set[int], patience: float) -> None:
    until = time.monotonic() + patience
    while living and time.monotonic() < until:
        living -= {pid for pid in living if not _alive(pid)}
        time.sleep(_LOOK)


def _alive(pid: int) -> bool:
    """A zombie does not count: without a parent that waits for it, its name stays for long."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return not os.path.exists("/proc/self")  # where there is no /proc, having a name is all there is to know


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None, sys.stdin)
