"""What one sees at a glance is what is so, and looking costs the store little."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.cli.commands.top import Snapshot, StorePoller, share_left
from dibs.core.fleet import Profile
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Holder, Link, Status
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(tmp_path: Path, clock: Clock) -> Iterator[Desk]:
    store = SqliteStore(str(tmp_path / "desk.db"), create=True, durable=False, clock=clock)
    with Desk(store, by=Actor("boss")) as made:
        yield made


def look(desk: Desk, *, anywhere: bool = False) -> Snapshot:
    return StorePoller(desk, anywhere=anywhere, rows=20).look()


def add(desk: Desk, *ids: str, **fields: Any) -> None:
    desk.add([Draft(f"The task {name}", id=name, **fields) for name in ids])


def test_agents_come_with_held_tasks_most_urgent_first(desk: Desk) -> None:
    add(desk, "a", "b", "c")
    for name in ("ann", "idle"):
        desk.enrol(Profile(name, "code", (), 3))
    desk.claim("ann", refs=["a"], lease=timedelta(minutes=20))
    desk.claim("ann", refs=["b"], lease=timedelta(minutes=5))
    desk.claim("guest", refs=["c"])
    found = look(desk).agents
    assert [(one.name, one.role, [task.id for task in one.tasks]) for one in found] == [
        ("ann", "code", ["b", "a"]),
        ("guest", None, ["c"]),
        ("idle", "code", []),
    ]


def test_a_lease_runs_down_and_is_full_again_when_it_is_renewed(desk: Desk, clock: Clock) -> None:
    add(desk, "a")
    [claimed] = desk.claim("ann", lease=timedelta(minutes=10))
    assert claimed.task.lease is not None
    shares = []
    for _ in range(2):
        clock.advance(minutes=6)
        [task] = look(desk).agents[0].tasks
        shares.append(round(share_left(task, clock()), 2))
        desk.renew("a", claimed.task.lease.token, lease=timedelta(minutes=10))
    assert shares == [0.4, 0.4]
    clock.advance(minutes=11)
    assert share_left(look(desk).agents[0].tasks[0], clock()) == 0


def test_ready_tasks_of_all_agents_are_shown_in_order(desk: Desk, clock: Clock) -> None:
    add(desk, "plain")
    add(desk, "late", priority=0)
    add(desk, "painted", requires=("paint",), priority=1)
    add(desk, "bobs", assigned_to="bob", priority=3)
    add(desk, "tomorrow", not_before=clock() + timedelta(days=1), priority=0)
    add(desk, "after", priority=0)
    desk.link([Link("after", "plain")])
    desk.claim("ann", refs=["late"], lease=timedelta(minutes=1))
    clock.advance(minutes=2)
    shot = look(desk)
    assert [task.id for task in shot.ready] == ["late", "painted", "plain", "bobs"]
    assert (shot.counts.claimable, shot.counts.waiting, shot.counts.later) == (4, 1, 1)


def test_tasks_that_need_people_are_shown(desk: Desk) -> None:
    add(desk, "stuck", "judged", "given-up", "held", max_retries=0)
    desk.move(Verb.BLOCK, "stuck", reason="no key")
    for verb, name in ((Verb.REVIEW, "judged"), (Verb.FAIL, "given-up")):
        [claimed] = desk.claim("ann", refs=[name])
        assert claimed.task.lease is not None
        desk.move(verb, name, token=claimed.task.lease.token)
    desk.claim("mira", refs=["held"], holder=Holder.HUMAN)
    shot = look(desk)
    assert {task.id: task.status for task in shot.people} == {
        "stuck": Status.BLOCKED,
        "judged": Status.REVIEW,
        "given-up": Status.ESCALATED,
    }
    assert [(one.name, len(one.tasks)) for one in shot.agents] == [("mira", 1)]


def test_finished_tasks_are_counted_per_minute_for_a_while(desk: Desk, clock: Clock) -> None:
    glance = StorePoller(desk, anywhere=False, rows=20)
    add(desk, *(f"t{number}" for number in range(6)))
    for minutes in (0, 0, 1, 3):
        clock.advance(minutes=minutes)
        [claimed] = desk.claim("ann")
        assert claimed.task.lease is not None
        desk.move(Verb.DONE, claimed.task.id, token=claimed.task.lease.token)
    clock.advance(seconds=30)
    shot = glance.look()
    assert shot.finished is not None
    assert shot.finished[-5:] == (2, 1, 0, 0, 1)
    assert shot.rate == pytest.approx(4 / 4.5), "over as many minutes as there were"
    clock.advance(minutes=28)
    later = glance.look().finished
    assert later is not None
    assert sum(later) == 1
    assert glance.look().lately[0].verb == Verb.DONE


def test_messages_and_notes_are_no_work(desk: Desk) -> None:
    aside = desk.at(".inbox.mira", internal=True)
    aside.add([Draft("Hello", id="m1")])
    add(desk, "real")
    shot = look(desk, anywhere=True)
    assert [task.id for task in shot.ready] == ["real"]


def test_looking_again_costs_a_few_small_queries_and_counts_only_when_something_happened(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    glance = StorePoller(desk, anywhere=False, rows=20, clock=lambda: now[0])
    add(desk, "a", "b")
    asked: list[str] = []

    def spied(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*words: Any, **options: Any) -> Any:
            asked.append(name)
            return real(*words, **options)

        return ask

    for name in ("counts", "find", "peek", "events", "now"):
        monkeypatch.setattr(desk._store, name, spied(name, getattr(desk._store, name)))
    glance.look()
    assert len(asked) <= 8
    assert asked.count("counts") == 1
    now[0] += 1
    glance.look()
    assert asked.count("counts") == 1, "nothing has happened"
    desk.claim("ann")
    now[0] += 1
    assert glance.look().counts.by_status[Status.ACTIVE] == 1
    assert asked.count("counts") == 2
    now[0] += 60
    glance.look()
    assert asked.count("counts") == 3, "time alone may have ended a lease"
