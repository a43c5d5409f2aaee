"""Commands that hang, fork, flood or ignore signals: the task ends, memory stays flat, and no process remains."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.core.task import Status
from support.workers import python, shell, until

if TYPE_CHECKING:
    from support.workers import Place

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


def test_ended_command_takes_its_children_along(place: Place) -> None:
    place.add("a")
    ended = place.worked("--once", "--grace", "0.5s", *python(_GETS_AWAY.format(end="print('fine')")))
    assert (place.task("a").status, place.task("a").result) == (Status.DONE, "fine"), ended.said
    assert place.marked() == {}


def test_time_limit_ends_a_hanging_command_and_its_children(place: Place) -> None:
    place.add("a", max_retries=0)
    hangs = python(_GETS_AWAY.format(end="open('hangs', 'w').close(); time.sleep(303)"))
    one = place.work("--once", "--lease", "3h", "--time-limit", "1h", "--grace", "0.5s", *hangs)
    until((place.folder / "hangs").exists, lambda: one.said)
    place.clock.advance(hours=1)
    one.leaves()
    assert place.task("a").status is Status.ESCALATED, one.said
    assert "time limit" in str(place.task("a").reason)
    assert place.marked() == {}


def test_memory_stays_flat_under_a_gigabyte_of_output(place: Place) -> None:
    """The end of the output is stored."""
    place.add("a")
    flood = "head -c 1000000000 /dev/zero; head -c 200000000 /dev/zero >&2; echo; echo the end"
    one = place.work("--once", *shell(f"{flood}; touch through; while [ ! -e go ]; do sleep 0.02; done"))
    peaks: dict[int, int] = {}
    watching = threading.Thread(target=_watch, args=(place, one.process.pid, peaks))
    watching.start()
    until((place.folder / "through").exists, lambda: one.said, 600)
    peaks.clear()
    until(lambda: len(peaks) == 2, lambda: f"{peaks}\n{one.said}")  # both were measured after the flood
    (place.folder / "go").touch()
    assert one.leaves() == 0
    watching.join()
    result = str(place.task("a").result)
    assert result.endswith("the end")
    assert re.match(r"\(the \d{9} bytes before this were dropped\)", result)
    assert max(peaks.values()) < 60_000, peaks  # kilobytes


def _watch(place: Place, worker: int, peaks: dict[int, int]) -> None:
    """The peak memory of the worker and its supervisor."""
    while place.workers[-1].process.poll() is None:
        for pid, line in place.marked().items():
            if pid == worker or "dibs.fleet.supervisor" in line:
                try:
                    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if found:
                    peaks[pid] = int(found[1])
        time.sleep(0.05)
