"""Random edits on both sides, random faults, syncs that are killed: then it falls quiet, and both sides agree."""

from __future__ import annotations

from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from sync.notion.scene import opened
from sync.notion.world import World


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12)
def test_whatever_happens_both_sides_agree_in_the_end_and_nothing_is_lost_in_silence(seed: int) -> None:
    with TemporaryDirectory() as folder, opened("sqlite", folder) as scene:
        world = World(scene, Random(seed))
        for _ in range(6):
            for _ in range(5):
                world.act()
            world.sync()
        world.quiet()
