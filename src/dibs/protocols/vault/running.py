"""Running the command that does the work, and ending it when the task is not its own any more."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.core.errors import LostLock

if TYPE_CHECKING:
    from dibs.protocols.vault.bell import Bell
    from dibs.protocols.vault.holding import Holding

_GRACE = 5.0  # seconds between asking a command to end and ending it
_MOST = 200_000  # bytes of output that are kept: the last
_SHORTEST = 0.05  # seconds between two looks at the clock
_PR_SET_PDEATHSIG = 1

# What else is to be done while a command runs, told whether the lease was renewed just now: it answers in how many
# seconds it wants to be asked again, or ends the command by LostLock.
Meanwhile: TypeAlias = "Callable[[bool], float]"


class Ended(NamedTuple):
    """How a command ended. `lost` is why the task is not ours any more; `left` that the agent was told to leave."""

    status: int
    output: str = ""
    errors: str = ""
    late: bool = False
    lost: LostLock | None = None
    left: bool = False


class Command(NamedTuple):
    words: Sequence[str]
    timeout: timedelta | None = None

    def run(self, holding: "Holding", bell: "Bell", task: str, env: Mapping[str, str], meanwhile: Meanwhile) -> Ended:
        """Let it work on the task, which it gets on stdin, and keep the task meanwhile."""
        with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
            given.write(task.encode(errors="surrogateescape"))
            given.seek(0)
            try:
                process = self._start(given, output, errors, env)
            except OSError as error:
                return Ended(127, errors=f"{self.words[0]}: {error.strerror}")
            try:
                ended = self._attend(process, holding, bell, meanwhile)
            finally:
                if process.poll() is None:
                    _stop(process)
            said, complained = (_tail(file).replace(holding.token, "(token)") for file in (output, errors))
            return ended._replace(output=said, errors=complained)

    def _start(
        self, given: IO[bytes], output: IO[bytes], errors: IO[bytes], env: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - the user's own command, as they gave it
            self.words,
            stdin=given,
            stdout=output,
            stderr=errors,
            env=os.environ | {name: value.replace("\0", "") for name, value in env.items()},
            start_new_session=True,
            preexec_fn=_dying_with(os.getpid()),  # noqa: PLW1509 - one system call, on a library loaded before the fork
        )

    def _attend(
        self, process: "subprocess.Popen[bytes]", holding: "Holding", bell: "Bell", meanwhile: Meanwhile
    ) -> Ended:
        until = None if self.timeout is None else time.monotonic() + self.timeout.total_seconds()
        touched = True
        while process.poll() is None:
            if bell.leaving:
                return Ended(-1, left=True)
            if until is not None and time.monotonic() > until:
                return Ended(-1, late=True)
            try:
                again_in = meanwhile(holding.keep(touched=touched))
            except LostLock as lost:
                return Ended(-1, lost=lost)
            span = max(_SHORTEST, min(holding.renew_in, again_in))
            touched = bell.wait(span if until is None else min(span, max(0.0, until - time.monotonic())))
        return Ended(process.returncode)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask the command and all it has started to end, and then make them."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST))
    text = file.read().decode(errors="replace").replace("\0", "")
    return text if size <= _MOST else f"…{text}"


def _dying_with(agent: int) -> Callable[[], None] | None:
    """A command must not outlive its agent, whose claim others take over: Linux ends it with us, however we end."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return None

    def die_with_agent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != agent:
            os._exit(1)  # it has died already

    return die_with_agent
