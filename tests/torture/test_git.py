"""Two clones of a vault, four agents in each, two hundred tasks, and no mercy. Without `make torture` it is left out:
`tests/sync/git` has the same in small."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from clock import Clock
from sync.git.clones import machine, new_remote
from sync.git.conftest import FILES
from sync.git.crashes import ACTS, die_at_every_step, prepare
from sync.git.fleet import AgentFleet, Fleet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torture"),
    pytest.mark.skipif(not os.environ.get("DIBS_TORTURE"), reason="make torture runs it"),
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [Fleet, AgentFleet])
def test_two_clones_with_four_agents_each_work_two_hundred_tasks_once(tmp_path: Path, kind: type[Fleet]) -> None:
    fleet = kind(tmp_path, agents=4, tasks=200, lease=30.0, seed=os.getpid())
    fleet.run(kills=60, every=1.5, patience=1500.0, finished=fleet.all_done)
    fleet.assert_sound()
    fleet.assert_worked_once()
    assert fleet.kills > 20


@pytest.mark.parametrize(("what", "kind"), ACTS)
def test_whoever_is_killed_at_any_step_holds_nobody_up(tmp_path: Path, what: str, kind: str) -> None:
    clock = Clock()
    remote = new_remote(tmp_path, FILES)
    here, there = (machine(tmp_path, name, remote, clock=clock) for name in ("here", "there"))
    prepare(what, here, there)
    assert die_at_every_step(tmp_path, what, kind, clock, stride=1) > 4, "there was nothing to die at"
