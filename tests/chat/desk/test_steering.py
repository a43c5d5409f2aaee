"""Commands in plain words: carried out at once, previewed on request, and undone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import LinkKind, Status, Task
from dibs.stores.port import Query
from support.chat import ANN, BOB

if TYPE_CHECKING:
    from dibs.stores.reports import Record
    from support.chat import Scene

LONG = timedelta(hours=2)
SAID = ("Research competitors", "Paint the fence", "Call the plumber", "Buy new tyres")


@pytest.fixture
def home(quick: Scene) -> Scene:
    """Four open tasks, in this order, and no unread messages."""
    quick.hear(*SAID)
    quick.read(now=True)
    return quick


def order(scene: Scene) -> list[str]:
    """The expected order of claims."""
    return [task.title for task in scene.store.peek(ClaimRequest("ann", (), ANN), 10)]


def statuses(scene: Scene) -> dict[str, Status]:
    return {title: task.status for title, task in scene.tasks().items()}


def state(scene: Scene, sender: str = ANN) -> list[Record]:
    """All records without events, and without the times and reasons of changes."""
    found = [record for record in scene.store.dump() if record.scope == sender and not hasattr(record.item, "seq")]
    return [record._replace(item=_bare(record.item)) for record in found]


def _bare(item: Any) -> Any:
    return item._replace(updated_at=item.created_at, finished_at=None, reason=None) if isinstance(item, Task) else item


def test_priority_command_puts_one_task_first(home: Scene) -> None:
    said = home.say("Priority: tyres first")
    assert order(home)[0] == "Buy new tyres"
    assert said.reply.text.startswith("'Buy new tyres' is first now.")
    assert "1. Buy new tyres [ready]" in said.reply.text
    assert "Estimate: ~2h 0m" in said.reply.text
    home.say("The plumber is urgent")
    assert order(home)[:2] == ["Call the plumber", "Buy new tyres"]
    assert [task.title for task in home.tasks().values() if task.override] == ["Call the plumber"]


def test_prerequisites_precede_the_first_task(home: Scene) -> None:
    home.say("Do tyres before the plumber")
    said = home.say("Priority: plumber first")
    assert "waits for 'Buy new tyres', which goes before it" in said.reply.text
    assert order(home)[0] == "Buy new tyres"


def test_deferred_task_comes_last(home: Scene) -> None:
    home.say("The competitor research can wait")
    assert order(home)[-1] == "Research competitors"


def test_priority_change_is_recorded_with_its_message(home: Scene) -> None:
    home.say("Priority: tyres first")
    (event,) = [event for event in home.scopes().tasks.events() if event.verb == "edit"]
    assert event.reason == "Priority: tyres first"
    assert event.detail == {"priority": [-0.5, -1], "override": [False, True]}


@pytest.mark.parametrize("words", ["Do tyres before the plumber", "The plumber needs the tyres"])
def test_before_command_links_two_tasks(home: Scene, words: str) -> None:
    home.say(words)
    tasks = home.tasks()
    (link,) = home.store.graph(ANN, finished=False).links
    assert (link.task, link.on) == (tasks["Call the plumber"].id, tasks["Buy new tyres"].id)
    assert (link.kind, link.detected_by, link.confidence) == (LinkKind.BLOCKS, "explicit", 1.0)
    assert "Call the plumber" not in order(home)


def test_cycle_is_rejected_in_plain_words(home: Scene) -> None:
    home.say("Do tyres before the plumber")
    home.say("Do the plumber before the fence")
    before = state(home)
    said = home.say("Do the fence before the tyres")
    assert said.reply.text == (
        "That would make a cycle: 'Paint the fence' waits for 'Call the plumber', which waits for "
        "'Buy new tyres', which waits for 'Paint the fence'. Nothing was changed."
    )
    assert not said.reply.understood
    assert state(home) == before


def test_command_overrides_an_inferred_link(quick: Scene) -> None:
    quick.hear("Research competitors", "Then write a strategy based on the research")
    quick.read(now=True)
    said = quick.say("These are independent")
    assert "are independent" in said.reply.text
    assert order(quick) == ["Research competitors", "Write a strategy"]
    assert [link.kind for link in quick.store.graph(ANN, finished=False).links] == [LinkKind.PARALLEL_OK]
    quick.say("Undo")
    assert [link.kind for link in quick.store.graph(ANN, finished=False).links] == [LinkKind.BLOCKS]


def test_focus_spares_prerequisites_and_claimed_tasks(home: Scene) -> None:
    home.say("Do tyres before the plumber")
    fence = home.tasks()["Paint the fence"].id
    home.store.claim(ClaimRequest("painter", ("t",), ANN, (fence,)))
    said = home.say("Focus on the plumber, pause others")
    assert statuses(home) == {
        "Research competitors": Status.PAUSED,
        "Paint the fence": Status.ACTIVE,
        "Call the plumber": Status.READY,
        "Buy new tyres": Status.READY,
    }
    assert "'Paint the fence': it is being worked on, so it continues." in said.reply.text
    home.say("Resume everything")
    assert Status.PAUSED not in statuses(home).values()


def test_resumed_task_is_blocked_again_if_it_was(home: Scene) -> None:
    fence = home.tasks()["Paint the fence"].id
    home.scopes().tasks.move(Verb.BLOCK, fence, reason="no paint")
    home.say("Pause the fence")
    assert statuses(home)["Paint the fence"] is Status.PAUSED
    home.say("Resume the fence")
    assert statuses(home)["Paint the fence"] is Status.BLOCKED


def test_cancel_escalates_dependents_and_undo_restores_them(home: Scene) -> None:
    home.say("Do tyres before the plumber")
    before = state(home)
    said = home.say("Cancel the tyres")
    assert "'Call the plumber' waited for it" in said.reply.text
    assert statuses(home)["Buy new tyres"] is Status.CANCELED
    assert statuses(home)["Call the plumber"] is Status.ESCALATED
    home.say("Undo")
    assert state(home) == before


@pytest.mark.parametrize(
    "words",
    [
        "Priority: tyres first",
        "The tyres can wait",
        "Do tyres before the plumber",
        "These are independent",
        "Focus on the tyres, pause others",
        "Pause everything",
        "Cancel the tyres",
    ],
)
def test_preview_undo_and_redo_restore_every_record(home: Scene, words: str) -> None:
    home.say("Call the plumber is urgent")
    before = state(home)
    shown = home.say(words, preview=True)
    assert shown.reply.changes
    assert state(home) == before
    home.say(words)
    after = state(home)
    assert after != before
    home.say("Undo")
    assert state(home) == before
    home.say("Undo")
    assert state(home) == after


def test_pause_of_a_blocked_task_keeps_its_reason(home: Scene) -> None:
    fence = home.tasks()["Paint the fence"].id
    tasks = home.scopes().tasks
    tasks.move(Verb.BLOCK, fence, reason="no paint", unblock_action="buy some")
    before = tasks.get(fence)
    home.say("Pause everything")
    assert tasks.get(fence).reason == "Pause everything"
    home.say("Resume the fence")
    assert (tasks.get(fence).status, tasks.get(fence).reason) == (Status.BLOCKED, "no paint")
    home.say("Undo")
    assert (tasks.get(fence).status, tasks.get(fence).reason) == (Status.PAUSED, "Pause everything")
    home.say("Undo")
    again = tasks.get(fence)
    assert again == before._replace(updated_at=again.updated_at)


def test_undo_skips_tasks_changed_since(home: Scene) -> None:
    home.say("Pause the fence")
    fence = home.tasks()["Paint the fence"].id
    home.scopes().tasks.move(Verb.CANCEL, fence)
    said = home.say("Undo")
    assert "'Paint the fence' was not changed" in said.reply.text
    assert home.store.get(ANN, fence).status is Status.CANCELED


def test_undo_without_commands_is_reported(home: Scene) -> None:
    assert "nothing to undo" in home.say("Undo").reply.text


def test_ambiguous_command_is_asked_about_and_changes_nothing(quick: Scene) -> None:
    quick.hear("Paint the red fence", "Paint the blue fence")
    quick.read(now=True)
    before = state(quick)
    said = quick.say("Priority: fence first")
    assert "Which one do you mean" in said.reply.text
    assert sorted(choice.title for choice in said.reply.choices) == ["Paint the blue fence", "Paint the red fence"]
    assert state(quick) == before
    quick.say(f"Priority: {said.reply.choices[0].id} first")
    assert order(quick)[0] == said.reply.choices[0].title


def test_command_without_a_match_lists_the_tasks(home: Scene) -> None:
    said = home.say("Cancel the xylophone")
    assert "No open task fits" in said.reply.text
    assert "Paint the fence" in said.reply.text


def test_command_finds_tasks_of_unread_messages(quick: Scene) -> None:
    quick.hear("Buy new tyres", "Paint the fence")
    said = quick.say("Priority: fence first")
    assert order(quick) == ["Paint the fence", "Buy new tyres"]
    assert said.read is not None
    assert quick.read(now=True) is None


@pytest.mark.parametrize("words", ["Do tomorrow before noon", "Don't sync notion yet", "The priority: is unclear?"])
def test_text_resembling_a_command_is_stored_as_message(home: Scene, words: str) -> None:
    said = home.say(words)
    assert said.command is None
    assert said.noted is not None
    assert home.messages()[-1].description == words


def test_why_command_quotes_the_senders_words(quick: Scene) -> None:
    quick.hear("Research competitors", "Then write a strategy based on the research", "Paint the fence")
    quick.read(now=True)
    assert (
        "waits for:\n  - Research competitors [ready], because" in quick.say("Why is the strategy waiting?").reply.text
    )
    assert "Ahead of it in line: Research competitors" in quick.say("Why is the fence waiting?").reply.text
    quick.store.claim(ClaimRequest("ann", ("t",), ANN))
    assert "in progress: ann" in quick.say("Why is the research waiting?").reply.text


def test_estimate_uses_finished_tasks(home: Scene) -> None:
    for minutes in (5, 10, 60):
        (claimed,) = home.store.claim(ClaimRequest("ann", (f"t{minutes}",), ANN, lease=LONG))
        home.clock.advance(minutes=minutes)
        home.scopes().tasks.move(Verb.DONE, claimed.task.id, token=f"t{minutes}")
    assert home.say("What's the plan?").reply.text.startswith("1 task, ~10m of work")


def test_senders_cannot_reach_each_others_tasks(scene: Scene) -> None:
    for sender in (ANN, BOB):
        scene.hear("Research competitors", "Paint the fence", sender=sender)
        scene.read(sender, now=True)
    ids = {task.id for task in scene.tasks(BOB).values()}
    theirs = state(scene, BOB)
    for words in (
        "Priority: fence first",
        "Do the fence before the research",
        "Pause everything",
        "Undo",
        "Cancel all",
    ):
        assert not ids & {change.task for change in scene.say(words).reply.changes}
    assert state(scene, BOB) == theirs
    stolen = next(iter(ids))
    assert "No open task fits" in scene.say(f"Cancel {stolen}").reply.text
    assert scene.store.get(BOB, stolen).status is Status.READY
    assert scene.say("Undo", sender=BOB).reply.text.startswith("There is nothing to undo")
    assert "Paint the fence" in scene.say("What's the plan?", sender=BOB).reply.text
    scene.say("Cancel everything")
    assert scene.say("What's the plan?").reply.text == "There are no open tasks."
    assert {task.status for task in scene.store.find(Query(BOB))} == {Status.READY}


def test_uncertain_command_is_carried_out_after_a_yes(home: Scene) -> None:
    said = home.say("we don't need the tyres anymore")
    assert said.reply.text.startswith("Do you mean: cancel 'Buy new tyres'? Answer yes or no")
    assert home.tasks()["Buy new tyres"].status is Status.READY
    home.say("yes")
    assert home.tasks()["Buy new tyres"].status is Status.CANCELED
    home.say("Undo")
    assert home.tasks()["Buy new tyres"].status is Status.READY


def test_no_changes_nothing_and_keeps_no_message(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    quick.say("we don't need the tyres anymore")
    assert quick.say("no").reply.text == "Nothing was changed."
    assert quick.tasks()["Buy new tyres"].status is Status.READY
    assert not quick.scopes().unread()


def test_answer_task_makes_the_message_a_task(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    quick.say("we don't need the tyres anymore")
    quick.say("task")
    quick.read(now=True)
    assert "we don't need the tyres anymore" in [title.lower() for title in quick.tasks()]


def test_question_expires_and_blocks_nothing(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    quick.say("we don't need the tyres anymore")
    quick.clock.advance(minutes=16)
    quick.say("yes")
    assert quick.tasks()["Buy new tyres"].status is Status.READY


def test_finished_task_is_ticked_off_after_a_yes(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    assert "tick 'Buy new tyres' off" in quick.say("the tyres are done, tick them off").reply.text
    quick.say("yes")
    assert quick.tasks()["Buy new tyres"].status is Status.DONE


def test_change_is_noted_with_the_task(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    quick.say("make the tyres winter ones instead of summer")
    quick.say("yes")
    assert "winter ones instead of summer" in str(quick.tasks()["Buy new tyres"].description)


def test_later_message_closes_the_question(quick: Scene) -> None:
    quick.hear(*SAID)
    quick.read(now=True)
    quick.say("we don't need the tyres anymore")
    quick.hear("Write a poem about autumn")
    quick.say("yes")
    assert quick.tasks()["Buy new tyres"].status is Status.READY
