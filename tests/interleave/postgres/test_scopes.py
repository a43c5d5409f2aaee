"""Work in one scope never waits for work in another."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Draft, Link
from dibs.desk import Desk
from interleave import acts
from interleave.postgres import mutants
from interleave.postgres.stage import Mutant
from interleave.stepper import Answer

if TYPE_CHECKING:
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Stage
    from interleave.stepper import Act

LEASE = timedelta(minutes=20)
LONG = timedelta(hours=5)


def in_scope(act: Act, scope: str) -> Act:
    return lambda desk: act(Desk(desk._store, scope=scope, by=desk.by))


def busy_scope(desk: Desk) -> None:
    """A held task, one blocked by it, an expired one and one that is due."""
    soon = desk._store.now() + timedelta(minutes=30)
    names = ("held", "waits", "free", "spare", "other", "expired")
    desk.add([Draft(name, name) for name in names], [Link("waits", "held")])
    later = [Draft(name, name, not_before=soon) for name in ("due", "due-too")]
    desk.add(later, [Link("due-too", "held")])
    take(desk, "held", LONG)
    take(desk, "other", LONG)
    take(desk, "expired", LEASE)


def take(desk: Desk, name: str, lease: timedelta) -> None:
    desk._store.claim(ClaimRequest("ann", (f"{desk.scope}-{name}",), desk.scope, (name,), lease=lease))


def two_scopes(desk: Desk) -> None:
    for scope in ("s", "t"):
        busy_scope(Desk(desk._store, scope=scope, by=desk.by))


def next_task(desk: Desk) -> object:
    return desk.claim("bob", count=2)


def named_tasks(desk: Desk) -> object:
    return [desk.claim("bob", refs=[name]) for name in ("due", "free", "expired")]


def renewal(desk: Desk) -> object:
    return desk.renew("held", f"{desk.scope}-held")


def finish(desk: Desk) -> object:
    return desk.move(Verb.DONE, "held", token=f"{desk.scope}-held")


def finish_and_next(desk: Desk) -> object:
    return desk.move(Verb.DONE, "held", token=f"{desk.scope}-held", then=desk.next_request("ann"))


def release(desk: Desk) -> object:
    return desk.move(Verb.RELEASE, "other", token=f"{desk.scope}-other")


def linking(desk: Desk) -> object:
    return desk._store.link(desk.scope, [Link("spare", "held"), Link("free", "spare")], desk.by)


def adding(desk: Desk) -> object:
    return desk.add([Draft("new", "new", parent="spare")], [Link("new", "held")])


HOT: tuple[Act, ...] = (next_task, named_tasks, renewal, finish, finish_and_next, release, linking, adding)


def everything(desk: Desk) -> object:
    """All operations, one after the other."""
    return [act(desk) for act in (renewal, named_tasks, linking, adding, release, next_task, finish_and_next)]


def first_wait(scene: Stage, act: Act, other: Act, mutant: Mutant | None = None) -> str | None:
    """Where the first is paused when the other, in another scope, waits, and the kind of wait, if any."""
    one, two = scene.players[:2]
    rewrites = [mutant.rewrites(player.lane) if mutant else {} for player in (one, two)]
    for at, place in enumerate(scene.places(act, mutant), 1):
        scene.reset()
        one.start(act, stop=at, rewrites=rewrites[0])
        sign = two.start(other, rewrites=rewrites[1])
        waited = not isinstance(sign, Answer)
        one.let_go()
        answers = one.finish(), two.finish()
        assert [answer.code for answer in answers] == [None, None], (place, answers)
        if waited:
            return f"{place}: {sign}"
    return None


@pytest.mark.parametrize("act", HOT, ids=lambda act: act.__name__)
def test_nothing_in_one_scope_waits_for_another_scope(stage: StageMaker, act: Act) -> None:
    scene = stage(two_scopes)
    scene.later(hours=1)
    assert first_wait(scene, in_scope(act, "s"), in_scope(everything, "t")) is None


def test_claim_from_any_scope_blocks_no_other_scope(stage: StageMaker) -> None:
    """Except for the tasks that it leases."""
    scene = stage(two_scopes)
    scene.later(minutes=1)
    anywhere = partial(acts.claim, agent="cyd", proof="c", anywhere=True)
    assert first_wait(scene, anywhere, in_scope(next_task, "t")) is None


def test_one_lock_for_all_scopes_is_detected(stage: StageMaker) -> None:
    one_for_all = Mutant(queries={"lock_scope": mutants.swap(("(%s", "(left(%s, 0)"))})
    scene = stage(two_scopes)
    scene.later(hours=1)
    assert first_wait(scene, in_scope(linking, "s"), in_scope(linking, "t"), one_for_all) is not None
