"""ralph on an empty store of each kind. Whatever a test did, the store must be sound afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import NoStore
from dibs.stores.opening import open_store

from .driver import Ralph
from .places import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .places import Place

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - no secrets; hundreds of stores that never wait for a disk


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in, with nothing of the tester's own environment."""
    for name in [name for name in os.environ if name.startswith(("DIBS_", "RALPH_"))] + ["NO_COLOR"]:
        if name != "DIBS_TEST_POSTGRES":
            monkeypatch.delenv(name, raising=False)
    with TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as place:
        monkeypatch.chdir(place)
        yield Path(place).resolve()
        monkeypatch.undo()


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = PLACES[request.param](folder, monkeypatch)
    monkeypatch.setenv("RALPH_DB_URL", made.url)
    yield made
    try:
        with open_store(made.url) as store:
            assert store.check(fix=False) == []
    except NoStore:
        pass
    made.close()


@pytest.fixture
def ralph(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    return Ralph(place, capsys, monkeypatch)
