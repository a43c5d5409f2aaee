"""ralph called in this process or as the installed program, on each kind of store that its sentences are tested on."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dibs.desk import Desk
from dibs.protocols.ralph.main import main
from dibs.protocols.ralph.markdown import parse_kv
from dibs.stores.opening import open_store
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pytest

    from dibs.core.events import Event
    from dibs.core.lifecycle import Verb
    from dibs.core.task import Task
    from dibs.protocols.ralph.markdown import Section

SCRIPT = Path(sys.executable).with_name("ralph")


class Ran(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def tasks(self) -> list[Section]:
        return parse_kv(self.out)

    @property
    def ids(self) -> list[str]:
        return [section.id for section in self.tasks]

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Ralph:
    """`ralph("claim", agent="ann")` is what a user types after `ralph task`, with RALPH_AGENT_ID set."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: str | bytes = "", agent: str | None = None, **env: str) -> Ran:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        with self._monkeypatch.context() as here:
            here.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
            for name, value in ({"RALPH_AGENT_ID": agent} if agent else {}).items() | env.items():
                here.setenv(name, value)
            self._capsys.readouterr()
            status = main(["task", *words])
        return Ran(status, *self._capsys.readouterr())

    def ok(self, *words: str, **more: Any) -> str:
        """The output of a command that must succeed without output on stderr."""
        ran = self(*words, **more)
        assert (ran.status, ran.err) == (0, ""), ran
        return ran.out

    def create(self, *ids: str, **options: object) -> None:
        """`create("a", "b", p=0, deps="c")`"""
        for task in ids:
            given = [f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}" for name in options]
            words = [word for pair in zip(given, map(str, options.values()), strict=True) for word in pair]
            self.ok("create", task, f"Task {task}", *words)
            self.place.let(0.001)  # so that each is older than the next

    def claim(self, *words: str, agent: str = "ann") -> Section:
        ran = self("claim", *words, agent=agent)
        assert (ran.status, ran.err) == (0, ""), ran
        (section,) = ran.tasks
        return section

    def finish(self, task: str, result: str | None = None) -> None:
        """Claim and be done with it."""
        self.claim(task)
        self.ok("done", task, *(() if result is None else ("--result", result)), agent="ann")

    def sync(self, *planned: dict[str, Any] | str, words: tuple[str, ...] = ()) -> Ran:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in planned]
        return self("plan-sync", *words, stdin="\n".join(lines))

    def task(self, task: str) -> Task:
        """The row, as the store has it."""
        with self.desk() as desk:
            return desk.get(task)

    def tasks(self) -> dict[str, str]:
        """Every task's status, in ralph's words."""
        return {section["id"]: section["status"] for section in self("list", "--all", "--json").data}

    def events(self, task: str) -> list[Event]:
        with self.desk() as desk:
            return desk.events(ref=task)

    def desk(self) -> Desk:
        """What other users of the same store have."""
        return Desk(open_store(self.place.url))

    def natively(self, verb: Verb, task: str, **more: Any) -> None:
        with self.desk() as desk:
            desk.move(verb, task, **more)

    def script(self, *words: str, stdin: str = "", **env: str) -> Ran:
        """The installed program, in a separate process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RALPH_", "DIBS_"))}
        there = kept | {"RALPH_DB_URL": self.place.url} | env
        ran = subprocess.run(
            [SCRIPT, "task", *words], input=stdin, capture_output=True, text=True, check=False, env=there, timeout=240
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)


class Place(Protocol):
    """A new store, and direct changes to it for tests."""

    url: str

    def let(self, seconds: float) -> None:
        """Let so much time pass, by the store's clock."""
        ...

    def written(self) -> object:
        """Changes whenever anyone writes a row, even with the same values."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Someone else is in the middle of writing to every task."""
        ...


class SqlitePlace:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = str(folder / "tasks.db")
        self.url = f"sqlite:///{self._path}"
        self._clock = Clock()
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self._clock)
        self._watcher: sqlite3.Connection | None = None

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def written(self) -> object:
        """SQLite counts the commits of other connections."""
        if self._watcher is None:
            self._watcher = sqlite3.connect(self._path)
        return self._watcher.execute("PRAGMA data_version").fetchone()[0]

    @contextmanager
    def locked(self) -> Iterator[None]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE task SET title = title")
            yield
            other.execute("ROLLBACK")

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()


class PostgresPlace:
    """A new schema on the tests' server, which provides the clock for all processes."""

    def __init__(self, _folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
        from support.postgres_schemas import ServerClock, fresh_schema
        from support.postgres_server import shared_url

        self._clock = ServerClock()
        self._schema = fresh_schema(self._clock)
        self._server = shared_url()
        self.url = f"{self._server}{'&' if '?' in self._server else '?'}schema={self._schema}"

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def written(self) -> object:
        """Every version of every row has the number of the transaction that wrote it."""
        import psycopg2

        with closing(psycopg2.connect(self._server)) as other, other, other.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self._schema,))
            found = []
            for (table,) in sorted(cursor.fetchall()):
                cursor.execute(f'SELECT xmin::text, ctid::text FROM "{self._schema}"."{table}" ORDER BY 2')
                found.append((table, cursor.fetchall()))
            return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        import psycopg2

        with closing(psycopg2.connect(self._server)) as other, other.cursor() as cursor:
            cursor.execute(f'SELECT 1 FROM "{self._schema}".task FOR UPDATE')
            yield
            other.rollback()

    def close(self) -> None:
        """The schema is free for the next test once the clock is forgotten."""


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], SqlitePlace | PostgresPlace]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
}
