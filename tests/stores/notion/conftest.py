"""An emulated Notion, and stores on it over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.stores.opening import open_store

from .desk import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.stores.notion.store import NotionStore


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with Place(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def opened(place: Place) -> Callable[[], NotionStore]:
    """Opens the same database and arbiter, with Notion's clock."""
    open_store(place.arbiter, create=True).close()
    place.follow_clock()
    place.make()
    return lambda: place.join(arbiter=place.arbiter)
