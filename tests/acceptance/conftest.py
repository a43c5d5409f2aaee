"""A new project for every test. After each test, its store must be sound."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from dibs.lab.torture import experiments
from dibs.onboarding import prime
from dibs.stores.sqlite.store import SqliteStore
from support.cli import PATIENCE, Cli, Clock, Script

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of every store opened in this process."""
    stands = Clock()
    defaults = SqliteStore.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "clock", stands)
    return stands


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer limits: on a busy machine SQLite may be slower than `prime` waits, and a task may stay ready for long."""
    monkeypatch.setattr(prime.within, "__defaults__", (PATIENCE,))
    monkeypatch.setattr(experiments, "Experiment", partial(experiments.Experiment, patience=PATIENCE))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, without the tester's environment."""
    for name in [name for name in os.environ if name.startswith("DIBS_")] + ["NO_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "ann")
    with TemporaryDirectory() as place:
        monkeypatch.chdir(place)
        yield Path(place).resolve()
        monkeypatch.undo()


@pytest.fixture
def bare(
    folder: Path, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """The command line without a project."""
    cli = Cli(folder, clock, capsys, monkeypatch)
    yield cli
    if cli.store.exists() and not cli.damaged:
        with SqliteStore(str(cli.store)) as store:
            assert store.check(fix=False) == []


@pytest.fixture
def cli(bare: Cli) -> Cli:
    """The command line in an empty project."""
    bare.ok("init")
    return bare


@pytest.fixture
def script(folder: Path) -> Script:
    """The installed program in an empty project."""
    (folder / ".dibs").mkdir()
    SqliteStore(str(folder / ".dibs" / "dibs.db"), create=True).close()
    return Script(folder)
