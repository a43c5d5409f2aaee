"""tools/repeat.py: it finds the tests that fail now and then, and leaves no busy process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPEAT = Path(__file__).parents[2] / "tools/repeat.py"
SOMETIMES = """
from pathlib import Path

def test_stable():
    pass

def test_fails_in_the_second_run():
    runs = Path("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert runs.read_text() != "xx"
"""


def repeat(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sometimes.py"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, REPEAT, *options, "--", *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_unstable_test_is_listed_with_its_rate(tmp_path: Path) -> None:
    (tmp_path / "test_sometimes.py").write_text(SOMETIMES)
    ran = repeat(tmp_path, "--times", "3", "--load", "1")
    *_, rate, summary = ran.stdout.splitlines()
    assert rate == "failed in 1 of 3: test_sometimes.py::test_fails_in_the_second_run", ran
    assert summary == "2 of 3 runs passed"
    assert "run 2: 1 passed, 1 failed, exit 1," in ran.stdout
    assert ran.returncode == 1


def test_stable_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "test_sometimes.py").write_text("def test_stable():\n    pass\n")
    ran = repeat(tmp_path, "--times", "2")
    assert (ran.stdout.splitlines()[-1], ran.returncode) == ("2 of 2 runs passed", 0), ran


def test_run_without_tests_fails(tmp_path: Path) -> None:
    (tmp_path / "test_sometimes.py").write_text("import nowhere_to_be_found\n")
    ran = repeat(tmp_path, "--times", "1")
    assert (ran.stdout.splitlines()[-1], ran.returncode) == ("0 of 1 runs passed", 1), ran
