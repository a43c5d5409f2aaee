"""Commands that hang, fork, flood and do not listen: the task ends, memory stays flat, and nothing is left behind."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.core.task import Status

from .place import python, shell

if TYPE_CHECKING:
    from .place import Place

_GETS_AWAY = """
import os, subprocess, sys, time
# A child, one in a session of its own, and one whose parents are all gone, deaf to everything.
subprocess.Popen(["sleep", "300"])
subprocess.Popen(["sleep", "301"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(1), os.close(2)
        open("deaf", "w").close()
        time.sleep(302)
    os._exit(0)
while not os.path.exists("deaf"):
    time.sleep(0.01)
{end}
"""


def test_a_command_that_ends_takes_along_all_it_has_started_wherever_that_has_gone(place: Place) -> None:
    place.add("a")
    ended = place.worked("--once", "--grace", "0.5s", *python(_GETS_AWAY.format(end="print('fine')")))
    assert (place.task("a").status, place.task("a").result) == (Status.DONE, "fine"), ended.said
    assert place.marked() == {}


def test_a_command_that_hangs_is_ended_by_its_time_limit_with_all_it_has_started(place: Place) -> None:
    place.add("a", max_retries=0)
    hangs = python(_GETS_AWAY.format(end="time.sleep(303)"))
    began = time.monotonic()
    ended = place.worked("--once", "--time-limit", "1s", "--grace", "0.5s", *hangs)
    assert time.monotonic() - began < 15
    assert place.task("a").status is Status.ESCALATED, ended.said
    assert place.marked() == {}


def test_a_gigabyte_of_output_and_as_much_on_stderr_leave_memory_flat_and_their_end_is_kept(place: Place) -> None:
    place.add("a")
    one = place.work(
        "--once", *shell("head -c 1000000000 /dev/zero; head -c 200000000 /dev/zero >&2; echo; echo the end")
    )
    peaks: dict[int, int] = {}
    watching = threading.Thread(target=_watch, args=(place, one.process.pid, peaks))
    watching.start()
    assert one.process.wait(120) == 0
    watching.join()
    result = str(place.task("a").result)
    assert result.endswith("the end")
    assert re.match(r"\(the \d{9} bytes before this were dropped\)", result)
    assert max(peaks.values()) < 60_000, peaks  # kilobytes
    assert len(peaks) >= 2, peaks


def _watch(place: Place, worker: int, peaks: dict[int, int]) -> None:
    """How large the worker and its minder become."""
    while place.workers[-1].process.poll() is None:
        for pid, line in place.marked().items():
            if pid == worker or "dibs.fleet.minder" in line:
                try:
                    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if found:
                    peaks[pid] = int(found[1])
        time.sleep(0.05)
