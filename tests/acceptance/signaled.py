"""Run dibs in a process that signals itself at a chosen moment: `signaled.py SIGNAL CALLS WORD…`.

The moment is the CALLS-th function call after the command began to listen for signals. A command that is idle before
that gets the signal after AT_REST seconds.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from dibs.cli.main import run
from dibs.console.stopping import Stop

if TYPE_CHECKING:
    from types import FrameType

AT_REST = 3.0  # seconds

number, moment = int(sys.argv[1]), int(sys.argv[2])
sys.argv = ["dibs", *sys.argv[3:]]
enter = Stop.__enter__


def listening(stop: Stop) -> Stop:
    enter(stop)
    left, sent = moment, threading.Lock()

    def send() -> None:
        if sent.acquire(blocking=False):
            os.kill(os.getpid(), number)

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal left
        left -= event == "call"
        if left < 0:
            sys.setprofile(None)
            send()

    timer = threading.Timer(AT_REST, send)
    timer.daemon = True
    timer.start()
    sys.setprofile(count)
    return stop


Stop.__enter__ = listening  # type: ignore[method-assign, assignment]  # the one place where every such command begins to listen
run()
