"""Races of writes of vectors and settings: all vectors have one length, and no change is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.core.task import Draft
from dibs.desk import Desk
from interleave import acts
from interleave.postgres.stage import Mutant
from interleave.postgres.test_links import old_and_done, prune_tasks

if TYPE_CHECKING:
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Stage
    from interleave.stepper import Act

REFUSED = "INVALID_INPUT"


def in_two_scopes(desk: Desk) -> None:
    desk.add([Draft("A", "a")])
    Desk(desk._store, scope="elsewhere").add([Draft("B", "b")])


def a_has_one(desk: Desk) -> None:
    in_two_scopes(desk)
    acts.keep(desk, "a", 2)


def some_settings(desk: Desk) -> None:
    desk.configure({"x": 0, "w": 0})


CHANGES = (partial(acts.configure, x=1, y=1, w=None), partial(acts.configure, x=2, z=2, w=None))
keep_a = partial(acts.keep, task="a", length=2)
keep_b = partial(acts.keep, task="b", length=3, scope="elsewhere")


def test_first_vectors_of_two_lengths_keep_one_length(stage: StageMaker) -> None:
    first, second = stage(in_two_scopes).always_as_if_in_turn(keep_a, keep_b)
    assert (first.first.code, first.second.code) == (None, REFUSED)
    assert (second.first.code, second.second.code) == (REFUSED, None)


def test_new_vector_length_needs_all_old_vectors_removed(stage: StageMaker) -> None:
    first, second = stage(a_has_one).always_as_if_in_turn(partial(acts.keep, task="a", length=0), keep_b)
    assert (first.first.code, first.second.code) == (None, None)
    assert (second.first.code, second.second.code) == (None, REFUSED)


def test_concurrent_settings_match_a_serial_order(stage: StageMaker) -> None:
    first, second = stage(some_settings).always_as_if_in_turn(*CHANGES)
    assert first.second.value == {"x": 2, "y": 1, "z": 2}
    assert second.first.value == {"x": 1, "y": 1, "z": 2}


def test_pruning_during_a_vector_write_leaves_no_orphan(stage: StageMaker) -> None:
    scene = stage(old_and_done)
    scene.later(days=400)
    scene.set_clock(scene._time)
    keep, prune = partial(acts.keep, task="a", length=2), partial(prune_tasks, before=scene.desk._store.now())
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
