"""The simulator passes on the real store, repeats a seed exactly, and finds known mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mutate import Mutant, copy_of_package

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
SEEDS = 1000 if TORTURE else 12
FIRST = 1000  # `make simulate` begins at 1

VARIANTS = tomllib.loads((Path(__file__).parent / "variants.toml").read_text(encoding="utf-8"))["variants"]


def simulated(*words: str, package: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    return subprocess.run(
        [sys.executable, "-m", "dibs.lab.simulator", *words],
        capture_output=True, text=True, check=False, env=environment, timeout=600,
    )  # fmt: skip


def test_seeds_are_sound() -> None:
    ran = simulated("--first", str(FIRST), "--seeds", str(SEEDS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout.split()
    operations, done, deaths = int(said[2]), int(said[4]), int(said[7])
    assert operations > 50 * SEEDS
    assert done > 2 * SEEDS, "tasks are claimed and finished"
    assert deaths > SEEDS


def test_seed_does_the_same_again() -> None:
    """Every statement is the same, also in another process and after other seeds."""
    several, one = (
        simulated("--first", "7", "--seeds", "3", "--digests"),
        simulated("--first", "9", "--seeds", "1", "--digests"),
    )
    assert several.stdout.splitlines()[2] == one.stdout.splitlines()[0]
    assert len(set(several.stdout.split())) > 6


@pytest.fixture
def broken(variant: dict[str, str], tmp_path: Path) -> Path:
    copy_of_package(
        str(tmp_path), Mutant("sqlite", variant["why"], variant["file"], variant["old"], variant["new"], variant["in"])
    )
    return tmp_path


@pytest.mark.parametrize("variant", VARIANTS, ids=[f"{each['verb']}: {each['why'][:40]}" for each in VARIANTS])
def test_known_mistake_is_found_within_a_thousand_seeds(broken: Path) -> None:
    found = simulated("--seeds", "1000", package=broken)
    assert found.returncode == 1, "no seed found it"
    if TORTURE:
        seed = found.stdout.split()[1]
        assert simulated("--first", seed, "--seeds", "1", package=broken).stdout == found.stdout
