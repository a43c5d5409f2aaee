"""ntask called in this process or as the installed program, on each kind of store that its sentences are tested on."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dibs.core.task import Holder
from dibs.desk import Desk
from dibs.lab.emulator import ntask_schema
from dibs.protocols.ntask.answers import NTASK
from dibs.protocols.ntask.main import main
from dibs.stores.opening import open_store
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock
from support.notion import Notion, select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

    from dibs.core.events import Event

SCRIPT = Path(sys.executable).with_name("ntask")
PATIENCE = 240.0  # seconds before a test gives up on a process; below the limit of a test, so that it can say which


class Ran(NamedTuple):
    """The result of a command."""

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
        """The installed program, in a separate process."""
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


class Place(Protocol):
    """An empty store, and what a test can do behind ntask's back."""

    environment: dict[str, str]
    tick: float  # how much later something must be to be seen as later

    def let(self, seconds: float) -> None:
        """Let so much time pass, by the store's clock."""
        ...

    def person_takes(self, task: str) -> None:
        """A person takes it from its holder."""
        ...

    def comments(self, task: str) -> list[str]:
        """Its comments."""
        ...

    def close(self) -> None: ...


class SqlitePlace:
    tick = 0.001

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = f"sqlite:///{folder / 'tasks.db'}"
        self.environment = {"NTASK_STORE": self.url}
        self._clock = Clock()
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self._clock)

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def desk(self) -> Desk:
        return Desk(open_store(self.url), policy=NTASK)

    def person_takes(self, task: str) -> None:
        with self.desk() as desk:
            desk.claim("Zoe", refs=[task], holder=Holder.HUMAN, force=True)

    def events(self, task: str) -> list[Event]:
        with self.desk() as desk:
            return desk.events(ref=task)

    def comments(self, task: str) -> list[str]:
        return [event.reason or "" for event in self.events(task) if event.verb == "comment"]

    def close(self) -> None:
        with open_store(self.url, create=True) as store:
            assert store.check(fix=False) == []


class NotionPlace:
    """A database of ntask's own, on an emulator that listens on this machine."""

    tick = 60.0  # Notion rounds the time of a page to minutes

    def __init__(
        self, _folder: Path, monkeypatch: pytest.MonkeyPatch, schema: Mapping[str, object] | None = None
    ) -> None:
        self.notion = Notion(monkeypatch)
        self.database = self.notion.api.database(ntask_schema() if schema is None else schema)
        self.environment = {**self.notion.environment, "NOTION_TASKS_DB_ID": self.database.id}

    def let(self, seconds: float) -> None:
        self.notion.api.advance(seconds)

    def page(self, task: str) -> str:
        """The id of a task's page, found as a person would find it."""
        found = self.notion.client().data_sources.query(data_source_id=self.database.data_source_id)["results"]
        numbered = {f"TASK-{page['properties']['ID']['unique_id']['number']}": page["id"] for page in found}
        return str(numbered[task])

    def properties(self, task: str) -> dict[str, Any]:
        return self.notion.properties(self.page(task))

    def edit(self, task: str, **properties: object) -> None:
        """A person changes a page: `edit("TASK-1", Status=select("READY"))`; Claimed_By means Claimed By."""
        self.notion.api.human.edit(
            self.page(task), {name.replace("_", " "): value for name, value in properties.items()}
        )

    def person_takes(self, task: str) -> None:
        self.edit(task, Claimed_By=select("HUMAN"))

    def comments(self, task: str) -> list[str]:
        return self.notion.comments(self.page(task))

    def close(self) -> None:
        self.notion.close()


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], Place]] = {"notion": NotionPlace, "sqlite": SqlitePlace}
