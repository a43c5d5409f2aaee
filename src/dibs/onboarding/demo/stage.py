"""The place of a demo: a folder with a store, and its processes."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, StoreReadOnly
from dibs.stores.opening import DEFAULT_FILE, FOLDER
from dibs.stores.port import Closing

if TYPE_CHECKING:
    from collections.abc import Sequence

_GUARD_PATIENCE = 30.0  # seconds until everything has ended
_BOARD_PATIENCE = 20.0
_LOOK = 0.05


class Stage(Closing):
    """Processes started here end with it, also if this process is killed. A folder of the user's stays, ours goes."""

    def __init__(self, folder: str | None) -> None:
        self.folder = mkdtemp(prefix="dibs-demo-") if folder is None else _fresh(folder)
        self.url = os.path.join(self.folder, FOLDER, DEFAULT_FILE)
        self.pages, self._logs = (os.path.join(self.folder, name) for name in ("pages", "logs"))
        for each in (os.path.dirname(self.url), self.pages, self._logs):
            os.makedirs(each, exist_ok=True)
        ours = {"DIBS_STORE": self.url, "DIBS_SENDER_SECRET": secrets.token_hex(16)}
        self._environment = _environment() | ours
        self.has_git = _repository(self.folder, self._environment)
        self._playing: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = self._start_guard([] if folder is not None else [self.folder])

    def _start_guard(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", "dibs.onboarding.demo.guard", *words],
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the demo, which ends the others in good order
        )

    def start(self, name: str, *words: str) -> int:
        """Start `dibs …` in the background with its output in a file, and return its process id."""
        with open(self._log(name), "ab") as log:
            playing = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", "dibs", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.folder,
                process_group=self._guard.pid,
            )
        self._playing[name] = playing
        self._tell_guard("+", playing.pid)
        return playing.pid

    def run(self, *words: str) -> str:
        """Run `dibs …` to its end, and return its output."""
        ran = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", "dibs", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self.folder,
            process_group=self._guard.pid,
            check=False,
        )
        return ran.stdout.decode(errors="replace").strip()

    def kill(self, name: str) -> None:
        """Kill a process, like a power cut."""
        self._playing[name].kill()

    def gone(self) -> list[str]:
        """The processes that ended since the last call."""
        ended = [name for name, playing in self._playing.items() if playing.poll() is not None]
        for name in ended:
            self._tell_guard("-", self._playing.pop(name).pid)
        return ended

    def board(self, port: int) -> str | None:
        """Start the server; the value is its address, or None if there is none."""
        self.start("board", "serve", "--port", str(port), "--json")
        until = time.monotonic() + _BOARD_PATIENCE
        while time.monotonic() < until and "board" not in self.gone():
            with open(self._log("board"), encoding="utf-8", errors="replace") as log, suppress(ValueError, KeyError):
                return str(json.loads(log.readline())["data"]["url"])
            time.sleep(_LOOK)
        return None

    def last_line(self, name: str) -> str:
        """The last line that one of them has written."""
        with open(self._log(name), encoding="utf-8", errors="replace") as log:
            return (log.read().splitlines() or [""])[-1]

    def _log(self, name: str) -> str:
        return os.path.join(self._logs, f"{name}.log")

    def _tell_guard(self, sign: str, pid: int) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.write(f"{sign}{pid}\n".encode())
            self._guard.stdin.flush()

    def close(self) -> None:
        """End all processes and delete the folder."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        until = time.monotonic() + _GUARD_PATIENCE
        while self._guard.poll() is None and time.monotonic() < until:
            for playing in self._playing.values():
                playing.poll()  # buries it
            time.sleep(_LOOK)
        for playing in self._playing.values():
            playing.kill()  # only if the guard was killed


def _fresh(folder: str) -> str:
    """An empty folder for the demo; raises an error if it holds anything."""
    path = os.path.abspath(folder)
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise InvalidInput(f"{path} is not empty; the demo needs an empty folder.")
    except OSError as error:
        raise StoreReadOnly(f"Cannot make {path}: {error.strerror}.") from None
    return path


_FIRST_PAGE = "# Low Water\n\nTells skippers when there is enough water under the keel.\n"
_IGNORED = ".dibs/\nlogs/\npages/\n__pycache__/\n"


def _repository(folder: str, environment: dict[str, str]) -> bool:
    """Make the folder a git repository with a first commit. False where git is missing; then agents work without it."""
    for name, text in (("README.md", _FIRST_PAGE), (".gitignore", _IGNORED)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    orders = (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "dibs demo"),
        ("config", "user.email", "demo@low-water.example"),
        ("add", "--all"),
        ("commit", "--quiet", "--message=Low Water, before its first line"),
    )
    try:
        for words in orders:
            subprocess.run(  # noqa: S603 - in the demo's own folder
                ["git", *words],  # noqa: S607 - the user's git
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _environment() -> dict[str, str]:
    """Without the user's own settings of dibs: no store, no agent and no service elsewhere is theirs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
