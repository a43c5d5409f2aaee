"""One command and every process that it started: start it, read its output, end all of it.

On Linux no process escapes: an orphan is adopted by the nearest ancestor that asked for it, and that is us. Elsewhere a
process that has left the command's process group is out of reach.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING

from dibs.fleet.supervisor.protocol import Ending, Report, clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dibs.fleet.supervisor.protocol import Order


_PR_SET_CHILD_SUBREAPER = 36
_prctl = getattr(ctypes.CDLL(None), "prctl", None)

CAN_ADOPT = _prctl is not None


def adopt_orphans() -> None:
    """Adopt orphans from now on: they become our children."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(pid: int, without: Collection[int] = ()) -> list[int]:
    """All known descendants of a process, except some children and their descendants."""
    children: dict[int, list[int]] = {}
    for one, parent in _parent_of_each():
        children.setdefault(parent, []).append(one)
    found: list[int] = []
    waiting = [child for child in children.get(pid, []) if child not in without]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def _parent_of_each() -> Iterator[tuple[int, int]]:
    """Every process and its parent. The name between the two may have blanks and brackets in it."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


def send_signal(number: int, group: int | None, others: Collection[int] = ()) -> None:
    """Send a signal to a process group, and to the other processes outside of it."""
    if group is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in others:
        with suppress(ProcessLookupError, PermissionError):
            if group is None or os.getpgid(pid) != group:
                os.kill(pid, number)


_CONTINUES = range(0x80, 0xC0)  # bytes inside a character


class Tail:
    """Keeps the last `most` bytes, and counts all bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._seen = 0

    def add(self, piece: bytes) -> None:
        self._seen += len(piece)
        self._kept += piece
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]

    @property
    def dropped(self) -> int:
        """The number of bytes before those that are kept."""
        return self._seen - len(self._last())

    def text(self) -> str:
        """The output as text; invalid bytes are replaced, and NUL is dropped."""
        return self._last().decode(errors="replace").replace("\0", "")

    def _last(self) -> bytes:
        kept = bytes(self._kept[-self._most :])
        if len(kept) == self._seen:
            return kept
        cut = next((at for at, byte in enumerate(kept[:4]) if byte not in _CONTINUES), 0)
        return kept[cut:]  # starts at a whole character


class PendingOutput:
    """The unsent output, at most the latest bytes, and the number of dropped bytes before them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._dropped = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, piece: bytes) -> None:
        self._kept += piece
        over = len(self._kept) - self._most
        if over > 0:
            self._dropped += over
            del self._kept[:over]

    def take(self, most: int) -> tuple[int, bytes]:
        """The number of dropped bytes, and the next bytes after them."""
        dropped, self._dropped = self._dropped, 0
        piece = bytes(self._kept[:most])
        del self._kept[: len(piece)]
        return dropped, piece


OUTPUT_KEPT = 200_000  # bytes
_PENDING = 256 << 10  # bytes
ERRORS_KEPT = 20_000
NOT_STARTED = 127  # as a shell says it
_CHUNK = 65536
_LONGEST_REST = 1.0  # seconds: a wait does not notice that the machine slept
_LOOK = 0.05  # seconds between two looks at processes that have to end
_KILLING = 10.0  # seconds after which processes that survive SIGKILL are left alone
_NEVER = float("inf")


class RunningCommand:
    """A running command. Call `step` after each event until `over`; the caller waits at `pipes`."""

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
        self.pending = PendingOutput(_PENDING)  # of stdout and stderr, in order of arrival
        try:
            self._folder = mkdtemp(dir=folder)
            self._process = _start(order, self._folder)
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
        """The descriptors of its stdout and stderr."""
        return list(self._tails)

    def read(self, pipe: int) -> bool:
        """Read available output. False: the end, or nothing to read now."""
        try:
            piece = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        self._tails[pipe].add(piece)
        if self._order.heard:
            self.pending.add(piece)
        return bool(piece)

    def rest(self) -> float:
        """Seconds until the next step, without an event."""
        now = clock()
        if self._kill_at < _NEVER:
            return _LOOK if now >= self._kill_at else min(_LOOK, self._kill_at - now)
        return max(0.0, min(self.until - self._order.notice - now, self._limit_at - now, _LONGEST_REST))

    def stop(self, ending: Ending) -> None:
        """Ask the command to end, and kill it after the grace or at the end of the lease."""
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
            self._ask()  # its remaining processes
        if now >= min(self._kill_at, self.until):
            self._kill(now)
        elif self._kill_at < _NEVER:
            self._signal_all()

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
        """Read the rest of the pipes and close them."""
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
        self._signal_all()

    def _signal_all(self) -> None:
        """Signal each process once, including new ones; a stopped process must continue to receive it."""
        group = None if self._asked else self._group()
        new = set(descendants(os.getpid())) - self._asked
        for number in (signal.SIGTERM, signal.SIGCONT):
            send_signal(number, group, new)
        self._asked |= new

    def _group(self) -> int | None:
        """The process group while its first process lives; later, its number may be reused."""
        return self._process.pid if self._status is None else None

    def _kill(self, now: float) -> None:
        self._give_up_at = min(self._give_up_at, now + _KILLING)
        send_signal(signal.SIGKILL, self._group(), descendants(os.getpid()))
        if now >= self._give_up_at:
            self._left = len(descendants(os.getpid())) or 1
            self._status = self._status if self._status is not None else -signal.SIGKILL
            self.over = True

    def _reap(self) -> None:
        """Reap ended processes. Without a child left, no process of the command is left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._process.pid:
                    self._status = self._process.returncode = os.waitstatus_to_exitcode(status)
                    if not CAN_ADOPT:
                        send_signal(signal.SIGKILL, pid)  # the rest of its group, which cannot be waited for
        self.over = True


def _start(order: Order, folder: str) -> subprocess.Popen[bytes]:
    environment = dict(os.environ) | order.environment
    for variable, (name, text) in order.files.items():
        environment[variable] = os.path.join(folder, name)
        _write_file(environment[variable], text).close()
    with _write_file(os.path.join(folder, "stdin"), order.given) as given:
        return subprocess.Popen(  # noqa: S603 - the user's own command, as they gave it
            order.words,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=order.place,
            start_new_session=True,
        )


def _write_file(path: str, text: str) -> IO[bytes]:
    """A new file with this text, open at its start."""
    file = open(path, "w+b")  # noqa: SIM115 - the caller closes it
    file.write(text.encode(errors="surrogateescape"))
    file.seek(0)
    return file
