"""The mesh on an empty store of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.mesh import PLACES, Mesh, NotionPlace, SqlitePlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.mesh import Place


def _used(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    yield place
    place.close()


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from _used(PLACES[request.param](folder, monkeypatch), monkeypatch)


@pytest.fixture
def mesh(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mesh:
    return Mesh(place, capsys, monkeypatch)


@pytest.fixture
def local(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    """On SQLite, for tests that do not depend on the store."""
    for place in _used(SqlitePlace(folder, monkeypatch), monkeypatch):
        yield Mesh(place, capsys, monkeypatch)


@pytest.fixture
def notion(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    for place in _used(NotionPlace(folder, monkeypatch), monkeypatch):
        yield Mesh(place, capsys, monkeypatch)
