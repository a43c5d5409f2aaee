"""Prune next to running writers, and the state after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interleave import acts
from interleave.stepper import Answer, Paused, Waiting

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Player


def long_finished(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", "open", links=(("b", "a"), ("open", "c")))
    for number, task in enumerate("abc"):
        acts.claim(desk, "ann", f"t{number}", ids=(task,))
        acts.finish(desk, task, f"t{number}")


def test_writers_get_turns_between_prune_batches(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(long_finished)
    scene.later(days=100)
    path = scene.fresh()
    pruner, worker = players[:2]
    pruner.start(scene.order(path, partial(acts.prune, before=scene.clock(), bite=2)))
    worker.start(scene.order(path, partial(acts.claim, agent="bob", proof="u")))
    assert isinstance(worker.sign, Waiting)
    while isinstance(pruner.sign, Paused) and isinstance(worker.look(), Waiting):
        pruner.step()
    assert isinstance(pruner.sign, Paused | Waiting), "the prune is not over yet"
    answer = worker.finish()
    assert (answer.code, bool(answer.value)) == (None, True)
    assert isinstance(pruner.settle(), Answer)
    with scene.open(path) as desk:
        assert desk.check() == []
        assert [task.id for task in acts.look(desk)] == ["c", "open"], "c has handed on its result, but not for good"


def test_reused_id_after_a_prune_passes_the_check(stage: StageMaker) -> None:
    scene = stage(long_finished)
    scene.later(days=100)
    with scene.open(scene.fresh()) as desk:
        desk.prune(events_before=None, tasks_before=scene.clock())
        acts.add(desk, "a")
        assert desk.check() == []
