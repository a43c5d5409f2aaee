"""An empty vault, in memory where there is such a place."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from .driver import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - no secrets; many vaults that never wait for a disk


@pytest.fixture
def vault() -> Iterator[Vault]:
    with TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as place:
        made = Vault(Path(place).resolve() / "vault")
        yield made
        made.close()
