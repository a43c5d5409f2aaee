"""What a policy decides is decided by the Desk, from data."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import (
    Held,
    IllegalMove,
    LostLock,
)
from dibs.core.lifecycle import Verb
from dibs.core.plan import parse_jsonl
from dibs.core.policy import NATIVE, CanceledBlocker, OwnerProof, Policy
from dibs.core.task import Actor, Edit, Link, Status

from .hands import HOUR, add, hold, state

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk
    from support.clock import Clock


def by_policy(desk: Desk, **rules: Any) -> Desk:
    return desk.at(desk.scope, policy=Policy(name="test", **rules))


def expiry(task: Task) -> datetime | None:
    return task.lease and task.lease.expires_at


def test_lease_defaults_to_the_policy(desk: Desk, clock: Clock) -> None:
    brief = by_policy(desk, lease=timedelta(minutes=3))
    add(desk, "a", "b", "c", "d")
    native, short, told = (
        expiry(each.claim("ann", refs=[ref], lease=lease)[0].task)
        for each, ref, lease in ((desk, "a", None), (brief, "b", None), (brief, "c", HOUR))
    )
    now = clock()
    assert (native, short, told) == (now + NATIVE.lease, now + timedelta(minutes=3), now + HOUR)
    then = brief.next_request("ann")
    moved = brief.move(Verb.RELEASE, "b", force=True, not_before=now + HOUR, then=then)
    assert [expiry(claimed.task) for claimed in moved.next] == [now + timedelta(minutes=3)]


def test_renewal_defaults_to_the_policy(desk: Desk, clock: Clock) -> None:
    brief = by_policy(desk, lease=timedelta(minutes=3))
    add(desk, "a")
    token = hold(desk, "a")
    assert expiry(brief.renew("a", token)) == clock() + timedelta(minutes=3)
    assert expiry(brief.renew("a", token, lease=HOUR)) == clock() + HOUR


def test_name_is_proof_only_by_policy(desk: Desk) -> None:
    named = by_policy(desk, owner_proof=OwnerProof.NAME)
    add(desk, "a")
    hold(desk, "a", "ann")
    with pytest.raises(Held):
        desk.move(Verb.DONE, "a")
    stranger = named.at("home", by=Actor("bob"))
    with pytest.raises(Held):
        stranger.move(Verb.DONE, "a")
    assert named.move(Verb.DONE, "a").task.status is Status.DONE


def test_late_finish_is_accepted_only_by_policy(desk: Desk, clock: Clock) -> None:
    lenient = by_policy(desk, late_holder_ok=True)
    add(desk, "a", "b")
    token, other = hold(desk, "a"), hold(desk, "b")
    clock.advance(hours=1)
    with pytest.raises(LostLock):
        desk.move(Verb.DONE, "a", token=token)
    assert lenient.move(Verb.DONE, "a", token=token).task.status is Status.DONE
    hold(desk, "b", "bob")
    with pytest.raises(LostLock):
        lenient.move(Verb.DONE, "b", token=other)


def test_a_name_may_come_late_where_the_policy_allows_both(desk: Desk, clock: Clock) -> None:
    add(desk, "a")
    hold(desk, "a")
    clock.advance(hours=1)
    with pytest.raises(IllegalMove):
        by_policy(desk, owner_proof=OwnerProof.NAME).renew("a", None)
    both = by_policy(desk, owner_proof=OwnerProof.NAME, late_holder_ok=True)
    assert both.renew("a", None).held(clock())


def test_policy_decides_whether_an_edit_requeues(desk: Desk, clock: Clock) -> None:
    add(desk, "a", "b", "c")
    requeuing = by_policy(desk, requeue_on_change=True)
    clock.advance(minutes=1)
    desk.edit("b", Edit(description="x"))
    assert [task.id for task in desk.ready(limit=9)] == ["a", "b", "c"]
    assert requeuing.edit("a", Edit(description="x")).queued_at == clock()
    assert [task.id for task in desk.ready(limit=9)] == ["b", "c", "a"]
    clock.advance(minutes=1)
    requeuing.move(Verb.RELEASE, "b", token=hold(desk, "b"))
    assert [task.id for task in desk.ready(limit=9)] == ["c", "a", "b"]


def test_a_place_in_the_queue_that_is_stated_stays(desk: Desk, clock: Clock) -> None:
    add(desk, "a")
    when = clock() + HOUR
    assert by_policy(desk, requeue_on_change=True).edit("a", Edit(queued_at=when)).queued_at == when


@pytest.mark.parametrize("rule", CanceledBlocker)
@pytest.mark.parametrize("told", [False, True])
def test_cancel_defaults_to_the_policy_for_dependents(desk: Desk, rule: CanceledBlocker, told: bool) -> None:
    other = CanceledBlocker.RESOLVES if rule is not CanceledBlocker.RESOLVES else CanceledBlocker.CASCADES
    ruled = by_policy(desk, canceled_blocker=other if told else rule)
    add(desk, "a", "b")
    desk.link([Link("b", "a")])
    moved = ruled.move(Verb.CANCEL, "a", on_cancel=rule if told else None)
    outcome = {
        CanceledBlocker.RESOLVES: moved.unblocked,
        CanceledBlocker.ESCALATES: moved.escalated,
        CanceledBlocker.CASCADES: moved.canceled,
    }
    assert outcome[rule] == ("b",)


def test_a_plans_removals_follow_the_policy_too(desk: Desk) -> None:
    cascading = by_policy(desk, canceled_blocker=CanceledBlocker.CASCADES)
    cascading.apply_plan(parse_jsonl('{"id": "a", "t": "A", "spec": "s"}\n{"id": "c", "t": "C", "spec": "s"}'))
    add(desk, "b")
    desk.link([Link("b", "a")])
    cascading.apply_plan(parse_jsonl('{"id": "c", "t": "C", "spec": "s"}'))
    assert desk.get("b").status is Status.CANCELED


def test_a_dry_run_of_a_plan_changes_nothing(desk: Desk) -> None:
    changes = desk.apply_plan(parse_jsonl('{"id": "a", "t": "A"}'), dry_run=True)
    assert [planned.draft.id for planned in changes.insert] == ["a"]
    assert state(desk) == []


def test_events_name_the_desks_agent(fruit: Desk) -> None:
    fruit.edit("apple", Edit(title="New"))
    fruit.move(Verb.SHELVE, "apple")
    fruit.unlink([Link("banana", "apple")])
    told = fruit.events()
    assert {event.verb for event in told} == {"add", "link", "edit", "shelve", "unlink"}
    assert {(event.agent, event.run) for event in told} == {("ann", "run-1")}
