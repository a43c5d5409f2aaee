"""Two machines, each with a clone of the vault, and the bare repository between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.sync.git import history, staged
from support.clock import Clock

from .clones import PATIENCE, Machine, machine, new_remote

if TYPE_CHECKING:
    from pathlib import Path

FILES = {f"Needs_Action/{name}.md": f"# Task {name}\n\nThe text of {name}.\n" for name in ("a", "b", "c")}


@pytest.fixture(autouse=True)
def _patient_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a person is as slow as everything else."""
    monkeypatch.setattr(history, "_AT_IT", 3600.0)
    monkeypatch.setattr(staged, "_MADE", PATIENCE)
    monkeypatch.setattr(staged, "_PATIENCE", PATIENCE)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return new_remote(tmp_path, FILES)


@pytest.fixture
def here(tmp_path: Path, remote: Path, clock: Clock) -> Machine:
    return machine(tmp_path, "here", remote, clock=clock)


@pytest.fixture
def there(tmp_path: Path, remote: Path, clock: Clock) -> Machine:
    return machine(tmp_path, "there", remote, clock=clock)
