"""A vault and the real commands on it: every agent is a process, every person a command, a move or a deletion."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from dibs.cli.main import main
from protocols.ran import Ran

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0  # seconds before a test gives up
_OURS = ("DIBS_", "AGENT_", "VAULT_", "SYNC_", "GIT_", "ALLOWED_", "SENSITIVE_", "WATCHER_", "HEALTH_")


class Running:
    """An agent at work."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def says(self, text: str, times: int = 1) -> None:
        """Wait until the log has it."""
        until(lambda: self.said.count(text) >= times, lambda: f"{text!r} is not in\n{self.said}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


class Vault:
    """A vault in a new folder, without the tester's environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.beside = root.parent
        self._agents: list[Running] = []
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.environ |= {"VAULT_PATH": str(root), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        assert self("init", str(root)).status == 0

    def __call__(self, *words: str, **env: str) -> Ran:
        return self.process(*words, **env) if words[:1] == ("agent",) else self._here(*words, **env)

    def _here(self, *words: str, **env: str) -> Ran:
        """A person's command, in this process: most of what another would do is to get going."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, self.environ | env, clear=True), redirect_stdout(out), redirect_stderr(err):
            try:
                status = main(["vault", *words])
            except SystemExit as leaving:  # how --help ends
                status = int(leaving.code or 0)
        return Ran(status, out.getvalue(), err.getvalue())

    def process(self, *words: str, **env: str) -> Ran:
        ran = subprocess.run(
            ["dibs", "vault", *words], env=self.environ | env, capture_output=True, text=True, timeout=240, check=False
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def agent(self, *words: str, name: str = "local", **env: str) -> Running:
        """Start an agent, and do not wait for it."""
        process = subprocess.Popen(
            ["dibs", "vault", "agent", *words],
            env=self.environ | {"AGENT_NAME": name} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._agents.append(Running(process, self.root / "Logs" / f"agent-{name}.log"))
        return self._agents[-1]

    def at_work(self, *words: str, name: str = "local", **env: str) -> Running:
        """Start an agent, and wait until it looks for work."""
        one = self.agent(*words, name=name, **env)
        one.says("is at work in")
        return one

    def write(self, place: str, text: str = "# A task\n\nDo it.\n") -> Path:
        """As a person would: a file with this text, at once."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".tmp")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(path)
        return path

    def task(self, name: str, text: str = "Do it.", **front: str) -> Path:
        lines = "".join(f"{key}: {value}\n" for key, value in front.items())
        return self.write(f"Needs_Action/{name}.md", f"---\n{lines}---\n\n# {name}\n\n{text}\n")

    def places(self, name: str) -> list[str]:
        """The paths of files of this name."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob(f"{name}.md"))

    def read(self, place: str) -> str:
        return (self.root / place).read_text(encoding="utf-8")

    def front(self, place: str) -> dict[str, str]:
        """The plain lines of a file's front matter."""
        block = self.read(place).split("---\n")[1]
        return dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)

    def there(self, place: str) -> None:
        """Wait until there is a file."""
        until((self.root / place).exists, lambda: f"{place} is not there, but {sorted(self.tree())}")

    def tree(self) -> list[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*.md")]

    def close(self) -> None:
        for one in self._agents:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
            if one.process.stdout is not None:
                one.process.stdout.close()


def until(met: Callable[[], bool], why: Callable[[], str], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not met():
        assert time.monotonic() < end, why()
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process still does anything; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
