"""`python -m dibs.fleet.supervisor FOLDER`, started by a worker, whose words come on stdin, which is a socket."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from shutil import rmtree
from typing import TYPE_CHECKING

from dibs.fleet.supervisor import command
from dibs.fleet.supervisor.command import RunningCommand
from dibs.fleet.supervisor.protocol import Channel, Ending, Order

if TYPE_CHECKING:
    from types import FrameType

_UNHEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # when to end is our worker's to say


class SupervisorProcess:
    def __init__(self, channel: Channel, folder: str) -> None:
        self._channel = channel
        self._folder = folder
        self._alone = False  # our worker is gone
        self._bell = _bell()

    def serve(self) -> None:
        """Run what is asked for, until nobody is there to ask."""
        while not self._alone:
            try:
                asked = self._channel.receive(_LONG)
            except EOFError:
                break
            if asked is not None and "run" in asked:  # the rest is about a command that has ended meanwhile
                self._run(Order(**asked["run"]))
        rmtree(self._folder, ignore_errors=True)

    def _run(self, order: Order) -> None:
        run = RunningCommand(order, self._folder)
        try:
            self._attend(run)
        finally:
            run.close()
        if not self._alone:
            with suppress(EOFError):
                self._channel.send(report=run.report()._asdict())

    def _attend(self, run: RunningCommand) -> None:
        with selectors.DefaultSelector() as ears:
            ears.register(self._bell, selectors.EVENT_READ)
            ears.register(self._channel, selectors.EVENT_READ)
            for pipe in run.pipes:
                ears.register(pipe, selectors.EVENT_READ)
            self._hear(run, ears, self._channel.fileno())  # what came along with the order
            run.step()
            while not run.over:
                for key, _ in ears.select(run.rest()):
                    self._hear(run, ears, key.fd)
                run.step()

    def _hear(self, run: RunningCommand, ears: selectors.BaseSelector, fd: int) -> None:
        if fd == self._bell:
            os.read(self._bell, 512)
        elif fd != self._channel.fileno():
            if not run.read(fd):
                ears.unregister(fd)
        elif not self._obey(run):
            ears.unregister(self._channel)

    def _obey(self, run: RunningCommand) -> bool:
        """Do as our worker says. False: it is gone, and what it wanted done is nobody's business any more."""
        try:
            while (said := self._channel.receive(0)) is not None:
                if "until" in said:
                    run.until = said["until"]
                elif "stop" in said:
                    run.stop(Ending.TOLD)
        except EOFError:
            self._alone = True
            run.stop(Ending.TOLD)
        return not self._alone


_LONG = 3600.0


def _bell() -> int:
    """Rings when a child ends."""
    heard, rung = os.pipe()
    for end in (heard, rung):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(rung, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_UNHEARD):
        signal.signal(number, _nothing)  # not ignored: a command would inherit that
    return heard


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def main() -> None:
    with suppress(OSError):
        os.setsid()
    command.adopt_orphans()
    SupervisorProcess(Channel(socket.socket(fileno=sys.stdin.fileno())), sys.argv[1]).serve()


if __name__ == "__main__":
    main()
