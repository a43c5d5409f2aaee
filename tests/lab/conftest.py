"""A store for the lab, and workers that can import the tests' modules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.stores.opening import file_url, open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _import_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.path.join(os.path.dirname(__file__), os.pardir))


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    url = file_url(str(tmp_path / "dibs.db"))
    open_store(url, create=True).close()
    return f"{url}?durability=normal"


@pytest.fixture
def vault(tmp_path: Path) -> str:
    url = f"vault:///{tmp_path / 'vault'}"
    open_store(url, create=True).close()
    return f"{url}?durability=normal"
