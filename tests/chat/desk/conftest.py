"""Stores with an adjustable clock, a reader, and players for concurrency tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interleave.conftest import players, pool
from interleave.conftest import sqlite_stage as stage
from support.chat import KINDS, Scene, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["players", "pool", "stage"]


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """On each store that supports chat."""
    with opened(request.param, str(tmp_path)) as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Scene]:
    """On the embedded store only: for behaviour that is the same on all stores."""
    with opened("sqlite", str(tmp_path)) as made:
        yield made
