"""A screen that stays up to date until a key ends it, and leaves the terminal as it was."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import StoreError
from dibs.top.screen import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from dibs.console.stopping import Stop
    from dibs.top.snapshot import Snapshot

_SPARING = 4  # times as long as a look takes, until the next: whoever works is not to be held up by who watches
_ESCAPE = b"\x1b"
_QUIT = frozenset(b"qQ\x03\x04" + _ESCAPE)


def run(look: Callable[[], Snapshot], console: Console, interval: float, stop: Stop) -> None:
    """Show the screen until q, Esc or a stop. If the store gives no answer, the screen says so and asks again."""
    from rich.live import Live

    shot, trouble, spent = look(), None, 0.0
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.requested:
            live.update(frame(shot, console.width, console.height, trouble), refresh=True)
            if _pressed(keys, stop, max(interval, _SPARING * spent)):
                return
            began = time.monotonic()
            try:
                shot, trouble = look(), None
            except StoreError as error:
                trouble = error.message
            spent = time.monotonic() - began


@contextmanager
def _keys() -> Iterator[int]:
    """Keys one by one, without an echo. What is yielded can be read also when the window has changed its size."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    resized = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    waker = signal.set_wakeup_fd(wakes)
    try:
        tty.setcbreak(keyboard)
        yield woken
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGWINCH, resized)
        os.close(woken)
        os.close(wakes)


def _pressed(woken: int, stop: Stop, seconds: float) -> bool:
    """Whether a key asks to leave within this time; a new size of the window, or a stop, ends the wait."""
    keyboard, until = sys.stdin.fileno(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([keyboard, woken, stop], [], [], left)
        if stop in ready:
            return True
        if woken in ready:
            os.read(woken, 4096)
            return False
        if keyboard in ready:
            typed = os.read(keyboard, 64)
            arrow = len(typed) > 1 and typed.startswith(_ESCAPE)  # or another key that sends several
            if not typed or (not arrow and _QUIT & set(typed)):
                return True
    return False
