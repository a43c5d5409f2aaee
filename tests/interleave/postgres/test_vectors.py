"""Races of writes of vectors and settings on PostgreSQL, and what they do without their locks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interleave import acts
from interleave.postgres.stage import Mutant
from interleave.postgres.test_links import old_and_done, prune_tasks
from interleave.test_vectors import CHANGES, in_two_scopes, keep_a, keep_b, some_settings

if TYPE_CHECKING:
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Stage
    from interleave.stepper import Act


def test_pruning_during_a_vector_write_leaves_no_orphan(stage: StageMaker) -> None:
    scene = stage(old_and_done)
    scene.later(days=400)
    keep, prune = partial(acts.keep, task="a", length=2), partial(prune_tasks, before=scene.began)
    for race in (*scene.races(keep, prune), *(race.swapped() for race in scene.races(prune, keep))):
        kept, pruned = race.outcome.first, race.outcome.second
        left = "a" in [task.id for task in race.outcome.tasks]
        assert (kept.code in {None, "NOT_FOUND"}, pruned.code, race.outcome.findings) == (True, None, ()), race
        assert pruned.value == (0, 0 if left else 1), race
        assert not left or kept.code is None, race


def goes_wrong(scene: Stage, first: Act, second: Act, mutant: Mutant) -> bool:
    allowed = (scene.in_turn(first, second), scene.in_turn(second, first).swapped())
    races = [*scene.races(first, second, mutant), *(race.swapped() for race in scene.races(second, first, mutant))]
    return any(race.outcome not in allowed for race in races)


def test_without_the_vector_lock_two_lengths_are_kept(stage: StageMaker) -> None:
    no_lock = Mutant(queries={"lock_vectors": lambda _text: "SELECT 1"})
    assert goes_wrong(stage(in_two_scopes), keep_a, keep_b, no_lock)


def test_without_the_scope_lock_both_report_the_same_change(stage: StageMaker) -> None:
    no_lock = Mutant(queries={"lock_scope": lambda _text: "SELECT %s"})
    assert goes_wrong(stage(some_settings), *CHANGES, no_lock)
