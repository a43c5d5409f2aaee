"""The worker's side: start a supervisor, give it commands, and close it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64decode
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from dibs.fleet.supervisor import command
from dibs.fleet.supervisor.protocol import Channel, Ending, Report, clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.fleet.supervisor.protocol import Order

_LOOK = 0.01  # seconds
_LINE = 256 << 10  # bytes that a supervisor may send without a request
_PATIENCE = 30.0  # seconds for an idle process to end

_living: set[int] = set()  # the supervisors of this process
_registering = threading.Lock()


class SupervisorLost(Exception):
    """The supervisor was killed. Closing it ends the processes it left."""


class Supervisor:
    """Runs commands for one thread, one at a time; any thread may `stop` the running one."""

    def __init__(self) -> None:
        self._folder = mkdtemp(prefix="dibs-work-")
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LINE)
        command.adopt_orphans()  # the command of a killed supervisor becomes our child, to be ended
        with theirs, _registering:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves; -P: no module from this folder
                [sys.executable, "-P", "-m", "dibs.fleet.supervisor", self._folder],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            _living.add(self._process.pid)
        self._channel = Channel(ours)
        self._speaking = threading.Lock()

    def run(self, order: Order) -> None:
        self._send(run=order._asdict())

    def report(self, seconds: float, printed: Callable[[int, bytes], None] | None = None) -> Report | None:
        """The end of the command, or None if it runs for longer than `seconds`.

        Until then `printed` gets its output: each piece with the number of bytes dropped before it.
        """
        until = clock() + seconds
        while (said := self._receive(until - clock())) is not None:
            if "report" in said:
                return Report(**said["report"] | {"ending": Ending(said["report"]["ending"])})
            if printed is not None:
                printed(said["dropped"], b64decode(said["output"]))
            with suppress(SupervisorLost):  # the next read raises it
                self._send(output=True)
        return None

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        try:
            return self._channel.receive(seconds)
        except EOFError:
            raise SupervisorLost from None

    def extend(self, until: float) -> None:
        self._send(until=until)

    def stop(self) -> None:
        self._send(stop=True)

    def ended(self) -> Report:
        """Stop the command, and return its report."""
        self.stop()
        while (report := self.report(_PATIENCE)) is None:
            pass
        return report

    def fileno(self) -> int:
        """A descriptor that is readable when a report has arrived."""
        return self._channel.fileno()

    def _send(self, **message: object) -> None:
        try:
            with self._speaking:
                self._channel.send(**message)
        except EOFError:
            raise SupervisorLost from None

    def close(self) -> None:
        """Close the channel, which makes the supervisor end its command and exit."""
        self._channel.close()
        status = self._process.wait(_PATIENCE)
        with _registering:
            _living.discard(self._process.pid)
            if status:
                _end_orphans()
        rmtree(self._folder, ignore_errors=True)  # the supervisor deletes it, unless it was killed


def _end_orphans() -> None:
    """Kill the orphans of a killed supervisor: all processes below us, except other supervisors and our own.

    A command runs in a separate session; our other processes run in ours.
    """
    give_up_at = clock() + _PATIENCE
    while (
        left := [pid for pid in command.descendants(os.getpid(), _living) if _elsewhere(pid)]
    ) and clock() < give_up_at:
        command.send_signal(signal.SIGKILL, None, left)
        for pid in left:
            with suppress(ChildProcessError):  # those below our children become ours when these are gone
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_LOOK)


def _elsewhere(pid: int) -> bool:
    try:
        return os.getsid(pid) != os.getsid(0)
    except ProcessLookupError:
        return False
