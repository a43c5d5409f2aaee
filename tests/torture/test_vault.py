"""Eight processes and ten thousand files: each is won exactly once. `make torture` (DIBS_TORTURE=1) plays it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from clock import Clock
from stores.vault.folder import Folder
from stores.vault.race import assert_each_was_won_once, race

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torture")]


@pytest.mark.skipif(not os.environ.get("DIBS_TORTURE"), reason="the small race is among the store's own tests")
def test_of_eight_processes_exactly_one_wins_each_of_ten_thousand_files(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault", Clock())
    assert_each_was_won_once(folder, race(folder, processes=8, files=10_000))
