"""Tests of the stepping itself: it pauses where asked, detects waits, and leaves nothing behind."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

from interleave import acts
from interleave.stepper import Answer, Died, Order, Paused, Waiting

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Player

claim_a = partial(acts.claim, agent="x", proof="x1", ids=("a",))


def two_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b")


def test_player_pauses_before_every_statement_from_begin_to_commit(stage: StageMaker) -> None:
    statements = stage(two_tasks).places(claim_a)
    assert statements[0] == "BEGIN IMMEDIATE"
    assert statements[-1] == "COMMIT"


def test_operation_is_invisible_before_its_commit_and_visible_after(
    stage: StageMaker, players: tuple[Player, ...]
) -> None:
    scene = stage(two_tasks)
    path = scene.fresh()
    statements = len(scene.places(claim_a))
    player = players[0]
    player.start(scene.order(path, claim_a))
    assert isinstance(player.run_to(statements), Paused)
    with scene.open(path) as desk:
        assert desk.get("a").lease is None
        assert isinstance(player.finish(), Answer)
        assert desk.get("a").lease is not None


def test_second_writer_is_detected_as_waiting_and_a_reader_is_not(
    stage: StageMaker, players: tuple[Player, ...]
) -> None:
    scene = stage(two_tasks)
    path = scene.fresh()
    one, other, reader = players[:3]
    one.start(scene.order(path, claim_a))
    one.step()
    assert isinstance(other.start(scene.order(path, claim_a)), Waiting)
    assert isinstance(reader.run(scene.order(path, acts.look)), Answer)
    assert isinstance(other.sign, Waiting)
    assert one.finish().code is None
    assert other.finish().code == "HELD"


def test_player_that_kills_itself_is_reported_and_reusable(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(two_tasks)
    path = scene.fresh()
    player = players[0]
    player.start(Order(path, claim_a, scene.clock, die_before=3, stepwise=False))
    assert player.settle() == Died(signal.SIGKILL)
    assert player.run(scene.order(path, claim_a)).code is None


def test_mutant_ends_with_its_order(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(two_tasks)
    player = players[0]
    assert player.run(scene.order(scene.fresh(), claim_a, break_claims)).code == "builtins.RuntimeError"
    assert player.run(scene.order(scene.fresh(), claim_a)).code is None


def break_claims() -> None:
    from dibs.stores.sqlite.store import SqliteStore

    def broken(_self: SqliteStore, _request: object) -> None:
        raise RuntimeError("broken on purpose")

    SqliteStore.claim = broken  # type: ignore[method-assign,assignment]
