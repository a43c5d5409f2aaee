"""Senders and readers are killed at each statement: each message still becomes exactly one task."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

from dibs.chat.conversation.inbox import SenderScopes, add_message
from dibs.chat.conversation.reader import LEASE
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.stores.port import Query
from interleave import chat_acts
from interleave.stepper import Died, Order, settle
from support.chat import ANN

if TYPE_CHECKING:
    from interleave.conftest import StageMaker
    from interleave.stage import Stage
    from interleave.stepper import Player

KILLED = Died(signal.SIGKILL)
SAID = ("Research competitors", "Then write a strategy based on the research", "Thanks!", "research competitors please")
TITLES = ["Research competitors", "Research competitors", "Write a strategy"]  # one of them merged


def said(desk: Desk) -> None:
    for text in SAID:
        add_message(SenderScopes(Desk(desk._store, by=Actor("chat")), ANN), text)
        desk._store._database._clock.advance(seconds=1)  # type: ignore[attr-defined]  # the stage's


def due(stage: StageMaker) -> Stage:
    scene = stage(said)
    scene.later(minutes=1)
    return scene


def assert_read_once(desk: Desk) -> None:
    """Every message is read, and messages and tasks refer to each other without duplicates."""
    tasks = desk._store.find(Query(ANN))
    messages = desk._store.find(Query(f".inbox.{ANN}"))
    assert sorted(task.title for task in tasks) == TITLES
    assert [task.status for task in tasks].count(Status.CANCELED) == 1
    assert [link.kind for link in desk._store.graph(ANN, finished=True).links] == ["blocks"]
    assert {message.status for message in messages} == {Status.DONE}
    made = {(message.id, task) for message in messages for task in message.result["tasks"]}  # type: ignore[call-overload,index,union-attr]
    kept = [task for task in tasks if task.merged_into is None]
    assert made == {(message, task.id) for task in kept for message in task.extra["messages"]}  # type: ignore[union-attr]
    assert len(made) == 3
    assert desk.check() == []


def read_on(desk: Desk, scene: Stage) -> None:
    """Read due messages now, and again after the lease of a dead reader."""
    chat_acts.tick(desk, "next")
    scene.clock.advance(seconds=LEASE.total_seconds())
    chat_acts.tick(desk, "last")


def test_reader_killed_at_any_statement_reads_each_message_once(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = due(stage)
    act = chat_acts.flush
    steps = len(scene.places(act))
    assert steps > 30
    for statement in range(1, steps + 2):
        path = scene.fresh()
        players[0].start(Order(path, act, scene.clock, die_before=statement, stepwise=False))
        assert players[0].settle() == KILLED
        with scene.open(path) as desk:
            read_on(desk, scene)
            assert_read_once(desk)


def test_flush_killed_at_any_statement_reads_each_message_once(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(said)
    act = partial(chat_acts.flush, now=True)
    for statement in range(1, len(scene.places(act)) + 1, 3):
        path = scene.fresh()
        players[0].start(Order(path, act, scene.clock, die_before=statement, stepwise=False))
        assert players[0].settle() == KILLED
        with scene.open(path) as desk:
            scene.clock.advance(minutes=1)
            read_on(desk, scene)
            assert_read_once(desk)


def test_message_of_a_killed_sender_exists_once_or_not_at_all(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene = stage(said)
    act = partial(chat_acts.say, text="Paint the fence")
    steps = len(scene.places(act))
    there = []
    for statement in range(1, steps + 1):
        path = scene.fresh()
        players[0].start(Order(path, act, scene.clock, die_before=statement, stepwise=False))
        assert players[0].settle() == KILLED
        with scene.open(path) as desk:
            there.append(len(desk._store.find(Query(f".inbox.{ANN}", text="Paint the fence"))))
    assert there == sorted(there)
    assert set(there) <= {0, 1}


def test_two_readers_at_once_never_double_anything(stage: StageMaker, players: tuple[Player, ...]) -> None:
    """The first reader stops before each of its statements, while the second reads until it is done or blocked."""
    scene, (one, other) = due(stage), players[:2]
    first, second = (partial(chat_acts.flush, name=name) for name in ("one", "other"))
    for at in range(1, len(scene.places(first)) + 1, 3):
        path = scene.fresh()
        one.start(scene.order(path, first))
        one.run_to(at)
        other.start(Order(path, second, scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            assert_read_once(desk)


def test_reader_with_an_expired_lease_duplicates_nothing(stage: StageMaker, players: tuple[Player, ...]) -> None:
    """The first reader stops before each of its statements until its lease has expired and the second has read."""
    scene, (one, other) = due(stage), players[:2]
    first, second = (partial(chat_acts.flush, name=name) for name in ("one", "other"))
    for at in range(1, len(scene.places(first)) + 1):
        path = scene.fresh()
        one.start(scene.order(path, first))
        one.run_to(at)
        scene.clock.advance(seconds=LEASE.total_seconds())
        other.start(Order(path, second, scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            read_on(desk, scene)
            assert_read_once(desk)


def test_message_sent_during_a_read_is_read(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene, (one, other) = due(stage), players[:2]
    for at in range(1, len(scene.places(chat_acts.flush)) + 1, 3):
        path = scene.fresh()
        one.start(scene.order(path, chat_acts.flush))
        one.run_to(at)
        other.start(Order(path, partial(chat_acts.say, text="Paint the fence"), scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            scene.clock.advance(minutes=1)
            chat_acts.tick(desk)
            assert len(desk._store.find(Query(ANN, text="Paint the fence"))) == 1
            assert {message.status for message in desk._store.find(Query(f".inbox.{ANN}"))} == {Status.DONE}
