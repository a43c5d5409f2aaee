"""A cold command, from process start to exit, against an empty Python process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Figure, median, timed

_RUNS = 60


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries = install(folder)
        return _measure(folder, binaries)


def install(folder: Path, *packages: str) -> Path:
    """Install dibs as a user does: a wheel in a new environment, byte-compiled, with the packages it needs."""
    root = Path(__file__).parent.parent
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, root], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    binaries = folder / "env" / "bin"
    (wheel,) = folder.glob("*.whl")
    own = [str(binaries / "pip"), "--quiet", "install", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*own, wheel, *packages], check=True)
    return binaries


def _measure(folder: Path, binaries: Path) -> list[Figure]:
    environment = variables(DIBS_STORE=f"sqlite:///{folder}/dibs.db", DIBS_AGENT="worker")

    def call(*words: str) -> str:
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout

    dibs = str(binaries / "dibs")
    call(dibs, "init")
    for number in range(_RUNS + 2):
        call(dibs, "add", f"task {number}")
    times: dict[str, list[float]] = {"empty": [], "claim": [], "done": []}
    for _ in range(_RUNS):
        times["empty"].append(timed(lambda: call(str(binaries / "python"), "-c", "pass")))
        answer: list[str] = []
        times["claim"].append(timed(lambda answer=answer: answer.append(call(dibs, "claim"))))  # type: ignore[misc]  # bound now, not when called
        task, token = _read(answer[0])
        times["done"].append(timed(lambda task=task, token=token: call(dibs, "done", task, "--token", token)))  # type: ignore[misc]  # bound now, not when called
    empty = median(times["empty"])
    return [
        Figure(
            f"cold dibs {name}, ratio to python -c pass",
            f"{median(times[name]) / empty:.2f} ({median(times[name]) * 1e3:.0f} ms to {empty * 1e3:.0f} ms)",
            "≤ 4",
            median(times[name]) / empty <= 4,
        )
        for name in ("claim", "done")
    ]


def variables(**more: str) -> dict[str, str]:
    """The environment of a user's shell, without variables that keep Python from using compiled files."""
    unwanted = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
    return {name: value for name, value in os.environ.items() if name not in unwanted} | more


def _read(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    token = next(line.split()[1] for line in lines if line.split()[:1] == ["token"])
    return lines[0].split()[0], token
