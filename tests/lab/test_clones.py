"""The lab's storm over git clones: agents, people and auto-committers; and that its judge notices what is wrong."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from dibs.lab.torture.clones import Clone, CloneExperiment, Storm, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.timeout(1800), pytest.mark.xdist_group("torture")]

LONG = bool(os.environ.get("DIBS_TORTURE"))


def _not_stopped(seconds: float) -> bool:
    time.sleep(seconds)
    return False


if LONG:  # people, agents and committers race for real, so this is a part of the torture

    def test_clones_with_committers_people_and_kills_lose_nothing(tmp_path: Path) -> None:
        often = CloneExperiment(str(tmp_path / "lab"), 300.0, kills=50, absences=10)
        report = run(often, _not_stopped)
        assert report.violations == ()
        assert report.figures["done"] > 0
        assert report.figures["kills"] == 50


def _storm(tmp_path: Path) -> tuple[Storm, Clone]:
    storm = Storm(CloneExperiment(str(tmp_path / "lab"), clones=1, agents=0))
    return storm, storm.clones[0]


def test_judge_finds_a_task_in_two_places_of_a_commit(tmp_path: Path) -> None:
    storm, clone = _storm(tmp_path)
    for folder in ("Done", "Needs_Action"):
        with open(os.path.join(clone.path, folder, "ask mark-0-1.md"), "w", encoding="utf-8") as file:
            file.write("# mark-0-1\n")
    clone.git("add", "-A")
    clone.git("commit", "-qm", "twice", "--no-verify")
    clone.git("push", "-q")
    assert [line for line in storm.report().violations if line.startswith("two places: mark-0-1")]


def test_judge_finds_double_work_and_lost_text(tmp_path: Path) -> None:
    storm, clone = _storm(tmp_path)
    clone.written.append("line 0 0 never to be seen")
    with open(os.path.join(storm.runs, "runs"), "w", encoding="utf-8") as file:
        file.write("begin mark-0-1 ann 1 1\nclash mark-0-1 bob 1 2\n")
    for number in (1, 2):
        with open(os.path.join(clone.path, "Done/ask mark-0-1.md"), "w", encoding="utf-8") as file:
            file.write(f"---\nresult: run mark-0-1 {number}\n---\n\n# mark-0-1\n")
        clone.git("add", "-A")
        clone.git("commit", "-qm", f"result {number}")
        clone.git("push", "-q")
    told = "\n".join(storm.report().violations)
    assert "double work: mark-0-1 was begun by bob" in told
    assert "double work: 2 results of mark-0-1" in told
    assert "lost text: 'line 0 0 never to be seen'" in told
