"""Sessions that lock several tasks: they use one order, and where they cannot, a deadlock is retried silently."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

import psycopg2
import pytest

from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from interleave import acts
from interleave.postgres import mutants
from interleave.postgres.player import Waiting
from interleave.postgres.stage import DEADLOCK
from interleave.test_links import batch

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.player import Player
    from interleave.postgres.stage import Mutant, Stage

finish_a = partial(acts.finish, task="a", proof="t1")
finish_b = partial(acts.finish, task="b", proof="t2")


def shared_dependents(desk: Desk) -> None:
    """Both a and b are prerequisites of x and y."""
    acts.add(desk, "a", "b", "x", "y", links=(("x", "a"), ("y", "a"), ("x", "b"), ("y", "b")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "bob", "t2", ids=("b",))


def step_by_step(scene: Stage, mutant: Mutant | None) -> tuple[Player, Player]:
    """Advance two finishes together: release x when both wait for it, then y."""
    scene.broken(mutant)
    scene.reset()
    one, other = scene.players[:2]
    try:
        with ExitStack() as held:
            rows = {name: held.enter_context(row_held(scene, name)) for name in ("x", "y")}
            assert isinstance(one.start(finish_a), Waiting)
            assert isinstance(other.start(finish_b), Waiting)
            for row in rows.values():
                row.rollback()
                one.look()
                other.look()
        one.finish()
        other.finish()
    finally:
        scene.broken(None)
    return one, other


def row_held(scene: Stage, task: str) -> closing[psycopg2.extensions.connection]:
    connection = psycopg2.connect(scene.conductor.url)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {scene.conductor.schema}.task WHERE id = %s FOR UPDATE", (task,))
    return closing(connection)


def test_finishes_lock_shared_dependents_in_one_order(stage: StageMaker) -> None:
    scene = stage(shared_dependents)
    one, other = step_by_step(scene, None)
    assert [one.answer.code, other.answer.code, *one.gave_way, *other.gave_way] == [None, None]
    assert (scene.desk.get("x").blockers, scene.desk.get("y").blockers, scene.desk.check()) == (0, 0, [])


def test_finishes_that_lock_in_different_orders_retry_silently(stage: StageMaker) -> None:
    scene = stage(shared_dependents)
    one, other = step_by_step(scene, mutants.unordered_release)
    assert [*one.gave_way, *other.gave_way].count(DEADLOCK) == 1
    assert [one.answer.code, other.answer.code] == [None, None]
    assert (scene.desk.get("x").blockers, scene.desk.get("y").blockers, scene.desk.check()) == (0, 0, [])


def test_batches_lock_shared_dependents_in_one_order(stage: StageMaker) -> None:
    """The batches unblock the shared dependents in opposite orders."""

    def crosswise(desk: Desk) -> None:
        links = (("y", "a"), ("x", "b"), ("x", "c"), ("y", "d"))
        acts.add(desk, "a", "b", "c", "d", "x", "y", links=links)
        for task in "abcd":
            acts.claim(desk, "ann", task, ids=(task,))

    stage(crosswise).always_serial(partial(batch, a="a", b="b"), partial(batch, c="c", d="d"))


def upside_down(desk: Desk) -> None:
    """c was added before its prerequisite b; b is active although its prerequisite a is not finished."""
    acts.add(desk, "c")
    acts.add(desk, "a", "b", links=(("c", "b"), ("c", "a")))
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.claim(desk, "bob", "t2", ids=("b",))
    acts.link(desk, "b", "a")


def test_chain_finished_from_both_ends_matches_a_serial_order(stage: StageMaker) -> None:
    """Keys and dependencies have opposite orders, so a session may hit a deadlock, which it retries silently."""
    stage(upside_down).always_serial(finish_a, finish_b, gives_way=True)


@pytest.mark.parametrize("rule", list(CanceledBlocker))
def test_cascading_cancelation_and_a_finish_match_a_serial_order(stage: StageMaker, rule: CanceledBlocker) -> None:
    def tangle(desk: Desk) -> None:
        acts.add(desk, "c", "d", "a", "b", links=(("c", "a"), ("c", "b"), ("d", "c"), ("d", "b")))
        acts.claim(desk, "bob", "t2", ids=("b",))

    cancel = partial(acts.cancel, task="a", rule=rule)
    stage(tangle).always_serial(cancel, finish_b, gives_way=True)


def test_two_cascading_cancelations_match_a_serial_order(stage: StageMaker) -> None:
    def tangle(desk: Desk) -> None:
        acts.add(desk, "d", "c", "b", "a", links=(("c", "a"), ("d", "b"), ("d", "c"), ("c", "b")))

    first, second = (partial(acts.cancel, task=task, rule=CanceledBlocker.CASCADES) for task in "ab")
    stage(tangle).always_serial(first, second, gives_way=True)


def test_reopening_one_prerequisite_while_the_other_finishes_matches_a_serial_order(stage: StageMaker) -> None:
    def one_canceled(desk: Desk) -> None:
        acts.add(desk, "a", "b", "x", "y", links=(("x", "a"), ("y", "a"), ("x", "b"), ("y", "b")))
        acts.cancel(desk, "b", CanceledBlocker.RESOLVES)
        acts.claim(desk, "ann", "t1", ids=("a",))

    stage(one_canceled).always_serial(finish_a, partial(acts.move, verb=Verb.REOPEN, task="b"))
