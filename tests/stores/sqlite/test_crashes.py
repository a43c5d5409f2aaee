"""Processes that die or stop during a write: only committed changes remain, and no other process hangs."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreBusy
from dibs.core.events import Outcome
from dibs.core.task import Actor, Draft, Link, Status
from dibs.desk import Desk
from dibs.stores.sqlite.database import host_clock
from dibs.stores.sqlite.store import SqliteStore
from interleave import acts
from interleave.stage import SharedClock
from interleave.stepper import PATIENCE, Answer, Died, Order, Paused, Waiting
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.stores.reports import Record
    from interleave.conftest import StageMaker
    from interleave.stage import Stage
    from interleave.stepper import Act, Player

State = tuple["Record", ...]

KILLED = Died(signal.SIGKILL)

PLAN = """
{"id": "a", "title": "A, reworded", "spec": "plan.md"}
{"id": "b", "title": "B", "spec": "plan.md", "deps": ["c"]}
{"id": "c", "title": "C", "spec": "plan.md"}
{"id": "d", "title": "D", "spec": "plan.md", "deps": ["b"], "feeds_from": ["a"]}
{"id": "e", "title": "E", "spec": "plan.md", "parent": "d"}
"""


def a_desk_at_work(desk: Desk) -> None:
    """A held task with a finished prerequisite and with dependents, one from an older plan, one that is idle."""
    acts.add(desk, "over", "a", "b", "c", links=(("a", "over"), ("b", "a"), ("c", "a"), ("c", "b")))
    acts.claim(desk, "ann", "t0", ids=("over",))
    acts.finish(desk, "over", "t0")
    acts.claim(desk, "ann", "t1", ids=("a",))
    desk.add([Draft("Planned once", "gone", spec_ref="plan.md"), Draft("Idle", "idle")], [Link("b", "gone")])


ATOMIC: dict[str, Act] = {
    "add-with-links": partial(acts.add_one, task="new", on=("a", "b"), parent="idle"),
    "claim": partial(acts.claim, agent="bob", proof="u", count=2),
    "finish-then-next": partial(acts.finish, task="a", proof="t1", then=("ann", "t2")),
    "cancel": partial(acts.cancel, task="a"),
    "plan": partial(acts.plan, text=PLAN),
}


def seen_at_every_boundary(scene: Stage, act: Act, player: Player) -> list[State]:
    """What a reader sees before each statement of an operation, and after the last: only what is committed."""
    path = scene.fresh()
    seen = []
    player.start(scene.order(path, act))
    with scene.open(path) as desk:
        while isinstance(player.sign, Paused):
            seen.append(tuple(desk.dump()))
            player.step()
        assert player.finish().code is None
        seen.append(tuple(desk.dump()))
    return seen


def left_by_the_killed(scene: Stage, act: Act, player: Player, boundaries: int) -> list[State]:
    """The content after a process is killed before each statement or after the last: valid and writable at once."""
    left = []
    for statement in range(1, boundaries + 1):
        path = scene.fresh()
        player.start(Order(path, act, scene.clock, die_before=statement, stepwise=False))
        assert player.settle() == KILLED
        with scene.open(path) as desk:
            assert desk.check() == []
            left.append(tuple(desk.dump()))
            acts.add(desk, "next")
            assert desk.check() == []
    return left


def distinct(states: list[State]) -> list[State]:
    return list({repr(state): state for state in states}.values())


def assert_all_or_nothing(scene: Stage, act: Act, player: Player) -> None:
    seen = seen_at_every_boundary(scene, act, player)
    assert distinct(seen) == [seen[0], seen[-1]], "before and after, never between"
    assert left_by_the_killed(scene, act, player, len(seen)) == seen


@pytest.mark.parametrize("name", ATOMIC)
def test_a_process_killed_before_any_statement_leaves_all_or_nothing(
    stage: StageMaker, players: tuple[Player, ...], name: str
) -> None:
    assert_all_or_nothing(stage(a_desk_at_work), ATOMIC[name], players[0])


def test_an_import_killed_before_any_statement_leaves_all_or_nothing(
    stage: StageMaker, players: tuple[Player, ...], tmp_path: Path
) -> None:
    scene = stage(a_desk_at_work)
    with scene.open(str(tmp_path / "other.db"), create=True) as desk:
        acts.add(desk, "x", "y", "z", links=(("z", "x"), ("z", "y")))
        acts.claim(desk, "ann", "t1", ids=("x",))
        records = tuple(desk.dump())
    assert_all_or_nothing(scene, partial(acts.restore, records=records), players[0])


def test_killed_prune_leaves_whole_batches(stage: StageMaker, players: tuple[Player, ...]) -> None:
    def long_ago(desk: Desk) -> None:
        acts.add(desk, "a", "b", "c", "d", links=(("b", "a"), ("d", "c")))
        for number, task in enumerate("abc"):
            acts.claim(desk, "ann", f"t{number}", ids=(task,))
            acts.finish(desk, task, f"t{number}")
        acts.cancel(desk, "d")

    scene = stage(long_ago)
    scene.later(days=100)
    scene.fresh()
    act = partial(acts.prune, before=scene.clock(), bite=2)
    seen = seen_at_every_boundary(scene, act, players[0])
    sizes = [len(state) for state in distinct(seen)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 4, "several bites of events, and of tasks"
    assert left_by_the_killed(scene, act, players[0], len(seen)) == seen


def content(path: str) -> tuple[object, ...]:
    """A database's tables and marks, however little of it there is yet."""
    if not os.path.exists(path):
        return ()
    connection = sqlite3.connect(path)
    try:
        tables = sorted(connection.execute("SELECT name FROM sqlite_master").fetchall())
        marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]
        return (*tables, *marks) if tables or any(marks) else ()
    finally:
        connection.close()


def test_init_killed_before_any_statement_leaves_all_or_nothing(players: tuple[Player, ...], tmp_path: Path) -> None:
    SqliteStore(str(tmp_path / "whole.db"), create=True).close()
    whole = content(str(tmp_path / "whole.db"))
    player = players[0]
    left: list[tuple[object, ...]] = []
    while not left or left[-1] != whole:
        path = str(tmp_path / f"{len(left)}.db")
        player.start(Order(path, None, Clock(), create=True, die_before=len(left) + 1, stepwise=False))
        assert player.settle() == KILLED
        left.append(content(path))
        with SqliteStore(path, create=True) as store:
            assert store.check(fix=False) == []
        assert content(path) == whole
    assert set(left) == {(), whole}
    assert len(left) > 10


# Stopped, not dead


@pytest.fixture
def real_time(tmp_path: Path) -> Iterator[Desk]:
    """A desk with the machine's own clock."""
    with Desk(SqliteStore(str(tmp_path / "dibs.db"), create=True), scope="s", by=Actor("tester")) as desk:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        yield desk


@pytest.fixture
def shared_time(tmp_path: Path) -> Iterator[tuple[Desk, SharedClock]]:
    """A desk and the clock that it shares with all players."""
    clock = SharedClock(str(tmp_path / "clock"))
    store = SqliteStore(str(tmp_path / "dibs.db"), create=True, clock=clock)
    with Desk(store, scope="s", by=Actor("tester")) as desk:
        acts.add(desk, "a", "b", links=(("b", "a"),))
        yield desk, clock


def path_of(desk: Desk) -> str:
    return desk.describe()["place"]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def nobody_else(_desk: Desk) -> None:
    """The lease ran out, and that is all."""


def taken_over(desk: Desk) -> None:
    acts.claim(desk, "bob", "t2", ids=("a",))


def taken_over_and_finished(desk: Desk) -> None:
    taken_over(desk)
    acts.finish(desk, "a", "t2")


def taken_over_by_its_namesake(desk: Desk) -> None:
    acts.claim(desk, "sleeper", "t2", ids=("a",))


@pytest.mark.parametrize("meanwhile", [nobody_else, taken_over, taken_over_and_finished, taken_over_by_its_namesake])
def test_process_stopped_past_its_lease_changes_nothing(
    shared_time: tuple[Desk, SharedClock], players: tuple[Player, ...], meanwhile: Callable[[Desk], None]
) -> None:
    sleeper = players[0]
    act = partial(acts.oversleep, task="a", proof="t1")
    desk, clock = shared_time
    sleeper.send(Order(path_of(desk), act, clock, durable=True, stepwise=False, expendable=True))
    until(lambda: sleeper.begun() and is_stopped(sleeper.pid))
    assert desk.get("a").held(desk._store.now())
    clock.advance(seconds=2)
    assert not desk.get("a").held(desk._store.now())
    meanwhile(desk)
    before = [desk.get("a"), desk.get("b"), desk.links("a")]
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.finish() == Answer(["LOST_LOCK"] * 8)
    assert [desk.get("a"), desk.get("b"), desk.links("a")] == before
    assert desk.check() == []
    assert [event.outcome for event in desk.events(ref="a")].count(Outcome.LOST) == 8


@pytest.fixture
def hasty(real_time: Desk) -> Iterator[Desk]:
    """Another user of the same store who does not wait long."""
    store = SqliteStore(path_of(real_time), timeout=0.3)
    with Desk(store, scope="s", by=Actor("hasty")) as desk:
        yield desk


@pytest.mark.parametrize("statement", [1, 2, "last"])
@pytest.mark.parametrize("ending", [signal.SIGCONT, signal.SIGKILL])
def test_writer_stopped_in_a_transaction_blocks_others_until_their_timeout(
    real_time: Desk, hasty: Desk, players: tuple[Player, ...], statement: int | str, ending: signal.Signals
) -> None:
    writer = players[0]
    act = partial(acts.claim, agent="ann", proof="t1")
    writer.start(Order(path_of(real_time), act, host_clock, durable=True, expendable=True))
    while isinstance(writer.sign, Paused) and writer.sign.statement != statement and writer.sign.sql != "COMMIT":
        writer.step()
    os.kill(writer.pid, signal.SIGSTOP)
    until(lambda: is_stopped(writer.pid))
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(StoreBusy) as refused:
            acts.claim(hasty, "bob", "t2")
        assert 0.3 <= time.monotonic() - began < 25, "it waited for the usual 30 s"
        assert refused.value.retry_after_ms == 1000
    assert hasty.get("a").status is Status.READY, "readers are not kept waiting"
    if ending is signal.SIGCONT:
        os.kill(writer.pid, signal.SIGCONT)
        assert writer.finish().code is None
        assert acts.claim(hasty, "bob", "t2") == []
    else:
        writer.kill()
        assert [claimed.task.id for claimed in acts.claim(hasty, "bob", "t2")] == ["a"]
    assert hasty.check() == []


def test_stopped_waiter_does_not_block_others(real_time: Desk, players: tuple[Player, ...]) -> None:
    writer, waiter, third = players[:3]
    path = path_of(real_time)
    writer.start(Order(path, partial(acts.add_one, task="x"), host_clock))
    assert isinstance(waiter.start(Order(path, partial(acts.add_one, task="y"), host_clock, expendable=True)), Waiting)
    os.kill(waiter.pid, signal.SIGSTOP)
    until(lambda: is_stopped(waiter.pid))
    assert isinstance(third.start(Order(path, partial(acts.add_one, task="z"), host_clock)), Waiting)
    assert writer.finish().code is None
    assert third.finish().code is None
    os.kill(waiter.pid, signal.SIGCONT)
    assert waiter.finish().code is None
    assert real_time.check() == []


def test_turn_of_a_killed_writer_goes_to_the_next(real_time: Desk, players: tuple[Player, ...]) -> None:
    writer, waiter = players[:2]
    path = path_of(real_time)
    act = partial(acts.claim, agent="ann", proof="t1")
    writer.start(Order(path, act, host_clock, expendable=True))
    while isinstance(writer.sign, Paused) and writer.sign.sql != "COMMIT":
        writer.step()
    assert isinstance(waiter.start(Order(path, partial(acts.claim, agent="bob", proof="t2"), host_clock)), Waiting)
    writer.kill()
    assert waiter.finish().code is None
    lease = real_time.get("a").lease
    assert lease is not None
    assert (lease.agent, lease.attempt) == ("bob", 1)
