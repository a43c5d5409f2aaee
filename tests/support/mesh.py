"""`dibs mesh` as its agents meet it, on an empty store of each kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dibs.cli.main import main
from dibs.desk import Desk
from dibs.lab.emulator import mesh_communication_log_schema, mesh_schema, mesh_task_log_schema
from dibs.protocols.mesh.policy import MESH
from dibs.stores.opening import open_store
from dibs.stores.sqlite.store import SqliteStore
from protocols.ran import Ran
from support.clock import Clock
from support.notion import Notion

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from dibs.core.task import Task

SCRIPT = Path(sys.executable).with_name("dibs")


class Place(Protocol):
    environment: dict[str, str]

    def let(self, seconds: float) -> None: ...

    def task(self, task: str) -> Task: ...

    def close(self) -> None: ...


class SqlitePlace:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = f"sqlite:///{folder / 'mesh.db'}"
        self.environment = {"MESH_STORE": self.url}
        self._clock = Clock()
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self._clock)
        open_store(self.url, create=True).close()

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def desk(self) -> Desk:
        return Desk(open_store(self.url), policy=MESH)

    def task(self, task: str) -> Task:
        with self.desk() as desk:
            return desk.get(task)

    def close(self) -> None:
        with open_store(self.url) as store:
            assert store.check(fix=False) == []


class NotionPlace:
    """The three databases of the mesh."""

    def __init__(self, _folder: Path, monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any] | None = None) -> None:
        self.notion = Notion(monkeypatch)
        more: dict[str, Any] = {"priority": {"number": {}}, "blocked_reason": {"rich_text": {}}}
        columns = {**mesh_schema(), **more} if schema is None else schema
        self.tasks = self.notion.api.database(columns)
        self.scores = self.notion.api.database(mesh_task_log_schema(), "Agent Task Log")
        self.messages = self.notion.api.database(mesh_communication_log_schema(), "Mesh Communication Log")
        self.environment = {
            **self.notion.environment,
            "MESH_TASKS_DB_ID": self.tasks.id,
            "MESH_TASK_LOG_DB_ID": self.scores.id,
            "MESH_COMM_LOG_DB_ID": self.messages.id,
        }

    def let(self, seconds: float) -> None:
        self.notion.api.advance(seconds)

    def task(self, task: str) -> Task:
        with open_store(f"notion://{self.tasks.id}?layout=mesh") as store:
            return store.get("default", task)

    def properties(self, task: str) -> dict[str, Any]:
        return self.notion.properties(task)

    def close(self) -> None:
        self.notion.close()


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], Place]] = {"notion": NotionPlace, "sqlite": SqlitePlace}


class Held(NamedTuple):
    id: str
    agent: str
    nonce: str

    @property
    def words(self) -> tuple[str, ...]:
        return (self.id, "--agent", self.agent, "--nonce", self.nonce)


class Mesh:
    """`mesh("claim", task, agent="Oracle")` is what an agent types, with MESH_AGENT set; as JSON unless text=True."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, agent: str | None = None, text: bool = False, **env: str) -> Ran:
        with self._monkeypatch.context() as here:
            for name, value in ({"MESH_AGENT": agent} if agent else {}).items() | env.items():
                here.setenv(name, value)
            self._capsys.readouterr()
            status = main(["mesh", *words, *(() if text else ("--json",))])
        return Ran(status, *self._capsys.readouterr())

    def ok(self, *words: str, **more: Any) -> Any:
        """The answer of a command that must succeed without output on stderr."""
        ran = self(*words, **more)
        assert (ran.status, ran.err) == (0, ""), ran
        return ran.data

    def add(self, title: str = "T", **options: object) -> str:
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        task: str = self.ok("add", title, *words)["task"]["id"]
        self.place.let(60)
        return task

    def claim(self, task: str, agent: str = "Sandman") -> Held:
        told = self.ok("claim", task, agent=agent)
        assert told["outcome"] == "CLAIMED"
        return Held(task, agent, told["nonce"])

    def status(self, task: str) -> str:
        return MESH.say(self.place.task(task).status)

    def log(self) -> list[dict[str, Any]]:
        """The Mesh Communication Log, the newest first."""
        found: list[dict[str, Any]] = self.ok("log", "-n", "1000")["entries"]
        return found

    def script(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """The installed program, in a separate process."""
        ours = ("MESH_", "NOTION_", "DIBS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return subprocess.Popen(
            [SCRIPT, "mesh", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | self.place.environment | env,
        )
