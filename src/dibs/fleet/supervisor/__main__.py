"""`python -m dibs.fleet.supervisor FOLDER`, started by a worker, with a socket to it as stdin."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
from base64 import b64encode
from contextlib import suppress
from shutil import rmtree
from typing import TYPE_CHECKING

from dibs.fleet.supervisor import command
from dibs.fleet.supervisor.command import RunningCommand
from dibs.fleet.supervisor.protocol import Channel, Ending, Order, clock

if TYPE_CHECKING:
    from types import FrameType

_UNHEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # ignored: the worker decides when to end


class SupervisorProcess:
    def __init__(self, channel: Channel, folder: str) -> None:
        self._channel = channel
        self._folder = folder
        self._alone = False  # the worker is gone
        self._asked = False  # the worker has read the sent output, and accepts more
        self._sent_at = 0.0
        self._child_pipe = _child_pipe()

    def serve(self) -> None:
        """Run commands until the worker is gone."""
        while not self._alone:
            try:
                asked = self._channel.receive(_LONG)
            except EOFError:
                break
            if asked is not None and "run" in asked:  # other requests are about a command that has ended
                order = Order(**asked["run"])
                self._asked = order.heard
                self._run(order)
        rmtree(self._folder, ignore_errors=True)

    def _run(self, order: Order) -> None:
        run = RunningCommand(order, self._folder)
        try:
            self._attend(run)
        finally:
            run.close()
        if not self._alone:
            with suppress(EOFError):
                while run.pending:
                    self._send_output(run)
                self._channel.send(report=run.report()._asdict())

    def _attend(self, run: RunningCommand) -> None:
        with selectors.DefaultSelector() as ears:
            ears.register(self._child_pipe, selectors.EVENT_READ)
            ears.register(self._channel, selectors.EVENT_READ)
            for pipe in run.pipes:
                ears.register(pipe, selectors.EVENT_READ)
            self._hear(run, ears, self._channel.fileno())  # requests sent along with the order
            run.step()
            while not run.over:
                for key, _ in ears.select(min(run.rest(), self._until_output(run))):
                    self._hear(run, ears, key.fd)
                if not self._until_output(run):
                    with suppress(EOFError):  # the worker is gone, which the next read reports
                        self._send_output(run)
                run.step()

    def _until_output(self, run: RunningCommand) -> float:
        """Seconds until output is to be sent.

        It is sent on request only: a write to a full socket would block, and the command would not be ended in time.
        """
        if self._alone or not self._asked or not run.pending:
            return _LONG
        return max(0.0, self._sent_at + _TOGETHER - clock())

    def _send_output(self, run: RunningCommand) -> None:
        dropped, piece = run.pending.take(_SENT)
        self._asked, self._sent_at = False, clock()
        self._channel.send(dropped=dropped, output=b64encode(piece).decode())

    def _hear(self, run: RunningCommand, ears: selectors.BaseSelector, fd: int) -> None:
        if fd == self._child_pipe:
            os.read(self._child_pipe, 512)
        elif fd != self._channel.fileno():
            if not run.read(fd):
                ears.unregister(fd)
        elif not self._obey(run):
            ears.unregister(self._channel)

    def _obey(self, run: RunningCommand) -> bool:
        """Follow the worker's requests. False: the worker is gone."""
        try:
            while (said := self._channel.receive(0)) is not None:
                if "until" in said:
                    run.until = said["until"]
                elif "stop" in said:
                    run.stop(Ending.TOLD)
                elif "output" in said:
                    self._asked = True
        except EOFError:
            self._alone = True
            run.stop(Ending.TOLD)
        return not self._alone


_LONG = 3600.0
_TOGETHER = 1.0  # seconds of output that are sent together
_SENT = 48 << 10  # bytes of output in one message, which fits into a socket's buffer


def _child_pipe() -> int:
    """A pipe that is readable after a child has ended."""
    heard, rung = os.pipe()
    for end in (heard, rung):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(rung, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_UNHEARD):
        signal.signal(number, _nothing)  # not ignored, as a command would inherit that
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
