"""ntask as its users meet it: called in this process, or as the installed program."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.protocols.ntask.main import main

if TYPE_CHECKING:
    import pytest

    from support.ntask_stores import Place

SCRIPT = Path(sys.executable).with_name("ntask")
PATIENCE = 240.0  # seconds before a test gives up on a process; below the limit of a test, so that it can say which


class Ran(NamedTuple):
    """What came of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON object on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        return json.loads(lines[0])

    @property
    def task(self) -> dict[str, Any]:
        found: dict[str, Any] = self.data["task"]
        return found

    @property
    def code(self) -> str | None:
        """The error's code; the answer, the exit status and stderr must agree about it."""
        if self.status == 0:
            assert self.data["ok"] is True, self
            return None
        data = self.data
        assert data["ok"] is False, self
        assert list(data)[:2] == ["ok", "error"], self
        assert data["error"]["message"] in self.err, self
        code: str = data["error"]["code"]
        return code

    @property
    def message(self) -> str:
        said: str = self.data["error"]["message"]
        return said


class Held(NamedTuple):
    """A claim that was won: `claim.words` go to every command that needs the lock."""

    id: str
    run: str
    token: str
    task: dict[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.id, "--run-id", self.run, "--lock-token", self.token)


class Ntask:
    """`ntask("get", "TASK-1")` is what a user types."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.said: list[Ran] = []

    def __call__(self, *words: str, stdin: str = "", **env: str) -> Ran:
        with self._monkeypatch.context() as here:
            here.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            for name, value in env.items():
                here.setenv(name, value)
            self._capsys.readouterr()
            status = main(words)
        ran = Ran(status, *self._capsys.readouterr())
        self.said.append(ran)
        return ran

    def ok(self, *words: str, **more: Any) -> dict[str, Any]:
        """The task it answered with; it must have gone well, and silently."""
        ran = self(*words, **more)
        assert (ran.status, ran.err, ran.code) == (0, "", None), ran
        return ran.task

    def create(self, title: str = "T", **options: object) -> str:
        """`create("T", priority=7, class_of_service="EXPEDITE")`; each is older than the next."""
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        task: str = self.ok("create", "--title", title, *words)["task_id"]
        self.place.let(self.place.tick)
        return task

    def claim(self, task: str, *words: str, run: str = "run-1", agent: str = "ann") -> Held:
        told = self.ok("claim", task, "--run-id", run, "--agent-name", agent, *words)
        return Held(task, run, told["lock_token"], told)

    def status(self, task: str) -> str:
        found: str = self.ok("get", task)["status"]
        return found

    def next(self) -> str | None:
        found = self("next").data["task"]
        return None if found is None else str(found["task_id"])

    def script(self, *words: str, **env: str) -> Ran:
        """The installed program, in a process of its own."""
        ran = subprocess.run(
            [SCRIPT, *words], capture_output=True, text=True, check=False, env=self.environment(**env), timeout=PATIENCE
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(**env)
        )

    def environment(self, **env: str) -> dict[str, str]:
        ours = ("NTASK_", "NOTION_", "DIBS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | self.place.environment | env
