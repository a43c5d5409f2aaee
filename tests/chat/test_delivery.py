"""Which notes a sender gets, and when: by examples and by random sequences."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.chat.conversation.delivery import SenderState, due
from dibs.chat.conversation.notes import Groups
from dibs.chat.steering.commands import Name, parse
from dibs.core.graph import Graph, path_between
from dibs.core.task import Json, Link, LinkKind, Status, Task

if TYPE_CHECKING:
    from dibs.mail import Note

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HALF_AN_HOUR = timedelta(minutes=30)


def task(
    name: str,
    status: Status = Status.READY,
    result: Json = None,
    *,
    batch: int = 0,
    reason: str | None = None,
    merged_into: str | None = None,
    retries: int = 0,
    extra: dict[str, Json] | None = None,
) -> Task:
    at = NOW - timedelta(hours=1, minutes=batch)
    over = NOW if status in {Status.DONE, Status.CANCELED} else None
    made = Task("s", name, f"Task {name}", at, at, at, status=status, result=result, finished_at=over, reason=reason)
    return made._replace(merged_into=merged_into, retries=retries, extra=extra or {})


def message(name: str, status: Status = Status.DONE, result: Json = None, **fields: object) -> Task:
    said = Task(".inbox.s", name, f"Message {name}", NOW, NOW, NOW, status=status, result=result)
    return said._replace(finished_at=NOW if status is Status.DONE else None, **fields)  # type: ignore[arg-type]  # Task's own


def waits(later: str, earlier: str, kind: LinkKind = LinkKind.BLOCKS) -> Link:
    return Link(later, earlier, kind)


def look(
    *tasks: Task, links: tuple[Link, ...] = (), messages: tuple[Task, ...] = (), told: frozenset[str] = frozenset()
) -> SenderState:
    return SenderState(Graph(tasks, links), messages, told, NOW, HALF_AN_HOUR)


def marks(notes: list[Note]) -> frozenset[str]:
    return frozenset(fact.mark for note in notes for fact in note.facts)


def kinds(notes: list[Note]) -> list[str]:
    return [note.kind for note in notes]


def test_independent_result_is_delivered_when_done() -> None:
    (note,) = due(look(task("a", Status.DONE, "3 players"), task("b", Status.ACTIVE)))
    assert note.kind == "answer"
    assert note.extra == {"mode": "streaming", "tasks": ["a"]}
    assert note.text == "Task complete: Task a\n  3 players\n\nStill in progress: Task b."


def test_related_results_are_delivered_together_by_phase() -> None:
    links = (waits("b", "a"), waits("c", "b", LinkKind.FEEDS_INTO))
    first, second = task("a", Status.DONE, "one"), task("b", Status.DONE, {"two": 2, "more": "text"})
    assert due(look(first, second, task("c", Status.ACTIVE), links=links)) == []
    (note,) = due(look(first, second, task("c", Status.DONE, "three\nlines"), links=links))
    assert note.extra == {"mode": "unified", "tasks": ["a", "b", "c"]}
    assert note.text == (
        "Your 3 related tasks are complete.\n\n"
        "PHASE 1\n• Task a\n  one\n\nPHASE 2\n• Task b\n  two: 2\n  more: text\n\nPHASE 3\n• Task c\n  three\n  lines"
    )


def test_phase_names_its_category_and_agents() -> None:
    done = task("a", Status.DONE, "x")._replace(deliverable="research", finished_by="jochi")
    also = task("b", Status.DONE, "y")._replace(deliverable="research", finished_by="mongke")
    last = task("c", Status.DONE, "z")._replace(deliverable="strategy", finished_by="jochi")
    (note,) = due(look(done, also, last, links=(waits("c", "a"), waits("c", "b"))))
    assert "PHASE 1 (research - jochi & mongke)\n" in note.text
    assert "PHASE 2 (strategy - jochi)\n" in note.text


def test_phases_of_related_requests_are_reported_in_between() -> None:
    links = (waits("b", "a"), waits("c", "b"))
    tasks = (task("a", Status.DONE), task("b"), task("c"), task("x"))
    (note,) = due(look(*tasks, links=links))
    assert note.kind == "progress"
    assert note.text == "Phase 1 of 3 is complete: Task a.\nStill to come: Task b, Task c."
    told = marks([note])
    assert due(look(*tasks, links=links, told=told)) == []
    whole = (task("a", Status.DONE), task("b", Status.DONE), task("c", Status.DONE), task("x"))
    (answer,) = due(look(*whole, links=links, told=told))
    assert answer.extra["mode"] == "hybrid"
    assert kinds(due(look(*whole[:3], task("x", batch=1), links=links))) == ["answer"], "x came another time"


def test_canceled_phase_is_reported_and_again_when_redone() -> None:
    links = (waits("b", "a"),)
    first = due(look(task("a", Status.CANCELED), task("b"), task("x"), links=links))
    assert first[0].text.startswith("Phase 1 of 2 is complete: Task a (canceled).")
    done = task("a", Status.DONE)._replace(attempt=1)
    (note,) = due(look(done, task("b"), task("x"), links=links, told=marks(first)))
    assert note.text.startswith("Phase 1 of 2 is complete: Task a.\n")


def test_parallel_tasks_are_related_only_if_similar() -> None:
    done, other = task("a", Status.DONE), task("b")
    by_hand = Link("a", "b", LinkKind.PARALLEL_OK)
    faint, strong = (Link("a", "b", LinkKind.PARALLEL_OK, weight, "semantic") for weight in (0.75, 0.76))
    assert kinds(due(look(done, other, links=(by_hand,)))) == ["answer"]
    assert kinds(due(look(done, other, links=(faint,)))) == ["answer"]
    assert due(look(done, other, links=(strong,))) == []


def test_a_task_and_its_sub_tasks_are_answered_together() -> None:
    child = task("child", Status.DONE)._replace(parent="whole")
    assert due(look(child, task("whole"))) == []
    (note,) = due(look(child, task("whole", Status.DONE)))
    assert note.extra["tasks"] == ["child", "whole"]


def test_delivered_result_is_not_repeated_for_a_new_dependent() -> None:
    first = due(look(task("a", Status.DONE, "early")))
    tasks = (task("a", Status.DONE, "early"), task("b", Status.DONE, "late", batch=1))
    (note,) = due(look(*tasks, links=(waits("b", "a"),), told=marks(first)))
    assert note.extra["tasks"] == ["b"]
    assert "• Task a (you have had this)" in note.text
    assert "early" not in note.text


def test_removed_link_makes_a_result_deliverable() -> None:
    tasks = (task("a", Status.DONE), task("b"))
    assert due(look(*tasks, links=(waits("b", "a"),))) == []
    assert [note.extra["tasks"] for note in due(look(*tasks))] == [["a"]]


def test_canceled_members_are_reported_and_merged_ones_omitted() -> None:
    gone = task("a", Status.CANCELED, reason="too dear")
    (note,) = due(look(gone, task("b", Status.DONE, "fine"), links=(waits("b", "a"),)))
    assert note.text.startswith("Your 2 related tasks are complete, 1 of them canceled.")
    assert "• Task a (canceled)\n  too dear" in note.text
    assert due(look(task("m", Status.CANCELED, merged_into="b"), task("b"))) == []
    (alone,) = due(look(gone))
    assert alone.text == "Canceled: Task a\n  too dear"


def test_task_with_a_reused_id_is_reported() -> None:
    told = marks(due(look(task("a", Status.DONE))))
    assert kinds(due(look(task("a", Status.DONE, batch=5), told=told))) == ["answer"]


def test_long_task_list_is_shortened_with_a_count() -> None:
    busy = [task(f"b{number}", Status.ACTIVE) for number in range(11)]
    (note,) = due(look(task("a", Status.DONE), *busy))
    assert note.text.endswith("Task b6, Task b7 and 3 more.")


def test_restored_task_is_reported_again_when_it_ends() -> None:
    told = marks(due(look(task("a", Status.CANCELED))))
    assert kinds(due(look(task("a", Status.DONE)._replace(attempt=1), told=told))) == ["answer"]


def test_tasks_that_need_the_sender_are_reported_at_once() -> None:
    stuck = task("a", Status.ESCALATED, reason="no access")
    links = (waits("b", "a"), waits("c", "b"))
    (note,) = due(look(stuck, task("b"), task("c"), links=links))
    assert (note.kind, note.text) == ("trouble", "'Task a' needs you: no access. Waiting for it: Task b.")
    told = marks([note])
    assert due(look(stuck, task("b"), task("c"), links=links, told=told)) == []
    again = stuck._replace(reason="still none", attempt=2)
    assert kinds(due(look(again, task("b"), task("c"), links=links, told=told))) == ["trouble"]
    waiting = task("b", Status.ESCALATED, reason="prerequisite a was canceled")
    (named,) = due(look(task("a", Status.CANCELED), waiting, links=(waits("b", "a"),)))
    assert named.text == "'Task b' needs you: it waits for 'Task a', which was canceled."
    blocked = task("a", Status.BLOCKED, reason="no key")._replace(unblock_action="send the key")
    assert due(look(blocked))[0].text == "'Task a' is blocked: no key. Next step: send the key."


def test_failed_attempt_is_reported_once() -> None:
    first = due(look(task("a", reason="timeout", retries=1)))
    assert [note.text for note in first] == ["An attempt at 'Task a' failed: timeout. It will be retried."]
    assert due(look(task("a", reason="timeout", retries=7), told=marks(first))) == []


def test_new_tasks_are_reported_with_an_estimate() -> None:
    said = (message("m1", result={"tasks": ["a", "b"]}), message("m2", result={"tasks": ["c"]}))
    tasks = (task("a"), task("b"), task("c"))
    (note,) = due(look(*tasks, messages=said))
    assert note.kind == "working"
    assert note.text == "Working on 3 tasks. First result in ~30m.\n  - Task a\n  - Task b\n  - Task c"
    assert due(look(*tasks, messages=said, told=marks([note]))) == []
    (chain,) = due(look(*tasks, messages=said, links=(waits("b", "a"), waits("c", "b"))))
    assert chain.text.startswith("Working on 3 related tasks. First result in ~30m.\n  - Task a\n")
    assert "  - Task b (pending: needs Task a)\n" in chain.text
    assert chain.text.endswith("Estimated: everything in ~1h 30m.")
    (one,) = due(look(task("a"), messages=(message("m", result={"tasks": ["a"]}),)))
    assert one.text == "Working on 'Task a'. Result in ~30m."


def test_small_talk_is_not_answered() -> None:
    assert due(look(messages=(message("m", result={"tasks": []}),))) == []


def test_questions_and_merges_use_task_titles() -> None:
    questions: Json = [
        {"kind": "duplicate", "about": ["a", "b"], "text": 'Is "A" the same as "B"?'},
        {"kind": "conflict", "about": ["a", "b"], "text": "t1 should wait for t2"},
        {"kind": "which", "about": ["a", "b", "c"], "text": '"it": which one?'},
    ]
    said = (message("m", result={"tasks": ["a"], "questions": questions, "notes": ["The model was away."]}),)
    merged = task("c", Status.CANCELED, merged_into="b", extra={"messages": ["m"]})
    again = task("d", Status.CANCELED, merged_into="a", extra={"messages": ["m"]})._replace(title="Task a")
    (note,) = due(look(task("a"), task("b"), merged, again, messages=said))
    assert "'Task a' was asked for more than once, and is done once." in note.text
    assert "\n\nThe model was away.\n\n" in note.text
    assert 'Is "A" the same as "B"? If so, say "Cancel Task a".' in note.text
    assert "'Task a' should wait for 'Task b', which waits for it already" in note.text
    assert "For 'Task a': \"it\": which one? Say " in note.text
    said_in_answer = re.findall(r'[Ss]ay "([^"]+)"|then "([^"]+)"', note.text)
    commands = [parse(one or other) for one, other in said_in_answer]
    names = [Name.CANCEL, Name.INDEPENDENT, Name.BEFORE, Name.AFTER]
    assert [command and command.name for command in commands] == names, said_in_answer
    assert "'Task c' says the same as 'Task b', so it is done once." in note.text


def test_delayed_and_rejected_messages_are_reported() -> None:
    until = NOW + timedelta(minutes=20)
    late = [message(name, Status.READY, reason="100 tasks an hour", not_before=until) for name in ("m1", "m2")]
    (note,) = due(look(messages=tuple(late)))
    assert note.kind == "later"
    assert note.text.startswith("2 messages wait to be read for another 20m: 100 tasks an hour\n  - Message m1\n")
    assert due(look(messages=tuple(late), told=marks([note]))) == []
    soon = message("m", Status.READY, reason="more than 50 tasks at once", not_before=None)
    unread = message("n", Status.READY, not_before=until)
    assert due(look(messages=(soon, unread))) == [], "one is read next, the other's window is open"
    (aside,) = due(look(messages=(message("m", Status.BLOCKED, reason="it asks for too much"),)))
    assert aside.text == "'Message m' was not read: it asks for too much."


def test_huge_result_is_cut_with_a_count() -> None:
    (note,) = due(look(task("a", Status.DONE, "x" * 900_000)))
    assert note.text.endswith("… (400000 more characters)")


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_each_ending_is_reported_once_with_its_group(
    data: st.DataObject,
) -> None:
    names = [f"t{number}" for number in range(data.draw(st.integers(1, 7)))]
    tasks = {name: task(name, batch=data.draw(st.integers(0, 1))) for name in names}
    links: list[Link] = []
    told: frozenset[str] = frozenset()
    answered: list[str] = []
    for _ in range(data.draw(st.integers(0, 14))):
        name, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
        if data.draw(st.booleans()):
            if not tasks[name].finished:
                tasks[name] = task(name, data.draw(st.sampled_from([Status.DONE, Status.CANCELED, Status.ESCALATED])))
        else:
            links = _relinked(links, name, other)
        if data.draw(st.booleans()):
            told, fresh = _told(tasks, links, told)
            answered += fresh
    for name in names:
        tasks[name] = tasks[name] if tasks[name].finished else task(name, Status.DONE)
    told, fresh = _told(tasks, links, told)
    answered += fresh
    assert sorted(answered) == sorted(names)
    assert _told(tasks, links, told) == (told, [])


def _relinked(links: list[Link], name: str, other: str) -> list[Link]:
    """Add or remove a link, without closing a cycle."""
    without = [link for link in links if (link.task, link.on) != (name, other)]
    before: dict[str, set[str]] = {}
    for link in links:
        before.setdefault(link.task, set()).add(link.on)
    if len(without) < len(links) or name == other or path_between(before, other, name) is not None:
        return without
    return [*links, Link(name, other, LinkKind.FEEDS_INTO)]


def _told(tasks: dict[str, Task], links: list[Link], told: frozenset[str]) -> tuple[frozenset[str], list[str]]:
    state = look(*tasks.values(), links=tuple(links), told=told)
    notes = due(state)
    groups = Groups(state.graph)
    fresh = [str(name) for note in notes if note.kind == "answer" for name in note.extra["tasks"]]  # type: ignore[union-attr]
    for name in fresh:
        assert groups.of[name].finished, "a group is answered when all of it has ended"
    new = [fact.mark for note in notes for fact in note.facts]
    assert len(new) == len(set(new))
    assert not set(new) & told, "no event comes twice"
    return told | set(new), fresh
