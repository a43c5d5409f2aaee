"""The environments of the other queues: one each, below .bench, created once and kept until its pins change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
_HOME = _ROOT / ".bench"
_WORKERS = Path(__file__).parent / "workers"


class NotInstalled(Exception):
    """A peer could not be installed here; its line in the table gives the reason."""


class Environment(NamedTuple):
    """`packages` are pinned, so that two runs compare. Node peers bring the Node that they ask for.

    A Go peer is a program in `workers`; its `go.sum` pins what it is built from.
    """

    name: str
    packages: tuple[str, ...] = ()
    node: bool = False
    go: bool = False

    @property
    def folder(self) -> Path:
        return _HOME / self.name

    def command(self, worker: str) -> list[str]:
        """The command that starts a worker in this environment; without packages, in the environment of dibs."""
        if self.go:
            return [str(self.folder / "worker")]
        if self.node:
            return [str(self.folder / "node_modules" / ".bin" / "node"), str(_WORKERS / f"{worker}.js")]
        python = str(self.folder / "bin" / "python") if self.packages else sys.executable
        return [python, "-m", f"bench.postgres.workers.{worker}"]

    def variables(self) -> dict[str, str]:
        unwanted = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "VIRTUAL_ENV"}
        kept = {name: value for name, value in os.environ.items() if name not in unwanted and not name.startswith("PG")}
        if self.node:
            kept |= {"NODE_PATH": str(self.folder / "node_modules"), "NO_LOG_SUCCESS": "1", "NODE_ENV": "production"}
        return kept

    def install(self) -> None:
        stamp = self.folder / "installed"
        wanted = (_WORKERS / self.name / "go.sum").read_text(encoding="utf-8") if self.go else "\n".join(self.packages)
        if not wanted or (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            return
        print(f"  installing {', '.join(self.packages) or self.name} …", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for command in self._go() if self.go else self._npm() if self.node else self._pip():
            try:
                subprocess.run(
                    command,
                    cwd=_WORKERS / self.name if self.go else self.folder,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=600,
                )
            except FileNotFoundError:
                raise NotInstalled(f"there is no {command[0]} here") from None
            except subprocess.SubprocessError as error:
                raise NotInstalled(_reason(error)) from None
        stamp.write_text(wanted, encoding="utf-8")

    def _pip(self) -> list[list[str]]:
        return [
            [sys.executable, "-m", "venv", str(self.folder)],
            [str(self.folder / "bin" / "pip"), "--quiet", "--disable-pip-version-check", "install", *self.packages],
        ]

    def _go(self) -> list[list[str]]:
        return [["go", "build", "-o", str(self.folder / "worker"), "."]]

    def _npm(self) -> list[list[str]]:
        return [["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", ".", *self.packages]]


def _reason(error: subprocess.SubprocessError) -> str:
    """The installer's error in one line, or that it took too long."""
    said = [line.strip() for line in str(getattr(error, "stderr", None) or "").splitlines()]
    complaints = [line for line in said if line.lower().startswith(("error", "npm error")) and " code " not in line]
    plain = [line for line in complaints if "No matching" in line]
    return next(iter(plain + complaints), "the installer did not come to an end")
