"""One command, from its start until nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING

from dibs.fleet.supervisor import family
from dibs.fleet.supervisor.protocol import Ending, Report, clock
from dibs.fleet.supervisor.tail import Tail

if TYPE_CHECKING:
    from dibs.fleet.supervisor.protocol import Order

OUTPUT_KEPT = 200_000  # bytes
ERRORS_KEPT = 20_000
NOT_STARTED = 127  # as a shell says it
_CHUNK = 65536
_LONGEST_REST = 1.0  # seconds: no wait hears of a machine that was asleep in between
_LOOK = 0.05  # seconds between two looks at those that are to end
_KILLING = 10.0  # seconds after which those that withstand are left alone
_NEVER = float("inf")


class Run:
    """`step` whenever something may have happened, until `over`. Pipes are for others to wait at."""

    def __init__(self, order: Order, folder: str) -> None:
        self.until = order.until
        self._order = order
        self._began = clock()
        self._limit_at = _NEVER if order.limit is None else self._began + order.limit
        self._ending = Ending.ITSELF
        self._kill_at = self._give_up_at = _NEVER
        self._status: int | None = None
        self._asked: set[int] = set()
        self._left = 0
        self.over = False
        self._folder: str | None = None
        self._tails: dict[int, Tail] = {}
        self._output, self._errors = Tail(OUTPUT_KEPT), Tail(ERRORS_KEPT)
        try:
            self._folder = mkdtemp(dir=folder)
            self._process = _started(order, self._folder)
        except (OSError, ValueError) as error:
            self._status, self.over = NOT_STARTED, True
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._errors.add(f"{order.words[0]}: {why}".encode())
            return
        for pipe, tail in ((self._process.stdout, self._output), (self._process.stderr, self._errors)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._tails[pipe.fileno()] = tail

    @property
    def pipes(self) -> list[int]:
        """Where it speaks."""
        return list(self._tails)

    def read(self, pipe: int) -> bool:
        """Take in what it says there. False: nothing more will come, or not now."""
        try:
            piece = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        self._tails[pipe].add(piece)
        return bool(piece)

    def rest(self) -> float:
        """Seconds until the next step, if nothing happens before."""
        now = clock()
        if self._kill_at < _NEVER:
            return _LOOK if now >= self._kill_at else min(_LOOK, self._kill_at - now)
        return max(0.0, min(self.until - self._order.notice - now, self._limit_at - now, _LONGEST_REST))

    def stop(self, ending: Ending) -> None:
        """Ask it to end, and see to it that it does: within the grace, and within the lease."""
        if self._status is None and self._kill_at == _NEVER:
            self._ending = ending
            self._ask()

    def step(self) -> None:
        now = clock()
        self._reap()
        if self.over:
            return
        if now >= self.until - self._order.notice:
            self.stop(Ending.LEASE)
        elif now >= self._limit_at:
            self.stop(Ending.LIMIT)
        if self._status is not None and self._kill_at == _NEVER:
            self._ask()  # what it has left behind
        if now >= min(self._kill_at, self.until):
            self._kill(now)
        elif self._kill_at < _NEVER:
            self._tell_all()

    def report(self) -> Report:
        assert self._status is not None
        return Report(
            self._status,
            self._ending,
            clock() - self._began,
            self._output.text(),
            self._errors.text(),
            self._output.dropped,
            self._left,
        )

    def close(self) -> None:
        """Take in what is left in the pipes, and let go of everything."""
        for pipe in self.pipes:
            while self.read(pipe):
                pass
        for stream in (self._process.stdout, self._process.stderr) if self._tails else ():
            assert stream is not None
            stream.close()
        self._tails.clear()
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)

    def _ask(self) -> None:
        self._kill_at = min(clock() + self._order.grace, self.until)
        self._tell_all()

    def _tell_all(self) -> None:
        """Everyone once, also those that came meanwhile; and who was stopped has to go on to hear it."""
        group = None if self._asked else self._group()
        new = set(family.below(os.getpid())) - self._asked
        for number in (signal.SIGTERM, signal.SIGCONT):
            family.send(number, group, new)
        self._asked |= new

    def _group(self) -> int | None:
        """As long as its first is there. Afterwards the number may be another's."""
        return self._process.pid if self._status is None else None

    def _kill(self, now: float) -> None:
        self._give_up_at = min(self._give_up_at, now + _KILLING)
        family.send(signal.SIGKILL, self._group(), family.below(os.getpid()))
        if now >= self._give_up_at:
            self._left = len(family.below(os.getpid())) or 1
            self._status = self._status if self._status is not None else -signal.SIGKILL
            self.over = True

    def _reap(self) -> None:
        """Take note of who has ended. When we have no child left, nothing is left at all."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._process.pid:
                    self._status = self._process.returncode = os.waitstatus_to_exitcode(status)
                    if not family.ADOPTS:
                        family.send(signal.SIGKILL, pid)  # the rest of its group: it cannot be waited for
        self.over = True


def _started(order: Order, folder: str) -> subprocess.Popen[bytes]:
    environment = dict(os.environ) | order.environment
    for variable, (name, text) in order.files.items():
        environment[variable] = os.path.join(folder, name)
        _write(environment[variable], text).close()
    with _write(os.path.join(folder, "stdin"), order.given) as given:
        return subprocess.Popen(  # noqa: S603 - the user's own command, as they gave it
            order.words,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )


def _write(path: str, text: str) -> IO[bytes]:
    """The file, to be read from its start."""
    file = open(path, "w+b")  # noqa: SIM115 - the caller closes it
    file.write(text.encode(errors="surrogateescape"))
    file.seek(0)
    return file
