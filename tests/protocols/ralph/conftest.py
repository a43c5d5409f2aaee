"""ralph on an empty store of each kind. After each test, the store must be sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import NoStore
from dibs.stores.opening import open_store
from support.ralph import PLACES, Ralph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ralph import Place


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
