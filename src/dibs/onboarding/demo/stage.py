"""Where a demo takes place: a folder with a store of its own, and the processes that play in it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Self

from dibs.core.errors import InvalidInput, StoreReadOnly
from dibs.stores.projects import DEFAULT_FILE, FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_GUARD_PATIENCE = 30.0  # seconds until everything has ended
_BOARD_PATIENCE = 20.0
_LOOK = 0.05


class Stage:
    """Processes started here end with it, also if this process is killed. A folder of the user's stays, ours goes."""

    def __init__(self, folder: str | None) -> None:
        self.folder = mkdtemp(prefix="dibs-demo-") if folder is None else _fresh(folder)
        self.url = os.path.join(self.folder, FOLDER, DEFAULT_FILE)
        self.pages, self._logs = (os.path.join(self.folder, name) for name in ("pages", "logs"))
        for each in (os.path.dirname(self.url), self.pages, self._logs):
            os.makedirs(each, exist_ok=True)
        ours = {"DIBS_STORE": self.url, "DIBS_SENDER_SECRET": secrets.token_hex(16)}
        self._environment = _environment() | ours
        self._playing: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = self._start_guard([] if folder is not None else [self.folder])

    def _start_guard(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", "dibs.onboarding.demo.guard", *words],
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the demo, which ends the others in good order
        )

    def start(self, name: str, *words: str) -> int:
        """Start `dibs …` and let it play; what it says goes to a file of its name. The value is its process id."""
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
        """What a `dibs …` prints that ends by itself."""
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
        """As the power cut that nobody expects."""
        self._playing[name].kill()

    def gone(self) -> list[str]:
        """Who has ended since this was asked last."""
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

    def said(self, name: str) -> str:
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
        """End everybody, and take the folder away."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        until = time.monotonic() + _GUARD_PATIENCE
        while self._guard.poll() is None and time.monotonic() < until:
            for playing in self._playing.values():
                playing.poll()  # buries it
            time.sleep(_LOOK)
        for playing in self._playing.values():
            playing.kill()  # only if somebody has killed the guard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fresh(folder: str) -> str:
    """A folder to play in; one that has something in it is somebody's."""
    path = os.path.abspath(folder)
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise InvalidInput(f"{path} is not empty; the demo needs a folder of its own.")
    except OSError as error:
        raise StoreReadOnly(f"Cannot make {path}: {error.strerror}.") from None
    return path


def _environment() -> dict[str, str]:
    """Without the user's own settings of dibs: no store, no agent and no service elsewhere is theirs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
