"""The log of one agent: a line for everything it does, in a file of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.console.streams import printable
from dibs.core.errors import StoreUnavailable
from dibs.core.times import time_text
from dibs.stores.vault.names import agent_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


def log_path(root: str, agent: str) -> str:
    return os.path.join(root, "Logs", f"agent-{agent_folder(agent)}.log")


class Journal:
    """Opened anew for every line, so that the file may be rotated away at any time."""

    def __init__(self, path: str, clock: Callable[[], datetime], echo: Callable[[str], None]) -> None:
        self._path = path = os.path.abspath(path)
        self._clock = clock
        self._echo = echo
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._write(b"")
        except OSError as error:
            raise StoreUnavailable(f"The log {path} cannot be written: {error.strerror}.") from None
        self._complained = False

    def say(self, text: str) -> None:
        """For the log and for whoever watches."""
        self._echo(text)
        self.note(text)

    def note(self, text: str) -> None:
        """For the log only; a log that cannot be written is no reason to stop working, but one to speak of, once."""
        stamp = time_text(self._clock().replace(microsecond=0))
        lines = "".join(f"{stamp} {printable(line)}\n" for line in text.splitlines() or [""])
        try:
            self._write(lines.encode(errors="backslashreplace"))
            self._complained = False
        except OSError as error:
            if not self._complained:
                self._complained = True
                self._echo(f"the log {self._path} cannot be written: {error.strerror}")

    def _write(self, data: bytes) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
