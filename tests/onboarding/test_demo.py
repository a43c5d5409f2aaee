"""The demo: a fleet that really works, on a story that makes sense, and nothing of it stays behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from dibs.onboarding.demo import show
from dibs.onboarding.demo.director import story
from dibs.onboarding.demo.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPT = Path(sys.executable).with_name("dibs")
PATIENCE = 400.0  # seconds: a limit for waits that end soon, unless the machine is busy
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _take_terminal() -> None:
    """So that Ctrl-C reaches it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`dibs demo` in a terminal of its own, where nobody has put `dibs` on the path."""

    def __init__(self, *words: str) -> None:
        ours, theirs = pty.openpty()
        plain = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        self.process = subprocess.Popen(
            [SCRIPT, "demo", "--no-browser", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=plain | {"TERM": "xterm", "COLUMNS": "100", "PATH": "/usr/bin:/bin"},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - this test has no threads
        )
        os.close(theirs)
        self._ours, self._seen = ours, b""

    @property
    def seen(self) -> str:
        return _COLOUR.sub("", self._seen.decode(errors="replace")).replace("\r\n", "\n")

    def wait_for(self, *signs: str) -> None:
        until = time.monotonic() + PATIENCE
        while missing := [sign for sign in signs if sign not in self.seen]:
            assert time.monotonic() < until, f"{missing} did not come; this did:\n{self.seen}"
            self._read(until)

    def _read(self, until: float) -> None:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
        if ready:
            try:
                self._seen += os.read(self._ours, 65536)
            except OSError:  # nobody has the other side any more
                raise AssertionError(f"it ended:\n{self.seen}") from None

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """While it goes on: what it prints is read, or it would stand still."""
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, f"{self.left()}\n{self.seen}"
            with suppress(AssertionError):
                self._read(time.monotonic() + 0.1)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Its exit status, and all that it had to say."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            try:
                self._read(time.monotonic() + 0.1)
            except AssertionError:
                break
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    @property
    def store(self) -> str:
        found = re.search(r"export DIBS_STORE=(\S+)", self.seen)
        assert found is not None
        return found[1]

    def left(self) -> list[str]:
        """The processes that know of its store."""
        mine = f"DIBS_STORE={self.store}".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mine in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def demo() -> Iterator[Terminal]:
    terminal = Terminal("--speed", "20")
    yield terminal
    terminal.close()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_demo_runs_and_ctrl_c_stops_everything(demo: Terminal) -> None:
    demo.wait_for("the board", "Ctrl-C ends the demo")
    address = re.search(r"http://127\.0\.0\.1:\d+", demo.seen)
    assert address is not None
    assert f"$ export PATH={quote(str(SCRIPT.parent))}:$PATH\n" in demo.seen
    with urllib.request.urlopen(f"{address[0]}/health", timeout=PATIENCE) as answer:  # noqa: S310 - loopback
        assert answer.status == 200
    demo.wait_for("finishes", "is stuck", "dibs unblock server", "is killed", "dibs approve brief", "hands over")
    demo.wait_for("2 read, 3 tasks, 1 link", "lease had expired; attempt 2", "fails", "(attempt 2)", "mira    unblocks")
    demo.wait_until(lambda: len(demo.left()) >= 7)  # six workers, of which one may just be replaced, and the board
    folder = Path(demo.store).parents[1]
    assert any((folder / "pages").iterdir()), "what the agents did is there to look at"
    demo.type(b"\x03")
    assert demo.end() == 0
    assert "none of them twice" in demo.seen
    assert "Traceback" not in demo.seen
    assert demo.left() == []
    assert not folder.exists()


def test_killed_demo_leaves_no_process_or_folder(demo: Terminal) -> None:
    demo.wait_for("takes")
    folder = Path(demo.store).parents[1]
    assert demo.left()
    demo.process.send_signal(signal.SIGKILL)
    demo.wait_until(lambda: not demo.left() and not folder.exists())


def test_process_started_late_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(None)
    monkeypatch.setattr(stage, "_tell_guard", lambda *_told: None)  # Ctrl-C came between starting it and telling
    stage.start("late", "notion-emulator")
    late = stage._playing.pop("late")
    stage.close()
    assert late.wait(PATIENCE) in {0, -signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGKILL}
    assert not Path(stage.folder).exists()


@pytest.mark.parametrize(
    ("shown", "desktop"),
    [({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "wayland-0"}, True), ({}, False)],
    ids=["X11", "Wayland", "neither"],
)
def test_browser_opens_only_on_a_local_desktop(
    monkeypatch: pytest.MonkeyPatch, shown: dict[str, str], desktop: bool
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.setenv(name, shown.get(name, ""))
    assert show._on_a_desktop() is desktop
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22")
    assert not show._on_a_desktop()


def test_demo_plan_fits_its_agents() -> None:
    told = story()
    roles = {part.role for part in told.cast}
    drafts = [task.draft for task in told.plan.tasks]
    assert 25 <= len(drafts) <= 40
    assert all(set(draft.requires) <= roles for draft in drafts)
    assert sum(bool(task.blocked_by) for task in told.plan.tasks) > len(drafts) / 2
    last = [task.id for task in told.plan.tasks if all(task.id not in other.blocked_by for other in told.plan.tasks)]
    assert "release" in last


def test_when_it_is_over_there_is_always_more() -> None:
    told = story()
    ids = [task.id for number in range(3 * len(told.harbours)) for task in told.sequel(number)[1].tasks]
    assert len(set(ids)) == len(ids) == 3 * len(told.harbours) * len(told.template)
