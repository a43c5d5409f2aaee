"""ntask on an empty store of each kind. After each test, the store must be sound and no secret shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.ntask import PLACES, NotionPlace, Ntask, SqlitePlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.ntask import Place


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
    """ntask on SQLite, for tests that do not depend on the store."""
    made = SqlitePlace(folder, monkeypatch)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield Ntask(made, capsys, monkeypatch)
    made.close()


@pytest.fixture
def make(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ntask]]:
    """ntask on a database with the given columns."""
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
