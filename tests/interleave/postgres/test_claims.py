"""Claims on PostgreSQL whose lease ends, or who wait for a lock, in the middle of a write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from interleave import acts
from interleave.postgres.player import Waiting
from interleave.test_claims import CLAIM_BOB, RENEW, TAKE_BOB, got, held

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.stepper import Act


HOLDERS = [Verb.RENEW, Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.RELEASE, Verb.PAUSE]


@pytest.mark.parametrize("claim", [CLAIM_BOB, TAKE_BOB], ids=["next", "named"])
@pytest.mark.parametrize("verb", HOLDERS)
def test_lease_that_ends_during_a_write_keeps_or_rejects_it_whole(stage: StageMaker, verb: Verb, claim: Act) -> None:
    """The holder writes in time, the lease ends while it is paused, and another agent claims the task."""
    scene = stage(held)
    scene.later(minutes=19)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    believed = set()
    for at in range(1, len(scene.places(late)) + 1):
        scene.reset()
        holder, taker = scene.players[:2]
        holder.start(late, stop=at)
        scene.advance(minutes=2)
        taker.start(claim)
        holder.let_go()
        told, taken = holder.finish(), taker.finish()
        task = scene.desk.get("a")
        believed.add(told.code is None)
        assert scene.desk.check() == [], at
        if told.code is None:
            goes_on = verb in {Verb.FAIL, Verb.RELEASE} and bool(taken.value)
            assert (task.attempt, bool(taken.value)) == ((2, True) if goes_on else (1, False)), at
        else:
            assert told.code == "LOST_LOCK"
            assert (got(taken), task.attempt, task.status) == (["a"], 2, Status.ACTIVE), at
            assert task.lease is not None
            assert task.lease.token == "t2"  # noqa: S105 - bob's, untouched
    assert believed == {True, False}


@pytest.mark.parametrize("verb", HOLDERS)
def test_write_in_time_that_waits_succeeds_unless_the_task_was_claimed(stage: StageMaker, verb: Verb) -> None:
    """While the holder waits for the lock of the task's row, no other agent can claim the task."""

    def with_another(desk: Desk) -> None:
        held(desk)
        acts.add(desk, "b")

    scene = stage(with_another)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    linker, holder, taker = scene.players[:3]
    link = partial(acts.link, task="b", on="a")
    last = len(scene.places(link))
    scene.reset()
    linker.start(link, stop=last)
    assert isinstance(holder.start(late), Waiting)
    scene.advance(minutes=21)
    assert isinstance(taker.start(TAKE_BOB), Waiting)
    assert linker.finish().code is None
    told, taken = holder.finish(), taker.finish()
    assert told.code is None
    assert scene.desk.get("a").attempt == (2 if taken.value else 1)
    assert scene.desk.check() == []
