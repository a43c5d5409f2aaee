"""Fixtures for the tests of all protocols."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = ("DIBS_", "RALPH_", "NTASK_", "MESH_", "KURULTAI_", "NOTION_", "NEO4J_", "XDG_", "NO_COLOR")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, without the tester's environment."""
    for name in [name for name in os.environ if name.startswith(_OURS) and not name.startswith("DIBS_TEST_")]:
        monkeypatch.delenv(name)
    with TemporaryDirectory() as place:
        monkeypatch.chdir(place)
        monkeypatch.setenv("XDG_CACHE_HOME", f"{place}/cache")
        yield Path(place).resolve()
        monkeypatch.undo()
