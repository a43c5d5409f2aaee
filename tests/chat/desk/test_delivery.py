"""From messages to answers, on every store, without mixing senders."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from conformance.harness import HARNESSES
from dibs.chat.conversation.delivery import Deliverer, deliver
from dibs.chat.conversation.settings import Limits
from dibs.core.errors import AlreadyExists
from dibs.core.fields import Filter
from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Actor, Draft, Link, LinkKind, Status
from dibs.desk import Desk
from dibs.mail import LEASE, MOST, Fact, Note, sender_box
from dibs.stores.port import Query
from support.chat import ANN, BOB, KINDS, fetched

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.harness import StoreHarness
    from dibs.core.graph import Graph
    from dibs.stores.port import Store
    from support.chat import Scene

BY = Actor("tester")


def test_three_related_messages_get_one_unified_answer(quick: Scene) -> None:
    quick.hear(
        "Research competitors", "Then write a strategy based on the research", "After that, draft the launch post"
    )
    quick.read(now=True)
    assert [note.extra["kind"] for note in quick.heard()] == ["working"]
    for result in ("r", "s"):
        quick.finish_next(result)
        assert quick.texts() == []
    quick.finish_next("p")
    (answer,) = quick.heard()
    assert answer.extra["mode"] == "unified"
    assert answer.description.startswith("Your 3 related tasks are complete.\n\nPHASE 1 (research - worker)")


def test_senders_never_get_each_others_notes(scene: Scene) -> None:
    for sender, word in ((ANN, "red"), (BOB, "blue")):
        scene.hear(f"Paint the {word} fence", sender=sender)
        scene.read(sender, now=True)
        scene.finish_next(f"{word} paint", sender)
    told = list(Deliverer(Desk(scene.store, by=BY)).round(pytest.fail))
    assert [one.sender for one in told] == [ANN, BOB]
    ann, bob = "\n".join(scene.texts(ANN)), "\n".join(scene.texts(BOB))
    assert "red paint" in ann
    assert "blue" not in ann
    assert "blue paint" in bob
    assert "red" not in bob


def test_delivered_note_is_kept_but_not_delivered_again(quick: Scene) -> None:
    box = sender_box(Desk(quick.store, by=BY), ANN)
    box.put([Note("n", "first"), Note("n", "second")])
    quick.clock.advance(seconds=1)
    box.put([Note("n", "third")])
    with box.fetch() as notes:
        assert [note.description for note in notes] == ["first", "second", "third"]
    with box.fetch() as none:
        assert none == []
    assert [note.description for note in box.history()] == ["first", "second", "third"]


def test_failed_readers_notes_go_to_the_next_after_its_lease(quick: Scene) -> None:
    box, other = sender_box(Desk(quick.store, by=BY), ANN), sender_box(Desk(quick.store, by=Actor("other")), ANN)
    box.put([Note("n", "first")])
    with pytest.raises(BrokenPipeError), box.fetch() as notes:
        raise BrokenPipeError
    assert len(notes) == 1
    assert other.take() == []
    quick.clock.advance(seconds=LEASE.total_seconds())
    (again,) = other.take()
    box.delivered(notes)  # too late to count
    other.delivered([again])
    assert [note.attempt for note in box.history()] == [2]


def test_notes_are_not_claimable_and_wake_no_agent(quick: Scene) -> None:
    box = sender_box(Desk(quick.store, by=BY), ANN)
    box.put([Note("n", "text", (Fact("k", "t"),))])
    assert quick.store.scopes(claimable=True) == []
    assert quick.store.claim(ClaimRequest("ann", ("t",), None, can=frozenset({"code"}))) == []
    assert quick.store.counts(None).claimable == 0


def test_fact_is_reported_once_by_disagreeing_reporters(scene: Scene) -> None:
    box = sender_box(Desk(scene.store, by=BY), ANN)
    assert box.report_once(Note("delay", "an hour", (Fact("delay.a", "a"), Fact("delay.b", "b"))))
    assert not box.report_once(Note("delay", "two hours", (Fact("delay.b", "b"), Fact("delay.c", "c"))))
    with pytest.raises(AlreadyExists):
        box.put([Note("n", "c alone", (Fact("delay.c", "c"),)), Note("n", "a again", (Fact("delay.a", "a"),))])
    with box.fetch() as notes:
        assert [note.description for note in notes] == ["an hour"]
    assert box.report_once(Note("delay", "two hours", (Fact("delay.c", "c"),))), "what was refused told nothing"


def test_many_notes_are_delivered_in_order(quick: Scene) -> None:
    box = sender_box(Desk(quick.store, by=BY), ANN)
    wanted = [f"note {number}" for number in range(2 * MOST + 5)]
    for text in wanted:
        box.put([Note("n", text)])
        quick.clock.advance(milliseconds=1)
    with box.fetch() as notes:
        assert [note.description for note in notes] == wanted


def test_pruned_notes_are_not_reported_again(scene: Scene) -> None:
    scene.hear("Paint the fence", "Call the plumber")
    scene.read(now=True)
    fence, plumber = (scene.tasks()[title].id for title in ("Paint the fence", "Call the plumber"))
    scene.scopes().tasks.link([Link(fence, plumber, LinkKind.PARALLEL_OK)])
    first = scene.finish_next("fine")
    assert len(scene.texts()) == 2
    scene.clock.advance(days=1)
    _prune(scene)
    assert sender_box(Desk(scene.store, by=BY), ANN).history() == []
    assert scene.texts() == [], first
    scene.finish_next("fine")
    assert len(scene.texts()) == 1
    scene.clock.advance(days=1)
    _prune(scene)
    assert scene.tasks() == {}
    assert scene.texts() == []
    scene.clock.advance(days=1)
    _prune(scene)
    assert scene.store.find(Query(f".outbox.{ANN}")) == [], "the marks are gone as well"


def test_unread_notes_of_deleted_tasks_are_deleted(quick: Scene) -> None:
    quick.hear("Paint the fence")
    quick.read(now=True)
    quick.finish_next("fine")
    deliver(Desk(quick.store, by=BY), ANN)
    for _ in range(2):
        quick.clock.advance(days=1)
        _prune(quick)
        deliver(Desk(quick.store, by=BY), ANN)
    assert quick.store.find(Query(f".outbox.{ANN}", (Status.BACKLOG, Status.READY))) == []


def _prune(scene: Scene) -> None:
    before = scene.store.now() - timedelta(hours=1)
    scene.store.prune(events_before=None, tasks_before=before, progress=lambda _done: None)


def test_near_duplicates_are_asked_about_and_delays_reported(quick: Scene) -> None:
    quick.limits = Limits(hourly=2, batch=2)
    quick.hear(
        "Write the press release for the spring sale", "Write the press release", "Call the plumber", "Buy paint"
    )
    quick.read(now=True)
    quick.clock.advance(seconds=1)
    quick.tick()
    (working, later) = quick.texts()
    assert 'the same as "Write the press release' in working
    answer = re.findall(r'If so, say "([^"]+)"', working)
    assert quick.say(*answer).reply.text.startswith("Canceled: 'Write the press release'.")
    assert later.startswith("2 messages wait to be read for another 59m")
    assert "Call the plumber" in later


def test_deliverer_checks_only_senders_with_new_events(quick: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for sender in (ANN, BOB):
        quick.hear("Paint the fence", sender=sender)
        quick.read(sender, now=True)
    deliverer = Deliverer(Desk(quick.store, by=BY))
    assert len(list(deliverer.round(pytest.fail))) == 2
    looked: list[str] = []
    graph = quick.store.graph

    def seen(scope: str, *, finished: bool) -> Graph:
        looked.append(scope)
        return graph(scope, finished=finished)

    monkeypatch.setattr(quick.store, "graph", seen)
    assert list(deliverer.round(pytest.fail)) == []
    assert looked == []
    quick.finish_next("fine", BOB)
    (told,) = deliverer.round(pytest.fail)
    assert (told.sender, [note.title for note in told.notes]) == (BOB, ["Task complete: Paint the fence fine"])
    assert set(looked) == {BOB}


@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_deliveries_report_each_fact_once(kind: str, tmp_path: Path) -> None:
    harness = HARNESSES[kind](str(tmp_path))
    with harness.open() as store, ThreadPoolExecutor(4) as crowd:
        room = Desk(store, scope=ANN, by=BY)
        room.add([Draft(f"Task {name}", name) for name in "abcde"], [Link("b", "a"), Link("d", "c")])
        telling = [crowd.submit(_tell_and_fetch, harness, store, str(number)) for number in range(3)]
        while claimed := room.claim("worker"):
            lease = claimed[0].task.lease
            room.move(Verb.DONE, claimed[0].task.id, token=lease.token if lease else "", result="fine")
        heard = [note for one in telling for note in one.result()]
        heard += [note.id for note in fetched(store)]
        kept = store.find(Query(f".outbox.{ANN}", only=Filter(category="note")))
        assert sorted(heard) == sorted(note.id for note in kept), "each is handed over once"
        answers = [note.extra["tasks"] for note in kept if note.extra["kind"] == "answer"]
        assert sorted(str(task) for tasks in answers for task in tasks) == list("abcde")  # type: ignore[union-attr]
        assert store.check(fix=False) == []
    harness.close()


def _tell_and_fetch(harness: StoreHarness, theirs: Store, name: str) -> list[str]:
    """Run `dibs inbox` several times."""
    with harness.join(theirs) as store:
        return [note.id for _ in range(6) for note in fetched(store, name=name)]
