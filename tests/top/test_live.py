"""`dibs top` in a terminal: it follows what happens and the window's size, and leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(sys.executable).with_name("dibs")
PATIENCE = 120.0  # seconds: a limit for waits that end in a moment, unless the machine is busy
ENTER, LEAVE, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Screen:
    def __init__(self, store: str, columns: int, lines: int) -> None:
        self._ours, self._theirs = pty.openpty()
        self._resize(columns, lines)
        self.before = termios.tcgetattr(self._theirs)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            plain.pop(name, None)
        self.process = subprocess.Popen(
            [SCRIPT, "top", "--interval", "0.2s", "--store", store],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=plain | {"TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - this test has no threads
        )
        self.seen = ""

    def _resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self._resize(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def wait_for(self, pattern: str) -> None:
        """In what is drawn from now on."""
        self.seen, until = "", time.monotonic() + PATIENCE
        while not re.search(pattern, re.sub(r"\x1b\[[0-9;]*m", "", self.seen)):
            assert time.monotonic() < until, f"{pattern} did not come: {self.seen[-2000:]!r}"
            self._read()

    def _read(self) -> None:
        ready, _, _ = select.select([self._ours], [], [], 0.2)
        if ready:
            self.seen += os.read(self._ours, 65536).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            self._read()
        status = self.process.wait(PATIENCE)
        while not (LEAVE in self.seen and CURSOR in self.seen) and time.monotonic() < until:
            self._read()  # what it wrote last comes in pieces
        return status

    @property
    def after(self) -> list[object]:
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(open_store(f"{tmp_path}/desk.db?durability=normal", create=True), by=Actor("boss")) as made:
        made.add([Draft("Write the parser", id="parser")])
        yield made


@pytest.fixture
def screen(desk: Desk, tmp_path: Path) -> Iterator[Screen]:
    assert desk.counts().claimable
    made = Screen(f"{tmp_path}/desk.db", 80, 24)
    yield made
    made.close()


def _border(columns: int) -> str:
    return rf"╭─ agents ─{{{columns - 11}}}╮"


def test_it_follows_what_happens_and_the_size_of_the_window_and_q_leaves_all_as_it_was(
    screen: Screen, desk: Desk
) -> None:
    screen.wait_for(_border(80))
    desk.claim("ann")
    screen.wait_for(r"ann +parser Write the parser")
    screen.resize(100, 30)
    screen.wait_for(_border(100))
    screen.type(b"xq")
    screen.type(b"q")
    assert screen.end() == 0
    assert LEAVE in screen.seen
    assert CURSOR in screen.seen
    assert screen.after == screen.before


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_stopped_screen_restores_the_terminal(how: str, screen: Screen) -> None:
    screen.wait_for(_border(80))
    if how == "ctrl-c":
        screen.type(b"\x03")
    else:
        screen.process.terminate()
    assert screen.end() == 0
    assert LEAVE in screen.seen
    assert "Traceback" not in screen.seen
    assert screen.after == screen.before
