"""A Notion on this machine, and stores on its databases through real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .desk import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with Place(tmp_path, monkeypatch) as made:
        yield made
