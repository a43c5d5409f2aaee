"""Two clones with agents killed at random: each task is worked under one valid claim, and ends in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .fleet import AgentFleet, Fleet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_agents_of_two_clones_killed_at_random_work_each_task_once(tmp_path: Path) -> None:
    """A small fleet; the one of `make torture` is two by four agents over two hundred tasks."""
    fleet = Fleet(tmp_path, agents=2, tasks=24, lease=8.0, seed=4)
    fleet.run(kills=6, every=0.8, patience=120.0, finished=fleet.all_done)
    fleet.assert_sound()
    fleet.assert_worked_once()
    assert fleet.kills > 2


@pytest.mark.slow
def test_agents_of_the_command_line_do_so_too(tmp_path: Path) -> None:
    fleet = AgentFleet(tmp_path, agents=2, tasks=16, lease=10.0, seed=5)
    fleet.run(kills=4, every=1.0, patience=150.0, finished=fleet.all_done)
    fleet.assert_sound()
    fleet.assert_worked_once()
    assert fleet.kills > 1
