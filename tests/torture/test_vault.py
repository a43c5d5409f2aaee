"""Eight processes and many files: each is won exactly once. With `make torture` there are ten thousand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stores.vault.folder import Folder
from stores.vault.race import assert_each_was_won_once, race
from support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torture")]


def test_of_eight_processes_exactly_one_wins_each_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault", Clock())
    files = 10_000 if os.environ.get("DIBS_TORTURE") else 200
    assert_each_was_won_once(folder, race(folder, processes=8, files=files))
