"""The messages between a worker and its supervisor: lines of JSON on a socket."""

import json
import select
import socket
import time
from enum import StrEnum
from typing import Any, NamedTuple

_CHUNK = 65536

# A clock that cannot be set, is the same in every process, and counts while the machine sleeps, as leases do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    return time.clock_gettime(_CLOCK)


class Order(NamedTuple):
    """A command to run. Spans are in seconds; `until` is the latest end, by `clock`.

    `given` is its stdin. Each of `files` is written into a private folder, with a variable for its path. It has `grace`
    to end, from `notice` before `until` or from a request on. `heard`: the worker wants its output while it runs.
    `place` is its folder, if not the worker's.
    """

    words: list[str]
    environment: dict[str, str]
    given: str
    files: dict[str, tuple[str, str]]
    until: float
    notice: float
    grace: float
    limit: float | None = None
    heard: bool = False
    place: str | None = None


class Ending(StrEnum):
    """The cause of a command's end: itself, its time limit, the end of the lease, or its worker."""

    ITSELF = "itself"
    LIMIT = "limit"
    LEASE = "lease"
    TOLD = "told"


class Report(NamedTuple):
    """A command's end: `status` as in a shell, but negative for a signal, and the end of its output.

    `dropped` is the number of output bytes before that; `left` counts processes that survived SIGKILL. `action` is the
    step for a person, added by the worker.
    """

    status: int
    ending: Ending
    seconds: float
    output: str = ""
    errors: str = ""
    dropped: int = 0
    left: int = 0
    action: str | None = None


class Channel:
    """One end of the socket. EOFError: the other end is gone."""

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
        """The next message, or None after so many seconds."""
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
