"""All workers of a drain start at once, and each reports its jobs and its end time.

Times are of the monotonic clock, which all processes of a machine share. The other half is in `bench.postgres.drain`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "@bench "  # libraries print too; only these lines are ours


def wait_for_start() -> None:
    """Report that this worker is ready, and wait for the common start."""
    print(f"{MARK}ready", flush=True)
    sys.stdin.readline()


class Tally:
    """The jobs that this process finished, and the time of the last one."""

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self.began = self.ended = time.monotonic()

    def add(self, job: int) -> None:
        self.ended = time.monotonic()
        if not self.jobs:
            self.began = self.ended
        self.jobs.append(job)

    def report(self, *, from_first_job: bool = False) -> None:
        """Print the report. `from_first_job` is for libraries that connect only when they start to work."""
        began = {"began": self.began} if from_first_job and self.jobs else {}
        print(MARK + json.dumps({**began, "ended": self.ended, "jobs": self.jobs}), flush=True)

    def stop_when_idle(self, stop: Callable[[], None], seconds: float) -> None:
        """For workers that never end by themselves: stop them when no job came for so long. Costs no query."""

        def watch() -> None:
            while time.monotonic() - self.ended < seconds:
                time.sleep(0.2)
            stop()

        threading.Thread(target=watch, daemon=True).start()
