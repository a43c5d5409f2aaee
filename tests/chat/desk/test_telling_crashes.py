"""Processes that deliver or fetch notes are killed, or run concurrently: each fact is reported exactly once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.chat.conversation.inbox import SenderScopes, add_message
from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from dibs.desk import Desk
from dibs.mail import LEASE
from dibs.stores.port import Query
from interleave import chat_acts
from interleave.stepper import Order, settle
from support.chat import ANN

from .test_crashes import KILLED

if TYPE_CHECKING:
    from dibs.core.task import Task
    from interleave.conftest import StageMaker
    from interleave.stage import Stage
    from interleave.stepper import Player


def lived(desk: Desk) -> None:
    """A read window with two related finished tasks, an independent finished one, and an escalated one."""
    add_message(SenderScopes(Desk(desk._store, by=Actor("chat")), ANN), "Research competitors, then write a strategy")
    chat_acts.flush(desk, now=True)
    room = Desk(desk._store, scope=ANN)
    room.add([Draft("Paint the fence", "fence"), Draft("Call the plumber", "plumber")])
    for claimed in room.claim("ann", count=3):
        assert claimed.task.lease is not None
        verb = Verb.BLOCK if claimed.task.id == "plumber" else Verb.DONE
        room.move(verb, claimed.task.id, token=claimed.task.lease.token, reason="no number", result="fine")
    (last,) = room.claim("bob")
    assert last.task.lease is not None
    room.move(Verb.DONE, last.task.id, token=last.task.lease.token, result="fine")


HEADS = [
    "'Call the plumber' is blocked: no number.",
    "Task complete: Paint the fence fine",
    "Your 2 related tasks are complete. PHASE 1 (research - ann) • Research competit…",
]


def notes(desk: Desk) -> list[Task]:
    return desk._store.find(Query(f".outbox.{ANN}", only=Filter(category="note")))


def assert_told_once(desk: Desk) -> None:
    assert sorted(note.title for note in notes(desk)) == sorted(HEADS)
    assert desk.check() == []


def killed_at_each_step(stage: Stage, player: Player, act: object) -> list[str]:
    """A store for each statement before which the process was killed, and one where it finished."""
    paths = []
    for statement in range(1, len(stage.places(act)) + 2):  # type: ignore[arg-type]
        path = stage.fresh()
        player.start(Order(path, act, stage.clock, die_before=statement, stepwise=False))  # type: ignore[arg-type]
        assert player.settle() == KILLED
        paths.append(path)
    return paths


def test_reporter_killed_at_any_statement_reports_each_fact_once(
    stage: StageMaker, players: tuple[Player, ...]
) -> None:
    scene = stage(lived)
    paths = killed_at_each_step(scene, players[0], chat_acts.tell)
    assert len(paths) > 10
    for path in paths:
        with scene.open(path) as desk:
            chat_acts.tell(desk)
            assert_told_once(desk)
            assert chat_acts.tell(desk) == 0


def test_notes_of_a_killed_reader_are_delivered_after_its_lease(stage: StageMaker, players: tuple[Player, ...]) -> None:
    def told(desk: Desk) -> None:
        lived(desk)
        chat_acts.tell(desk)

    scene = stage(told)
    again = []
    for path in killed_at_each_step(scene, players[0], chat_acts.hear):
        with scene.open(path) as desk:
            scene.clock.advance(seconds=LEASE.total_seconds())
            again.append(len(chat_acts.hear(desk)))
            assert {note.status for note in notes(desk)} == {Status.DONE}
            assert chat_acts.hear(desk) == []
            assert_told_once(desk)
    assert set(again) == {3, 0}, "all, until it has been said that they were handed over"


def test_concurrent_reporters_report_nothing_twice(stage: StageMaker, players: tuple[Player, ...]) -> None:
    scene, (one, other) = stage(lived), players[:2]
    for at in range(1, len(scene.places(chat_acts.tell)) + 1, 2):
        path = scene.fresh()
        one.start(scene.order(path, chat_acts.tell))
        one.run_to(at)
        other.start(Order(path, partial(chat_acts.tell, name="other"), scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            assert_told_once(desk)


def test_concurrent_readers_never_share_a_note(stage: StageMaker, players: tuple[Player, ...]) -> None:
    def told(desk: Desk) -> None:
        lived(desk)
        chat_acts.tell(desk)

    scene, (one, other) = stage(told), players[:2]
    for at in range(1, len(scene.places(chat_acts.hear)) + 1):
        path = scene.fresh()
        one.start(scene.order(path, chat_acts.hear))
        one.run_to(at)
        other.start(Order(path, partial(chat_acts.hear, name="other"), scene.clock, stepwise=False))
        settle(one, other)
        heard = [*one.finish().value, *other.finish().value]  # type: ignore[misc]
        assert len(heard) == len(set(heard)) == 3
        with scene.open(path) as desk:
            assert [note.attempt for note in notes(desk)] == [1, 1, 1]


def test_ending_is_in_one_answer_for_different_groups(stage: StageMaker, players: tuple[Player, ...]) -> None:
    """The first process stops. Another one links two finished tasks, and delivers them as one group."""
    scene, (one, other) = stage(two_done), players[:2]
    act = partial(chat_acts.tie_and_tell, task="b", on="a")
    seen = set()
    for at in range(1, len(scene.places(chat_acts.tell)) + 1):
        path = scene.fresh()
        one.start(scene.order(path, chat_acts.tell))
        one.run_to(at)
        other.start(Order(path, act, scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            told = [note.extra["tasks"] for note in notes(desk)]
            assert sorted(str(task) for each in told for task in each) == ["a", "b"], told  # type: ignore[union-attr]
            seen.add(len(told))
    assert seen == {1, 2}


def two_done(desk: Desk) -> None:
    room = Desk(desk._store, scope=ANN)
    room.add([Draft("Task a", "a"), Draft("Task b", "b")])
    for claimed in room.claim("ann", count=2):
        assert claimed.task.lease is not None
        room.move(Verb.DONE, claimed.task.id, token=claimed.task.lease.token)


def test_marking_after_reporting_is_detected(stage: StageMaker, players: tuple[Player, ...]) -> None:
    """Checks that the schedules above can fail."""
    scene, (one, other) = stage(two_done), players[:2]
    told = []
    for at in range(1, len(scene.places(chat_acts.tell_carelessly)) + 1, 3):
        path = scene.fresh()
        one.start(scene.order(path, chat_acts.tell_carelessly))
        one.run_to(at)
        other.start(Order(path, chat_acts.tell, scene.clock, stepwise=False))
        settle(one, other)
        with scene.open(path) as desk:
            told.append(len(notes(desk)))
    assert max(told) > 2
