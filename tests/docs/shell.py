"""A real shell in a temporary project folder, which runs one command at a time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_END = "=====answered====="
PATIENCE = 900.0  # seconds for all that one project of a page runs, on a machine that is busy with other tests
_STOPPING = Path(__file__).with_name("stopping.py")
_TIMEOUT = f'timeout() {{ {shlex.quote(sys.executable)} {shlex.quote(str(_STOPPING))} "$_lines" "$@"; }}\n'


class Shell:
    """Variables, functions and the working directory live on from command to command."""

    def __init__(self, folder: Path) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # so that its background processes end with it
        )
        if self._bash.stdin is None:
            raise AssertionError
        self._bash.stdin.write(f"_status=0\n{_TIMEOUT}")
        self._guard = threading.Timer(PATIENCE, self._end)
        self._guard.start()

    def run(self, command: str, lines: int = 0) -> tuple[list[str], int]:
        """The output and exit status of a command. The next command sees the same `$?`.

        A program under `timeout` is stopped only after this many lines of output.
        """
        if self._bash.stdin is None or self._bash.stdout is None:
            raise AssertionError
        self._bash.stdin.write(
            f"_lines={lines}; (exit $_status)\n{{ {command}\n}} </dev/null\n"
            f"_status=$?; printf '\\n%s %s\\n' {_END} $_status; (exit $_status)\n"
        )
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_END):
                return _trimmed(printed), int(line.removeprefix(_END))
            printed.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended at '{command}' after: {printed}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.cancel()
        self._end()
        self._bash.communicate()

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _environment(folder: Path) -> dict[str, str]:
    """As on a reader's machine: a login name, this dibs first on the path, and no settings of ours."""
    ours = ("DIBS_", "RALPH_", "NTASK_", "NOTION_", "MESH_", "KURULTAI_", "NEO4J_", "PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    return kept | {"PATH": path, "USER": "ann", "HOME": str(folder), "TERM": "dumb", "PYTHONUTF8": "1", "TZ": "UTC"}
