"""Claims and finishes on SQLite that wait for their turn to write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from interleave import acts
from interleave.stepper import Waiting
from interleave.test_claims import RENEW, got
from interleave.test_plans import changes, new_plan, planned

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Player


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE, Verb.RENEW])
def test_write_queued_past_the_end_of_its_lease_is_rejected(
    stage: StageMaker, players: tuple[Player, ...], verb: Verb
) -> None:
    def held(desk: Desk) -> None:
        acts.add(desk, "a", "other")
        acts.claim(desk, "ann", "t1", ids=("a",))

    scene = stage(held)
    path = scene.fresh()
    writer, holder = players[:2]
    writer.start(scene.order(path, partial(acts.add_one, task="x")))
    scene.clock.advance(minutes=19, seconds=59)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    assert isinstance(holder.start(scene.order(path, late)), Waiting)
    scene.clock.advance(seconds=1)
    assert writer.finish().code is None
    assert holder.finish().code == "LOST_LOCK"
    with scene.open(path) as desk:
        task = desk.get("a")
        assert (task.status, task.attempt, task.retries) == (Status.ACTIVE, 1, 0)
        assert desk.check() == []


def test_plan_leaves_the_next_task_being_claimed_unchanged(stage: StageMaker) -> None:
    """On a server, a claim of the next task passes by those that a plan has locked."""
    first, second = stage(planned).always_serial(new_plan, partial(acts.claim, agent="bob", proof="u"))
    assert got(first.second) == got(second.second) == ["a"]
    assert (first.task("a").title, second.task("a").title) == ("A, reworded", "A")
    assert changes(second.first)["skipped"] == ("a",)
