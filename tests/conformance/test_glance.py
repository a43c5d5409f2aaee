"""One look at any store: what it cannot tell is left out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.top.snapshot import Glance

from .builders import SCOPE

if TYPE_CHECKING:
    from dibs.stores.port import Store


def test_who_works_on_what_and_what_is_next_is_seen_at_a_glance(store: Store) -> None:
    desk = Desk(store, scope=SCOPE, by=Actor("boss"))
    for title in ("Write the parser", "Test the parser"):
        desk.add([Draft(title)])
    [claimed] = desk.claim("ann", lease=timedelta(minutes=5))
    shot = Glance(desk, anywhere=False, rows=10).look()
    assert [(one.name, [task.id for task in one.tasks]) for one in shot.agents] == [("ann", [claimed.task.id])]
    assert len(shot.ready) == shot.counts.claimable == 1
    assert shot.people == ()
    assert (shot.finished is not None) == store.capabilities.history
