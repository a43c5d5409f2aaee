"""Assignments, computed from tasks and agents alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dibs.core.events import Event, Outcome
from dibs.core.fleet import PRESENCE, Member
from dibs.core.task import Status, Task
from dibs.fleet.dispatch import expected, usual_duration
from dibs.fleet.routing import ROUTING, Placement, QueuedTask, place, resting, role_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def task(name: str, kind: str | None = "content", **fields: Any) -> Task:
    return Task("s", name, f"Task {name}", NOW, NOW, NOW, deliverable=kind, **fields)


def member(name: str, role: str = "writer", limit: int = 2, **fields: Any) -> Member:
    return Member(name, role, fields.pop("can", ()), limit, NOW, fields.pop("seen_at", NOW), **fields)


def given_ids(placing: Placement) -> dict[str, list[str]]:
    return {agent: [each.id for each in tasks] for agent, tasks in placing.given.items()}


def test_each_kind_of_deliverable_goes_to_its_role() -> None:
    roles = {kind: role_of(task("a", kind)) for kind in (*ROUTING, "poetry", None)}
    assert roles == {
        "research": "researcher",
        "analysis": "analyst",
        "code": "developer",
        "content": "writer",
        "ops": "ops",
        "strategy": "analyst",
        "testing": "developer",
        "poetry": "analyst",
        None: "analyst",
    }


def test_tasks_own_role_overrides_the_routing_table() -> None:
    assert role_of(task("a", "code", extra={"role": "ops"})) == "ops"
    assert role_of(task("a", "code", extra={"role": 7})) == "developer"
    assert role_of(task("a", "code"), {"code": "wizard"}) == "wizard"


def test_least_loaded_agent_is_chosen_then_by_name() -> None:
    fleet = [member("bob", limit=3, held=1), member("ann", limit=3, waiting=2), member("cid", limit=3)]
    placing = place([task(name) for name in "abcdef"], fleet, NOW)
    assert given_ids(placing) == {"cid": ["a", "c", "f"], "bob": ["b", "e"], "ann": ["d"]}


def test_incapable_absent_or_full_agents_get_nothing() -> None:
    fleet = [
        member("plain"),
        member("away", can=("gpu",), seen_at=NOW - PRESENCE),
        member("full", can=("gpu",), limit=1, held=1),
        member("coder", "developer", can=("gpu",)),
    ]
    placing = place([task("a", requires=("gpu",))], fleet, NOW)
    assert (placing.given, [one.task.id for one in placing.queued], placing.troubles) == ({}, ["a"], ())


def test_holder_counts_as_present() -> None:
    busy = member("ann", held=1, seen_at=NOW - timedelta(days=1))
    assert given_ids(place([task("a")], [busy], NOW)) == {"ann": ["a"]}


def test_impossible_task_is_an_error_and_blocks_no_other() -> None:
    placing = place([task("a", "code"), task("b", requires=("gpu",)), task("c")], [member("ann")], NOW)
    assert [(one.task.id, one.error) for one in placing.troubles] == [
        ("a", "No enrolled agent has the role 'developer'."),
        ("b", "No agent with the role 'writer' can do what it requires: gpu."),
    ]
    assert given_ids(placing) == {"ann": ["c"]}


def test_queue_of_one_role_does_not_delay_another() -> None:
    fleet = [member("ann", limit=1), member("dev", "developer", limit=1)]
    placing = place([task("a"), task("b"), task("c"), task("d", "code")], fleet, NOW)
    assert given_ids(placing) == {"ann": ["a"], "dev": ["d"]}
    assert [(one.task.id, one.role, one.ahead) for one in placing.queued] == [("b", "writer", 0), ("c", "writer", 1)]


@pytest.mark.parametrize(("retries", "seconds"), [(1, 10), (2, 20), (3, 40)])
def test_failed_task_backs_off_exponentially(retries: int, seconds: int) -> None:
    failed = task("a", ended="fail", retries=retries)
    assert resting(failed, NOW + timedelta(seconds=seconds - 1))
    assert not resting(failed, NOW + timedelta(seconds=seconds))
    assert not resting(failed._replace(not_before=NOW), NOW), "whoever failed it has said how long"
    assert not resting(failed._replace(ended="release"), NOW)
    assert not resting(failed._replace(status=Status.ACTIVE), NOW)


members = some.lists(
    some.builds(
        member,
        some.sampled_from("abcdefgh"),
        some.sampled_from(["writer", "developer"]),
        some.integers(1, 3),
        held=some.integers(0, 3),
        waiting=some.integers(0, 2),
        can=some.sampled_from([(), ("gpu",)]),
        seen_at=some.sampled_from([NOW, NOW - PRESENCE]),
    ),
    unique_by=lambda one: one.agent,
)
tasks = some.lists(
    some.builds(
        task,
        some.integers(0, 50).map(str),
        some.sampled_from(["content", "code", "ops"]),
        requires=some.sampled_from([(), ("gpu",)]),
    ),
    unique_by=lambda one: one.id,
)


@given(tasks, members)
def test_every_task_is_assigned_queued_or_reported(ready: list[Task], fleet: list[Member]) -> None:
    placing = place(ready, fleet, NOW)
    told = [each.id for given in placing.given.values() for each in given]
    told += [one.task.id for one in placing.queued] + [one.task.id for one in placing.troubles]
    assert sorted(told) == sorted(each.id for each in ready)
    known = {one.agent: one for one in fleet}
    for agent, given_tasks in placing.given.items():
        assert known[agent].load + len(given_tasks) <= known[agent].limit
        assert known[agent].present(NOW)
        for each in given_tasks:
            assert role_of(each) == known[agent].role
            assert set(each.requires) <= set(known[agent].can)
    for one in placing.queued:
        able = [m for m in fleet if m.role == one.role and set(one.task.requires) <= set(m.can) and m.present(NOW)]
        assert all(m.load + len(placing.given.get(m.agent, ())) >= m.limit for m in able), "there was room for it"


# Expected delay


def event(verb: str, name: str, seconds: int, outcome: Outcome = Outcome.OK) -> Event:
    return Event(NOW + timedelta(seconds=seconds), "s", name, verb, outcome)


def test_usual_duration_is_the_median_from_claim_to_done() -> None:
    told = [
        event("claim", "a", 0),
        event("claim", "b", 0),
        event("claim", "c", 5),
        event("claim", "a", 7, Outcome.REFUSED),
        event("done", "a", 10),
        event("fail", "b", 11),
        event("done", "c", 105),
        event("done", "old", 106),
    ]
    assert usual_duration(told) == timedelta(seconds=55)
    assert usual_duration([]) is None


def test_delay_grows_with_the_queue() -> None:
    fleet = [member("ann", limit=2), member("bob", limit=1), member("dev", "developer", limit=9)]
    minute = timedelta(minutes=1)
    delays = [expected(QueuedTask(task("a"), "writer", ahead), fleet, minute) for ahead in (0, 2, 3, 6)]
    assert delays == [minute, minute, 2 * minute, 3 * minute]
    assert expected(QueuedTask(task("a"), "writer", 0), fleet, None) is None
