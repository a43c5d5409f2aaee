"""What `make run` starts does what it says, by itself and without a terminal."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.pages import ROOT


@pytest.mark.slow
def test_the_small_fleet_finishes_its_plan() -> None:
    ran = subprocess.run(
        [sys.executable, "examples/small_fleet.py"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    finished = re.findall(r"^  \S+ +finishes (\w+)", ran.stdout, re.MULTILINE)
    assert len(finished) == len(set(finished)) == 14
    assert re.search(r"KILLED   while working on parser", ran.stdout)
    assert re.search(r"claims   parser .*\(attempt 2", ran.stdout)
    assert re.search(r"REFUSED  LOST_LOCK", ran.stdout)
    assert "✓ every counter, order number, lease and link is as it should be" in ran.stdout
