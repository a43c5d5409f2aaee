"""The worker's side: start a supervisor, give it commands, and close it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from dibs.fleet.supervisor import command
from dibs.fleet.supervisor.protocol import Channel, Ending, Report, clock

if TYPE_CHECKING:
    from dibs.fleet.supervisor.protocol import Order

_LOOK = 0.01  # seconds
_PATIENCE = 30.0  # seconds for the process to end that has nothing left to do

_living: set[int] = set()  # the supervisors of this process
_registering = threading.Lock()


class SupervisorLost(Exception):
    """The supervisor was killed. To close it ends what it has left."""


class Supervisor:
    """One thread runs commands by it, one at a time; any other may `stop` what is running."""

    def __init__(self) -> None:
        self._folder = mkdtemp(prefix="dibs-work-")
        ours, theirs = socket.socketpair()
        command.adopt_orphans()  # should the supervisor be killed, its command becomes ours, to be ended
        with theirs, _registering:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves; -P: nothing that happens to lie in this folder
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

    def report(self, seconds: float) -> Report | None:
        """What came of it, if that is known within so many seconds."""
        try:
            said = self._channel.receive(seconds)
        except EOFError:
            raise SupervisorLost from None
        if said is None:
            return None
        return Report(**said["report"] | {"ending": Ending(said["report"]["ending"])})

    def extend(self, until: float) -> None:
        self._send(until=until)

    def stop(self) -> None:
        self._send(stop=True)

    def ended(self) -> Report:
        """Have what is running ended, and say how that went."""
        self.stop()
        while (report := self.report(_PATIENCE)) is None:
            pass
        return report

    def fileno(self) -> int:
        """Where something can be read once there is a report."""
        return self._channel.fileno()

    def _send(self, **message: object) -> None:
        try:
            with self._speaking:
                self._channel.send(**message)
        except EOFError:
            raise SupervisorLost from None

    def close(self) -> None:
        """Without a word: that we are gone is enough for it to end what it runs."""
        self._channel.close()
        status = self._process.wait(_PATIENCE)
        with _registering:
            _living.discard(self._process.pid)
            if status:
                _end_orphans()
        rmtree(self._folder, ignore_errors=True)  # it does so itself, unless it was killed


def _end_orphans() -> None:
    """Kill what a killed supervisor left to us: all processes below us, except those of other supervisors and our own.

    A command has a session of its own, whatever else we start has ours.
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
