"""Claims on Neo4j whose lease ends, or who wait for a lock, in the middle of a write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from interleave import acts
from interleave.postgres.player import Waiting
from interleave.postgres.test_claims import *  # noqa: F403 - all of them
from interleave.postgres.test_claims import HOLDERS
from interleave.test_claims import RENEW, TAKE_BOB, held

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.neo4j.conftest import StageMaker


@pytest.mark.parametrize("verb", HOLDERS)  # type: ignore[no-redef]  # instead of the one for PostgreSQL
def test_write_in_time_that_waits_succeeds_unless_the_task_was_claimed(stage: StageMaker, verb: Verb) -> None:
    """The server does not queue sessions for a lock: if the lease ends during the wait, another claim can be first."""

    def with_another(desk: Desk) -> None:
        held(desk)
        acts.add(desk, "b")

    scene = stage(with_another)
    late = RENEW if verb is Verb.RENEW else partial(acts.move, verb=verb, task="a", proof="t1")
    link = partial(acts.link, task="b", on="a")
    last = len(scene.places(link))
    scene.reset()
    linker, holder, taker = scene.players[:3]
    linker.start(link, stop=last)
    assert isinstance(holder.start(late), Waiting)
    scene.advance(minutes=21)
    assert isinstance(taker.start(TAKE_BOB), Waiting)
    assert linker.finish().code is None
    told, taken = holder.finish(), taker.finish()
    assert told.code in {None, "LOST_LOCK"}
    assert bool(taken.value) or told.code is None
    assert scene.desk.get("a").attempt == (2 if taken.value else 1)
    assert scene.desk.check() == []
