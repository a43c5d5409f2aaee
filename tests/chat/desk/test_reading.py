"""Each message becomes tasks and links exactly once, despite crashes, late readers and other changes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.conversation.reader import LEASE, Reader
from dibs.chat.conversation.settings import Limits
from dibs.core.errors import LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import LinkKind, Status
from dibs.desk import Desk
from dibs.stores.port import Query
from support.chat import ANN, analyst, embedder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.chat.analyst.analysis import Analysis, Message, OpenTask
    from support.chat import Scene


def test_tasks_and_messages_refer_to_each_other(scene: Scene) -> None:
    research, strategy = scene.hear("Research competitors", "Then write a strategy based on the research")
    outcome = scene.read(now=True)
    assert outcome is not None
    tasks = scene.tasks()
    assert tasks["Research competitors"].extra["messages"] == [research.message.id]
    assert tasks["Write a strategy"].extra["messages"] == [strategy.message.id]
    assert {message.description: message.result for message in scene.messages()} == {
        "Research competitors": {"tasks": [tasks["Research competitors"].id]},
        "Then write a strategy based on the research": {"tasks": [tasks["Write a strategy"].id]},
    }
    (link,) = outcome.links
    assert (link.task, link.on) == (tasks["Write a strategy"].id, tasks["Research competitors"].id)
    assert link.kind is LinkKind.BLOCKS
    assert tasks["Write a strategy"].blockers == 1
    assert "because" in str(tasks["Write a strategy"].extra["because"])


def test_tasks_keep_their_vectors_for_the_next_window(quick: Scene) -> None:
    quick.hear("Research competitors", "Paint the fence")
    quick.read(now=True)
    desk = quick.scopes().tasks
    assert set(desk.vectors()) == {task.id for task in quick.tasks().values()}
    (vector,) = embedder().embed(["Research our competitors"])
    nearest = desk.similar(vector, limit=1).found[0]
    assert nearest.task.title == "Research competitors"
    assert quick.scopes("c" * 64).tasks.similar(vector).found == ()


def test_vectors_of_another_embedder_are_replaced(quick: Scene) -> None:
    quick.hear("Research competitors")
    quick.read(now=True)
    desk = quick.scopes().tasks
    (task,) = quick.tasks().values()
    right = desk.vectors()[task.id]
    desk.keep_vectors({task.id: [1.0] * 384})
    desk.configure({"chat_embedder": "another"})
    quick.hear("Paint the fence")
    quick.read(now=True)
    assert desk.vectors()[task.id] == pytest.approx(right)


def test_links_reach_tasks_of_earlier_windows(quick: Scene) -> None:
    quick.hear("Research competitors")
    quick.read(now=True)
    quick.hear("Once the competitor research is done, write a strategy")
    quick.read(now=True)
    tasks = quick.tasks()
    (link,) = quick.store.links(ANN, tasks["Research competitors"].id)
    assert link.on == tasks["Research competitors"].id


def test_repeated_request_is_merged_and_can_be_restored(scene: Scene) -> None:
    scene.hear("Research competitors")
    scene.read(now=True)
    scene.hear("research competitors please")
    scene.read(now=True)
    original = scene.tasks()["Research competitors"]
    (merged,) = [task for task in scene.store.find(Query(ANN)) if task.merged_into is not None]
    assert (merged.merged_into, merged.status) == (original.id, Status.CANCELED)
    assert original.status is Status.READY
    assert scene.messages()[-1].result == {"tasks": [original.id]}
    scene.scopes().tasks.move(Verb.REOPEN, merged.id)
    assert scene.store.get(ANN, merged.id).status is Status.READY


@pytest.mark.parametrize(
    "text",
    [
        "Paint the \x1b[31mfence\x1b[0m\x07 today",
        "Paint\u2028the\u2029fence",
        "Paint the " + "very " * 3900 + "long fence",
        "Paint" + "x" * 19_000,
        "\u202eecnef eht tniaP",
        "Malen Sie den Zaun 🎨 bis Freitag, bitte! 请油漆栅栏",
        "- \n- \n- Paint the fence\n-",
        "🎨",
        "'; DROP TABLE task; --",
        "Paint the fence " * 1000,
    ],
)
def test_any_text_can_be_read(quick: Scene, text: str) -> None:
    quick.hear(text, "Call the plumber")
    outcome = quick.read(now=True)
    assert outcome is not None
    assert "Call the plumber" in [task.title for task in outcome.tasks]
    assert {message.status for message in quick.messages()} == {Status.DONE}


class Meanwhile:
    """An analyst during whose work another change happens."""

    def __init__(self, *happens: object) -> None:
        self._happens = list(happens)

    def analyse(
        self,
        messages: Sequence[Message],
        known: Sequence[OpenTask],
        before: Mapping[str, Iterable[str]],
        limits: Thresholds = Thresholds(),  # noqa: B008 - frozen
    ) -> Analysis:
        found = analyst().analyse(messages, known, before, limits)
        if self._happens:
            self._happens.pop(0)()  # type: ignore[operator]
        return found


def test_late_reader_adds_nothing(scene: Scene) -> None:
    scene.hear("Research competitors", "Paint the fence")

    def somebody_else_reads() -> None:
        scene.clock.advance(seconds=LEASE.total_seconds())
        assert scene.read(name="another") is not None

    with pytest.raises(LostLock):
        Reader(Desk(scene.store), Meanwhile(somebody_else_reads), embedder(), "slow").read(ANN, now=True)
    assert sorted(scene.tasks()) == ["Paint the fence", "Research competitors"]
    assert len(scene.store.find(Query(ANN))) == 2


def test_a_second_reader_finds_nothing_while_the_first_is_reading(quick: Scene) -> None:
    quick.hear("Research competitors")
    found = []
    both = Meanwhile(lambda: found.append(quick.read(name="another", now=True)))
    assert Reader(Desk(quick.store), both, embedder(), "first").read(ANN, now=True) is not None
    assert found == [None]


def test_dead_readers_messages_are_read_after_its_lease(quick: Scene) -> None:
    class Death(Exception):
        pass

    def die() -> None:
        raise Death

    quick.hear("Research competitors")
    with pytest.raises(Death):
        Reader(Desk(quick.store), Meanwhile(die), embedder(), "mortal").read(ANN, now=True)
    assert quick.tick() == []
    assert quick.tasks() == {}
    quick.clock.advance(seconds=LEASE.total_seconds())
    (outcome,) = quick.tick()
    assert [task.title for task in outcome.tasks] == ["Research competitors"]


def test_message_that_crashes_readers_is_escalated(quick: Scene) -> None:
    class Death(Exception):
        pass

    def die() -> None:
        raise Death

    quick.hear("Research competitors")
    quick.clock.advance(minutes=1)
    for _ in range(11):
        with pytest.raises(Death):
            Reader(Desk(quick.store), Meanwhile(die), embedder(), "mortal").read(ANN)
        quick.clock.advance(seconds=LEASE.total_seconds())
    assert quick.read() is None
    assert [message.status for message in quick.messages()] == [Status.ESCALATED]


def test_deleted_prerequisite_restarts_the_analysis(quick: Scene) -> None:
    quick.hear("Research competitors")
    quick.read(now=True)
    research = quick.tasks()["Research competitors"].id
    quick.hear("Once the competitor research is done, write a strategy")

    def pruned() -> None:
        desk = quick.scopes().tasks
        desk.move(Verb.CANCEL, research)
        desk.prune(events_before=None, tasks_before=quick.store.now() + timedelta(seconds=1))

    outcome = Reader(Desk(quick.store), Meanwhile(pruned), embedder(), "reader").read(ANN, now=True)
    assert outcome is not None
    assert (len(outcome.tasks), outcome.links) == (1, ())


FEW = Limits(hourly=5, batch=3)
FENCES = [f"Paint the {colour} fence" for colour in ("red", "blue", "green", "white", "black", "yellow", "brown")]


def test_oversized_batch_is_read_in_parts(quick: Scene) -> None:
    quick.limits = Limits(hourly=100, batch=3)
    noted = quick.hear(*FENCES)
    quick.clock.advance(minutes=1)
    sizes = [len(outcome.tasks) for _ in range(3) for outcome in quick.tick()]
    assert sizes == [3, 3, 1]
    assert quick.tick() == []
    assert sorted(quick.tasks()) == sorted(FENCES)
    assert len(noted) == 7


def test_messages_over_the_hourly_limit_wait(scene: Scene) -> None:
    scene.limits = FEW
    scene.hear(*FENCES)
    scene.clock.advance(minutes=1)
    scene.tick()
    (full,) = scene.tick()
    assert len(scene.tasks()) == 5
    assert len(full.later.messages) == 2
    assert "The limit is 5 new tasks" in full.later.why
    assert full.later.until is not None
    assert scene.tick() == []
    scene.clock.advance(seconds=(full.later.until - scene.store.now()).total_seconds())
    for _ in range(3):
        scene.tick()
    assert sorted(scene.tasks()) == sorted(FENCES)


def test_message_may_exceed_a_batch_but_not_the_hourly_limit(quick: Scene) -> None:
    quick.limits = FEW
    quick.hear("- " + "\n- ".join(FENCES[:4]))
    outcome = quick.read(now=True)
    assert outcome is not None
    assert len(outcome.tasks) == 4
    quick.hear("- " + "\n- ".join(FENCES), "Call the plumber")
    outcome = quick.read(now=True)
    assert outcome is not None
    assert outcome.refused is not None
    assert "send it in parts" in outcome.why
    assert quick.store.get(f".inbox.{ANN}", outcome.refused.id).status is Status.BLOCKED
    quick.tick()
    assert "Call the plumber" in quick.tasks()
