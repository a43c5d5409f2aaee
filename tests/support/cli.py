"""dibs as its users meet it: called in this process, as the installed program, and in a terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import sqlite3
import struct
import subprocess
import sys
import termios
import traceback
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.cli.main import main
from dibs.core.events import Event, Outcome
from dibs.core.task import Link, Task
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from dibs.stores.reports import Record

SCRIPT = Path(sys.executable).with_name("dibs")
ESCAPE = "\x1b"
PATIENCE = 120.0  # seconds; a busy machine may stall a program for long, and a passing test never waits for all of it


class Clock:
    """Stops until a test advances it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **span: float) -> None:
        """`advance(minutes=5)`"""
        self.time += timedelta(**span)


class Told(NamedTuple):
    """An error in the format of --json."""

    code: str
    message: str
    holder: str | None
    retry_after_ms: int | None


class Ran(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The data of a command with --json, which must be the only output on stdout."""
        document = self._document()
        assert list(document) == ["schema_version", "data"]
        return document["data"]

    @property
    def error(self) -> Told:
        document = self._document()
        assert list(document) == ["schema_version", "error"]
        return Told(**document["error"])

    def _document(self) -> dict[str, Any]:
        assert self.out.count("\n") == 1, f"not one line of JSON: {self!r}"
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == 1
        return document


class Snapshot(NamedTuple):
    """Everything a store holds."""

    tasks: list[Task]
    links: list[Record]
    events: list[Event]

    def without_refusals(self) -> Snapshot:
        """A refusal may leave a record of itself, and nothing else."""
        kept = [event._replace(seq=0) for event in self.events if event.outcome is Outcome.OK]
        return self._replace(events=kept)


def snapshot(store: Path) -> Snapshot:
    if not store.exists():
        return Snapshot([], [], [])
    with SqliteStore(str(store)) as opened:
        records = list(opened.dump())
    return Snapshot(
        [record.item for record in records if isinstance(record.item, Task)],
        [record for record in records if isinstance(record.item, Link)],
        [record.item for record in records if isinstance(record.item, Event)],
    )


class Cli:
    """`cli("claim", "--json")` is what a user types, in this process and at the time of `clock`.

    Its store is checked at the end of every test, unless the test is marked as damaging it.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.damaged = False
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    @property
    def store(self) -> Path:
        return self.folder / ".dibs" / "dibs.db"

    def __call__(self, *words: str, stdin: str | bytes = b"") -> Ran:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        self._capsys.readouterr()
        try:
            status = main(list(words))
        except SystemExit as leaving:  # how argparse ends --help
            status = int(leaving.code or 0)
        except Exception:  # noqa: BLE001 - whatever it is, a user would see this
            self._capsys.readouterr()
            seen = traceback.format_exc().encode("ascii", "backslashreplace").decode()
            raise AssertionError(f"dibs {words!a} ended in a traceback:\n{seen}") from None
        out, err = self._capsys.readouterr()
        assert _encodable(out + err), f"no terminal can show this: {out!a} {err!a}"
        return Ran(status, out, err)

    def ok(self, *words: str, stdin: str | bytes = b"") -> str:
        """Run a command that must succeed, and return its output."""
        ran = self(*words, stdin=stdin)
        assert ran.status == 0, ran
        return ran.out

    def json(self, *words: str, stdin: str | bytes = b"") -> Any:
        """Run what must work with --json; the value is its data."""
        ran = self(*words, "--json", stdin=stdin)
        assert ran.status == 0, ran
        return ran.data

    def refuses(self, status: int, code: str, *words: str, stdin: str | bytes = b"") -> Told:
        """Run what must be refused, in text and in JSON: one clear message, and nothing changed."""
        before = self.snapshot()
        spoken, written = self(*words, stdin=stdin), self(*words, "--json", stdin=stdin)
        assert (spoken.status, written.status) == (status, status), (spoken, written)
        assert spoken.out == ""
        assert written.err == ""
        assert spoken.err.startswith("dibs: ")
        assert spoken.err.count("\n") == 1, f"a message is one line: {spoken.err!r}"
        assert ESCAPE not in spoken.err
        assert "Traceback" not in spoken.err
        told = written.error
        assert told.code == code, told
        after = self.snapshot()
        if status in {2, 3, 7}:
            assert after == before, (before, after)
        else:
            assert after.without_refusals() == before.without_refusals(), (before, after)
        return told

    def set(self, variable: str, value: str) -> None:
        self._monkeypatch.setenv(variable, value)

    def add(self, task: str, *options: str) -> str:
        """A task whose id and title are the same."""
        return self.ok("add", task, "--id", task, *options).strip()

    def claim(self, *words: str) -> str:
        """Claim, and return the token."""
        return str(self.json("claim", *words)["token"])

    def task(self, task: str, *options: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.json("show", task, *options)
        return shown

    def status_of(self, task: str) -> str:
        return str(self.task(task)["status"])

    def ids(self, *words: str) -> list[str]:
        return [task["id"] for task in self.json(*words)]

    def file(self, name: str, content: str | bytes) -> str:
        """A file in the project, named as a user would."""
        (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def sql(self, *statements: str) -> None:
        """Go behind the program's back."""
        with closing(sqlite3.connect(self.store, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def snapshot(self) -> Snapshot:
        return snapshot(self.store)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


class Script:
    """The installed program, in a separate process with a clean environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{SCRIPT.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": str(folder),
            "USER": "ann",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        for name in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"} & os.environ.keys():
            self.environment[name] = os.environ[name]

    def __call__(self, *words: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        return self.run([str(SCRIPT), *words], stdin=stdin, env=env)

    def sh(self, script: str) -> Ran:
        """A script for the plain shell."""
        return self.run(["sh", "-c", script])

    def bash(self, script: str) -> Ran:
        return self.run(["bash", "-c", script])

    def run(self, command: list[str | bytes], *, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            check=False,
            timeout=PATIENCE,
        )
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(SCRIPT), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.environment,
        )

    def terminal(self, *words: str, columns: int = 80, env: Mapping[str, str] | None = None) -> Ran:
        """Run it in a terminal of so many columns; stdout and stderr both go to the screen."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        with subprocess.Popen(
            [str(SCRIPT), *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            start_new_session=True,
        ) as process:
            os.close(slave)
            screen = read_all(master)
            os.close(master)
        return Ran(process.returncode, screen.decode(errors="replace").replace("\r\n", "\n"), "")


def read_all(master: int) -> bytes:
    """A terminal whose last writer has left answers with an I/O error instead of an end."""
    chunks = []
    try:
        while chunk := os.read(master, 65536):
            chunks.append(chunk)
    except OSError:
        pass
    return b"".join(chunks)
