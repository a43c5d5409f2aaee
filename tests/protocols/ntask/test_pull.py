"""`ntask pull`: the next task and its lock in one step, for fleets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.task import Status, Task
from dibs.stores.notion.claims import chosen
from dibs.stores.notion.pages import Reading
from interleave.notion.page import BEGIN
from support.ntask_fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from support.ntask import Ntask

FULL = bool(os.environ.get("DIBS_TORTURE"))


def pull(ntask: Ntask, agent: str = "ann", *words: str) -> str | None:
    task = ntask.ok("pull", "--run-id", "run-1", "--agent-name", agent, *words) or {}
    found: str | None = task.get("task_id")
    return found


def test_pull_claims_the_next_task_or_returns_null(ntask: Ntask) -> None:
    ntask.create("later", priority=1)
    urgent = ntask.create("first", priority=9)
    assert ntask.next() == urgent
    held = ntask.ok("pull", "--run-id", "run-1", "--agent-name", "ann", "--lease-min", "5")
    assert (held["task_id"], held["status"], held["agent"]) == (urgent, "IN_PROGRESS", "ann")
    words = ("--run-id", "run-1", "--lock-token", held["lock_token"], "--artifacts", "a")
    assert ntask.ok("complete", urgent, *words)["status"] == "DONE"
    assert pull(ntask) is not None
    ran = ntask("pull", "--run-id", "run-1", "--agent-name", "ann")
    assert (ran.status, ran.data) == (0, {"ok": True, "task": None})


def test_successive_pulls_get_different_tasks(ntask: Ntask) -> None:
    tasks = {ntask.create(f"T{number}") for number in range(4)}
    assert {pull(ntask, f"agent-{number}") for number in range(4)} == tasks


def reading(number: int) -> Reading:
    task = Task("default", f"TASK-{number}", "T", BEGIN, BEGIN, BEGIN, status=Status.READY)
    return Reading(f"{number:032x}", task, {}, number)


@given(st.integers(1, 40), st.integers(0, 8), st.text(min_size=1, max_size=8))
def test_only_contenders_leave_the_head_of_the_order(free: int, contenders: int, token: str) -> None:
    order = [reading(number) for number in range(free)]
    found = chosen(order, token, contenders)
    assert order.index(found) <= 2 * contenders
    assert found == chosen(order, token, contenders)


def test_contenders_spread_over_the_top_of_the_order() -> None:
    order = [reading(number) for number in range(40)]
    picked = [chosen(order, f"token of {agent}", 7).number for agent in range(200)]
    assert set(picked) == set(range(15))
    assert max(picked.count(number) for number in set(picked)) < 40


def test_pulling_processes_share_no_task(tmp_path: Path) -> None:
    assert Fleet(tmp_path, 3, 4, strict=True).run().doubles == 0


@pytest.mark.timeout(3600 if FULL else 1800)
@pytest.mark.parametrize("strict", [True, *([False] if FULL else [])])  # timed claims wait
def test_more_agents_finish_more_tasks_with_few_conflicts(tmp_path: Path, strict: bool) -> None:
    fleets = []
    for agents, tasks in ((1, 8), (4, 16 if not FULL else 40), (8, 40)):
        folder = tmp_path / str(agents)
        folder.mkdir()
        fleets.append(Fleet(folder, agents, tasks, strict=strict, processes=False).run())
    assert [done.doubles for done in fleets] == [0, 0, 0]
    assert max(done.conflicts for done in fleets) <= 1.5
    assert max(done.requests for done in fleets) <= 3 * fleets[0].requests, "a task costs all fleets about the same"
    if FULL:  # on a machine with nothing else to do
        one, four, eight = (done.per_minute for done in fleets)
        assert one < four < eight
