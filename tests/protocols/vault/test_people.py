"""A person moves, edits or deletes a file while an agent works on it: the person wins, the agent stops and says why."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from support.vault import PATIENCE, alive, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.vault import Running, Vault

HELD = "In_Progress/local/roof.md"


@pytest.fixture
def working(vault: Vault) -> tuple[Running, int]:
    """An agent whose command, and a child of it, would go on for long; the pid of that child."""
    vault.task("roof", "Repair the roof.")
    pid = vault.beside / "pid"
    agent = vault.at_work("--", "sh", "-c", f"sleep 600 & echo $! > {pid}.new; mv {pid}.new {pid}; wait")
    until(pid.exists, lambda: "the command has not begun")
    return agent, int(pid.read_text())


def moved(path: Path) -> None:
    path.rename(path.parents[2] / "Rejected" / path.name)


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("Repair", "Paint"))


def edited_by_replacing(path: Path) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(path.read_text().replace("Repair", "Paint"))
    fresh.rename(path)


def deleted(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("act", "why", "left"),
    [
        (moved, "roof was moved to Rejected by someone while you held it", "Rejected/roof.md"),
        (edited, "roof was edited by someone while you held it", HELD),
        (edited_by_replacing, "roof was edited by someone while you held it", HELD),
        (deleted, "roof was deleted by someone while you held it", None),
    ],
)
def test_the_person_wins_and_the_agent_says_why(
    vault: Vault, working: tuple[Running, int], act: Callable[[Path], None], why: str, left: str | None
) -> None:
    agent, child = working
    act(vault.root / HELD)
    agent.says(f"LOST_LOCK roof.md: {why}")
    until(lambda: not alive(child), lambda: "what the command had started goes on")
    assert vault.places("roof") == ([] if left is None else [left])
    if left is not None and act is not moved:
        assert "Paint the roof." in vault.read(left)
    assert agent.process.poll() is None, "the agent itself goes on"
    vault.task("next")
    agent.says("claimed next.md")


def test_edited_task_is_claimed_again_with_its_new_text(vault: Vault) -> None:
    vault.task("roof", "Repair the roof.")
    begun = vault.beside / "begun"
    agent = vault.at_work("--", "sh", "-c", f"touch {begun}; cat; [ $DIBS_ATTEMPT != 1 ] || sleep 600")
    agent.says("claimed roof.md (attempt 1")
    until(begun.exists, lambda: "the command has not begun")
    edited_at = time.monotonic()
    edited(vault.root / HELD)
    agent.says("LOST_LOCK roof.md: roof was edited")
    agent.says("claimed roof.md (attempt 2")
    assert time.monotonic() - edited_at > 3, "a person gets time to finish editing"
    vault.there("Done/roof.md")
    assert "Paint the roof." in vault.front("Done/roof.md")["result"]


def test_single_round_with_a_lost_lease_exits_5(vault: Vault) -> None:
    vault.task("roof")
    begun = vault.beside / "begun"
    agent = vault.agent("--once", "--", "sh", "-c", f"touch {begun}; sleep 600")
    until(begun.exists, lambda: "the command has not begun")
    moved(vault.root / HELD)
    assert agent.process.wait(PATIENCE) == 5
    assert "LOST_LOCK roof.md: roof was moved to Rejected" in agent.said


def test_notes_of_the_agent_are_not_an_edit(vault: Vault) -> None:
    vault.task("roof")
    ran = vault("agent", "--once", "--", "sh", "-c", 'echo "halfway" >> "$DIBS_FILE"; sleep 0.3; echo repaired')
    assert ran.status == 0, ran
    assert vault.places("roof") == ["Done/roof.md"]
    assert "halfway" in vault.read("Done/roof.md")


def test_command_that_ignores_sigterm_is_killed(vault: Vault) -> None:
    vault.task("roof")
    pid = vault.beside / "pid"
    agent = vault.at_work(
        "--", "sh", "-c", f"trap '' TERM; echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600; sleep 600"
    )
    until(pid.exists, lambda: "the command has not begun")
    moved(vault.root / HELD)
    agent.says("LOST_LOCK roof.md")
    assert not alive(int(pid.read_text()))


def test_a_person_who_takes_the_task_over_wins(vault: Vault, working: tuple[Running, int]) -> None:
    agent, child = working
    took = subprocess.run(
        ["dibs", "claim", "roof", "--human", "--force", "--agent", "ann"],
        env=vault.environ | {"DIBS_STORE": f"vault:///{vault.root}"},
        check=False,
    )
    assert took.returncode == 0
    agent.says("LOST_LOCK roof.md: roof is now held by ann")
    until(lambda: not alive(child), lambda: "what the command had started goes on")
    assert vault.places("roof") == ["In_Progress/ann/roof.md"]
