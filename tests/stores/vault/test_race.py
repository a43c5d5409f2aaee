"""Many processes and one folder: every file is won exactly once, whatever else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .race import assert_each_was_won_once, race

if TYPE_CHECKING:
    from .folder import Folder


def test_of_many_processes_exactly_one_wins_each_file(folder: Folder) -> None:
    assert_each_was_won_once(folder, race(folder, processes=8, files=400))
