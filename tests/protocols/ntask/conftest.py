"""ntask on an empty store of each kind. Whatever a test did, the store must be sound, and no secret told."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from .driver import Ntask
from .places import PLACES, NotionPlace, SqlitePlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .places import Place

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - no secrets; many stores that never wait for a disk
_OURS = ("DIBS_", "NTASK_", "NOTION_", "XDG_")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in, with nothing of the tester's own environment."""
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
    with TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as place:
        monkeypatch.chdir(place)
        monkeypatch.setenv("XDG_CACHE_HOME", f"{place}/cache")
        yield Path(place).resolve()
        monkeypatch.undo()


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = PLACES[request.param](folder, monkeypatch)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def ntask(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ntask:
    return Ntask(place, capsys, monkeypatch)


@pytest.fixture
def local(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ntask]:
    """ntask on SQLite, for what is the same wherever the tasks are."""
    made = SqlitePlace(folder, monkeypatch)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield Ntask(made, capsys, monkeypatch)
    made.close()


@pytest.fixture
def make(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ntask]]:
    """ntask on a database with the columns that a test wants."""
    places: list[NotionPlace] = []

    def made(schema: dict[str, Any] | None = None) -> Ntask:
        place = NotionPlace(folder, monkeypatch, schema)
        places.append(place)
        for name, value in place.environment.items():
            monkeypatch.setenv(name, value)
        return Ntask(place, capsys, monkeypatch)

    yield made
    for place in places:
        place.close()
