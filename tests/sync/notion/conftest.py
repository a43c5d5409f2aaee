"""Scenes on every kind of store that can be synced, and on the quickest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sync.notion.scene import Scene, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["neo4j", "postgres", "sqlite"])
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with opened(request.param, str(tmp_path)) as made:
        yield made


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened("sqlite", str(tmp_path)) as made:
        yield made
