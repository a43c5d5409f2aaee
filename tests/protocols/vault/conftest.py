"""An empty vault."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from support.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def vault() -> Iterator[Vault]:
    with TemporaryDirectory() as place:
        made = Vault(Path(place).resolve() / "vault")
        yield made
        made.close()
