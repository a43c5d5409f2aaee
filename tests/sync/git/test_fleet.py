"""Two clones with agents killed at random: each task is worked under one valid claim, and ends in one place.

A small fleet here; `make torture` (DIBS_TORTURE=1) plays the full size: two by four agents over two hundred tasks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .fleet import AgentFleet, Fleet

if TYPE_CHECKING:
    from pathlib import Path


class Size(NamedTuple):
    agents: int  # in each clone
    tasks: int
    lease: float
    kills: int
    every: float  # seconds between two of them
    patience: float


HOUR = 3600.0  # of the fleet's clock, which the fleet moves
FULL = Size(agents=4, tasks=200, lease=HOUR, kills=60, every=1.5, patience=1500.0)
SMALL = {
    Fleet: Size(agents=2, tasks=24, lease=HOUR, kills=6, every=0.8, patience=900.0),
    AgentFleet: Size(agents=2, tasks=16, lease=HOUR, kills=4, every=1.0, patience=900.0),
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [Fleet, AgentFleet], ids=["workers", "agents of the command line"])
def test_killed_agents_of_two_clones_do_each_task_once(tmp_path: Path, kind: type[Fleet]) -> None:
    size = FULL if os.environ.get("DIBS_TORTURE") else SMALL[kind]
    fleet = kind(tmp_path, agents=size.agents, tasks=size.tasks, lease=size.lease, seed=5)
    fleet.run(kills=size.kills, every=size.every, patience=size.patience, finished=fleet.all_done)
    fleet.assert_sound()
    fleet.assert_worked_once()
    assert fleet.kills > size.kills // 3
