"""A vault in an empty folder, with a stopped clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.clock import Clock

from .folder import Folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path, clock: Clock) -> Folder:
    return Folder(tmp_path / "vault", clock)
