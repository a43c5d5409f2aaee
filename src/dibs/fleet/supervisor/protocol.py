"""What a worker and its supervisor say to each other: lines of JSON on a socket."""

import json
import select
import socket
import time
from enum import StrEnum
from typing import Any, NamedTuple

_CHUNK = 65536

# A clock that nobody sets, the same in every process, which goes on while the machine sleeps: so do leases.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    return time.clock_gettime(_CLOCK)


class Order(NamedTuple):
    """A command to run. Spans are in seconds; `until`, when it has to be over, is a time of `clock`.

    `given` is what it reads on stdin. Each of `files` is written into a folder of its own, with the variable that says
    where it is. From `notice` before its time is over, or when told to end, it has `grace` to do so.
    """

    words: list[str]
    environment: dict[str, str]
    given: str
    files: dict[str, tuple[str, str]]
    until: float
    notice: float
    grace: float
    limit: float | None = None


class Ending(StrEnum):
    """What brought a command to its end: itself, its time limit, the end of the lease, or a word from its worker."""

    ITSELF = "itself"
    LIMIT = "limit"
    LEASE = "lease"
    TOLD = "told"


class Report(NamedTuple):
    """How a command ended: `status` as a shell knows it, but negative for a signal; the last of what it said.

    `dropped` are the bytes of output that went before that; `left` is how many processes withstood being killed.
    """

    status: int
    ending: Ending
    seconds: float
    output: str = ""
    errors: str = ""
    dropped: int = 0
    left: int = 0


class Channel:
    """One end of the line. EOFError says that nobody is at the other."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._heard = b""

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, **message: Any) -> None:
        try:
            self._end.sendall(json.dumps(message).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, if one comes within so many seconds."""
        until = clock() + seconds
        while b"\n" not in self._heard:
            if not select.select([self._end], [], [], max(0.0, until - clock()))[0]:
                return None
            self._listen()
        line, _, self._heard = self._heard.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _listen(self) -> None:
        try:
            piece = self._end.recv(_CHUNK)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise EOFError
        self._heard += piece

    def close(self) -> None:
        self._end.close()
