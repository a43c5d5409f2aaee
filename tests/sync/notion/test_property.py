"""Random edits, faults and crashes on both sides; in the end both agree."""

from __future__ import annotations

import os
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.notion.scene import opened
from sync.notion.world import World

LONG = bool(os.environ.get("DIBS_TORTURE"))
EXAMPLES = int(os.environ.get("DIBS_EXAMPLES", "12"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "neo4j"] if LONG else ["sqlite"])
def test_both_sides_agree_after_random_faults(kind: str) -> None:
    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=EXAMPLES if kind == "sqlite" else max(1, EXAMPLES // 50))
    def holds(seed: int) -> None:
        _lived_through(kind, seed)

    holds()


def _lived_through(kind: str, seed: int) -> None:
    with TemporaryDirectory() as folder, opened(kind, folder) as scene:
        world = World(scene, Random(seed))
        for _ in range(6):
            for _ in range(5):
                world.act()
            world.sync()
        world.quiet()
        world.one_sided()
