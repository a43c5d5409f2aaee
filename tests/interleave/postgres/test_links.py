"""Writes on PostgreSQL during which a lease ends, or which link to a task that is being pruned."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.task import Status
from interleave import acts
from interleave.test_claims import got
from interleave.test_links import batch_held, finish_both

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.stepper import Act


def test_batch_with_a_lost_lease_finishes_the_rest(stage: StageMaker) -> None:
    def one_expires(desk: Desk) -> None:
        batch_held(desk)
        desk.renew("b", "t2", lease=timedelta(hours=1))

    scene = stage(one_expires)
    scene.later(minutes=19)
    take_a = partial(acts.claim, agent="bob", proof="u", ids=("a",))
    passing = partial(scene.advance, minutes=2)
    for race in scene.races(finish_both, take_a, meanwhile=passing):
        told = cast("list[object]", race.outcome.first.value)
        assert (told[0] == "LOST_LOCK") == (race.outcome.second.code is None), race
        assert race.outcome.task("b").status is Status.DONE
        assert race.outcome.findings == (), race


def held_for_a_while(desk: Desk) -> None:
    acts.add(desk, "a", "c")
    acts.claim(desk, "ann", "t1", ids=("a",))


def test_lease_renewed_while_due_tasks_are_opened_stays_renewed(stage: StageMaker) -> None:
    """The renewal is in time. While it is paused the lease ends, and another claim opens the due tasks."""
    scene = stage(held_for_a_while)
    scene.later(minutes=19)
    renew = partial(acts.renew, task="a", proof="t1")
    for at in range(1, len(scene.places(renew)) + 1):
        scene.reset()
        holder, other = scene.players[:2]
        holder.start(renew, stop=at)
        scene.advance(minutes=2)
        other.start(partial(acts.claim, agent="bob", proof="u", count=2))
        holder.let_go()
        told, taken = holder.finish(), other.finish()
        assert (told.code, sorted(got(taken))) in ((None, ["c"]), ("LOST_LOCK", ["a", "c"])), at
        assert scene.desk.check() == [], at


# Pruning


def old_and_done(desk: Desk) -> None:
    acts.add(desk, "a", "b")
    acts.claim(desk, "ann", "t1", ids=("a",))
    acts.finish(desk, "a", "t1")


def prune_tasks(desk: Desk, before: datetime) -> tuple[int, int]:
    return desk.prune(events_before=None, tasks_before=before)


@pytest.mark.parametrize(
    "late",
    [
        partial(acts.link, task="b", on="a"),
        partial(acts.add_one, task="d", on=("a",)),
        partial(acts.add_one, task="d", parent="a"),
        partial(acts.put_under, child="b", parent="a"),
        partial(acts.plan, text='{"id": "d", "title": "d", "deps": ["a"]}'),
    ],
    ids=["link", "add", "child", "edit", "plan"],
)
def test_task_is_either_pruned_or_linked(stage: StageMaker, late: Act) -> None:
    scene = stage(old_and_done)
    scene.later(days=400)
    prune = partial(prune_tasks, before=scene.began)
    first, second = scene.always_serial(prune, late)
    assert [task.id for task in first.tasks] == ["b"]
    assert first.second.code in {"NOT_FOUND", "PLAN_INVALID"}
    assert second.second.code is None
    assert "a" in [task.id for task in second.tasks]
