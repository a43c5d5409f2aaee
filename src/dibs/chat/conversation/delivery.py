"""Delivery: selects the next notes for a sender, and stores them for the sender to fetch.

The end of an independent task is reported at once. Related tasks get one answer, with their phases, when all of them
have finished. If a sender asked for both at the same time, each finished phase of the related ones is reported too.
Anything that needs the sender is reported at once. Each fact has a key and is reported once: the end of a task in
exactly one answer, never before the answer of its group.

Any number of processes can deliver. A note and the marks of its facts are written together. A second process with the
same note finds the marks, and decides again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.conversation.inbox import MESSAGE, ORIGIN
from dibs.chat.conversation.notes import (
    Answer,
    Batch,
    Group,
    Groups,
    Mode,
    answer_text,
    aside_text,
    batch_text,
    failed_text,
    later_text,
    progress_text,
    question_text,
    trouble_text,
)
from dibs.chat.conversation.plan import usual_time
from dibs.chat.conversation.settings import settings_of
from dibs.core.errors import AlreadyExists, StoreError
from dibs.core.fields import Filter
from dibs.core.graph import Graph
from dibs.core.sender import is_sender_hash
from dibs.core.task import INBOX, Json, Status, Task
from dibs.core.times import time_text
from dibs.desk import Desk
from dibs.mail import Fact, Note, StoredNotes, sender_box
from dibs.stores.port import Query

_TROUBLED = frozenset({Status.ESCALATED, Status.BLOCKED, Status.REVIEW})
_GOING_ON = frozenset({Status.READY, Status.ACTIVE})


class SenderState(NamedTuple):
    """The state of one sender: all tasks (finished ones too), messages, and marks of delivered reports."""

    graph: Graph
    messages: tuple[Task, ...]
    told: frozenset[str]
    now: datetime
    each: timedelta  # usual time for a task
    alike: float = Thresholds().high  # likeness above which tasks that the analyst marked as independent are related

    def untold(self, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        return tuple(fact for fact in facts if fact.mark not in self.told)


Unify = Callable[[Answer], str]


def due(look: SenderState, unify: Unify = answer_text) -> list[Note]:
    """The notes that are due, in reading order. `unify` writes the answer of a group."""
    groups = Groups(look.graph, look.alike)
    return [
        *_batches(look, groups),
        *_put_off(look),
        *_set_aside(look),
        *_failures(look, groups),
        *_troubles(look, groups),
        *_progress(look, groups),
        *_answers(look, groups, unify),
    ]


def fact_of(what: str, task: Task, *how: object) -> Fact:
    """A fact about this task. The key contains its creation time, because ids can be reused."""
    return Fact(" ".join(map(str, (what, task.id, time_text(task.created_at), *how))), task.id)


# Messages


def _batches(look: SenderState, groups: Groups) -> Iterator[Note]:
    """Notes about the tasks of each batch. The messages of a batch have the same finishing time."""
    read = sorted((one for one in look.messages if one.status is Status.DONE and one.finished_at), key=_ended)
    tasks = {task.id: task for task in look.graph.tasks}
    for _, together in groupby(read, key=_ended):
        messages = sorted(together, key=lambda message: (message.created_at, message.id))
        facts = look.untold([fact_of("read", messages[0])])
        made = [tasks[each] for each in _listed(messages, "tasks") if each in tasks]
        merged = [task for task in look.graph.tasks if task.merged_into and _came_of(task, messages)]
        said = (*_listed(messages, "notes"), *(question_text(one, tasks) for one in _questions(messages)))
        batch = Batch(tuple(made), tuple(merged), said, groups, tasks, look.each)
        text = batch_text(batch) if facts else ""
        if text:
            yield Note("working", text, facts, {"tasks": [task.id for task in made]})


def _ended(message: Task) -> str:
    return time_text(message.finished_at) if message.finished_at else ""


def _listed(messages: Iterable[Task], name: str) -> list[str]:
    found = [message.result.get(name) for message in messages if isinstance(message.result, Mapping)]
    return list(dict.fromkeys(str(each) for those in found if isinstance(those, list | tuple) for each in those))


def _came_of(task: Task, messages: Iterable[Task]) -> bool:
    said = task.extra.get("messages")
    return isinstance(said, list | tuple) and any(message.id in said for message in messages)


def _questions(messages: Iterable[Task]) -> Iterator[Mapping[str, Json]]:
    for message in messages:
        asked = message.result.get("questions") if isinstance(message.result, Mapping) else None
        if isinstance(asked, list | tuple):
            yield from (one for one in asked if isinstance(one, Mapping))


def _put_off(look: SenderState) -> Iterator[Note]:
    """Notes about messages over the limits, once for each time at which they become due."""
    waiting = [one for one in look.messages if one.status is Status.READY and one.reason and _later(one, look.now)]
    for until, together in groupby(sorted(waiting, key=_until), key=_until):
        messages = list(together)
        facts = look.untold(fact_of("later", one, time_text(until)) for one in messages)
        if facts:
            yield Note("later", later_text(messages, until, look.now), facts, {"until": time_text(until)})


def _later(message: Task, now: datetime) -> bool:
    return message.not_before is not None and message.not_before > now


def _until(message: Task) -> datetime:
    assert message.not_before is not None, "only postponed messages have a time"
    return message.not_before


def _set_aside(look: SenderState) -> Iterator[Note]:
    for message in look.messages:
        if message.status in {Status.BLOCKED, Status.ESCALATED}:
            facts = look.untold([fact_of("aside", message, message.attempt)])
            if facts:
                yield Note("aside", aside_text(message), facts)


# Tasks


def _failures(look: SenderState, groups: Groups) -> Iterator[Note]:
    """Notes about failed attempts that will be retried, once for each task."""
    for task in groups.of_status(_GOING_ON):
        facts = look.untold([fact_of("failed", task)]) if task.retries else ()
        if facts:
            yield Note("trouble", failed_text(task), facts, {"tasks": [task.id]})


def _troubles(look: SenderState, groups: Groups) -> Iterator[Note]:
    """Notes about tasks that need a person, with their dependent tasks: one for each group."""
    tasks = {task.id: task for task in look.graph.tasks}
    for group in groups.all:
        stuck = [task for task in group.tasks if task.status in _TROUBLED]
        facts = {task.id: look.untold([_trouble(task)]) for task in stuck}
        fresh = [task for task in stuck if facts[task.id]]
        if fresh:
            text = trouble_text([(task, groups.waiting_for(task)) for task in fresh], tasks)
            told = tuple(fact for task in fresh for fact in facts[task.id])
            yield Note("trouble", text, told, {"tasks": [task.id for task in fresh]})


def _trouble(task: Task) -> Fact:
    return fact_of(task.status, task, task.attempt, task.reason)


def _progress(look: SenderState, groups: Groups) -> Iterator[Note]:
    """Notes about finished phases of unfinished groups."""
    for group in groups.all:
        if group.mode is not Mode.HYBRID or group.finished:
            continue
        over = [number for number, phase in enumerate(group.phases) if all(task.finished for task in phase)]
        facts = {number: look.untold([_phase(group, number)]) for number in over}
        fresh = [number for number in over if facts[number]]
        if fresh:
            told = tuple(fact for number in fresh for fact in facts[number])
            ids: list[Json] = [task.id for number in fresh for task in group.phases[number]]
            yield Note("progress", progress_text(group, fresh), told, {"mode": group.mode, "tasks": ids})


def _phase(group: Group, number: int) -> Fact:
    """A fact about the ends of all members. A restored task ends again, which is a new fact."""
    ends = sorted(_end(task) for task in group.phases[number])
    return Fact(f"phase {' '.join(end.key for end in ends)}", ends[0].about)


def _answers(look: SenderState, groups: Groups, unify: Unify) -> Iterator[Note]:
    for group in groups.all:
        facts = {task.id: look.untold([_end(task)]) for task in group.tasks} if group.finished else {}
        fresh = frozenset(task for task, untold in facts.items() if untold)
        if fresh:
            told = tuple(fact for untold in facts.values() for fact in untold)
            extra: dict[str, Json] = {"mode": group.mode, "tasks": [task for task in facts if task in fresh]}
            yield Note("answer", unify(Answer(group, fresh, _still(groups))), told, extra)


def _end(task: Task) -> Fact:
    """The end of an attempt. A canceled task may be restored and end again."""
    return fact_of(task.status, task, task.attempt)


def _still(groups: Groups) -> tuple[Task, ...]:
    """The tasks in progress at the time of a report."""
    return tuple(groups.of_status(frozenset({Status.ACTIVE})))


_TURNS = 5  # attempts while other processes deliver the same notes
_ROUNDS = 300  # rounds after which all senders are checked
_PAGE = 1000  # events at once


class Delivery(NamedTuple):
    """Notes that a sender can fetch now."""

    sender: str
    notes: tuple[Task, ...]


def deliver(desk: Desk, sender: str, unify: Unify = answer_text) -> list[Task]:
    """Store all due notes of the sender, and return the new ones."""
    box = sender_box(desk, sender)
    for turn in range(_TURNS):
        kept = box.kept()
        look = _look(desk, sender, kept)
        box.forget(_useless(kept, look), "its task was deleted")
        try:
            return box.put(due(look, unify))
        except AlreadyExists:
            if turn == _TURNS - 1:
                raise
    raise AssertionError("unreachable")


def _look(desk: Desk, sender: str, kept: StoredNotes) -> SenderState:
    graph = desk.at(sender).graph()
    if not is_sender_hash(sender):  # a scope with other tasks as well: report only those from the chat
        asked = {task.id for task in graph.tasks if task.origin == ORIGIN}
        graph = Graph(
            tuple(task for task in graph.tasks if task.id in asked),
            tuple(link for link in graph.links if {link.task, link.on} <= asked),
        )
    messages = desk.find(Query(INBOX + sender, only=Filter(category=MESSAGE)))
    done = (task for task in graph.tasks if task.status is Status.DONE)
    alike = settings_of(desk, sender).thresholds.high
    return SenderState(graph, tuple(messages), kept.reported, desk.now(), usual_time(done), alike)


def _useless(kept: StoredNotes, look: SenderState) -> Iterator[Task]:
    """Marks and notes about pruned tasks and messages."""
    there = {task.id for task in (*look.graph.tasks, *look.messages)}
    yield from (mark for mark in kept.marks if mark.ref not in there)
    for note in kept.unread:
        about = note.extra.get("about")
        if isinstance(about, list | tuple) and about and not there.intersection(map(str, about)):
            yield note


class ChangedSenders:
    """The senders with new events since the last call."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        newest = desk.events(last=1, anywhere=True)
        self._seen = newest[-1].seq if newest else 0
        self._asked = 0

    def senders(self) -> list[str]:
        """Senders with new events. The first call and every 300th return all senders, since events can appear late."""
        everybody = self._asked % _ROUNDS == 0
        self._asked += 1
        scopes = self._changed()
        return _senders(self._desk.scopes(internal=True) if everybody else scopes)

    def _changed(self) -> list[str]:
        found: set[str] = set()
        while events := self._desk.events(after=self._seen, limit=_PAGE, anywhere=True):
            self._seen = events[-1].seq
            found.update(event.scope for event in events)
        return sorted(found)


class Deliverer:
    """Delivers to all senders, round by round."""

    def __init__(self, desk: Desk, unify: Unify = answer_text) -> None:
        self._desk = desk
        self._unify = unify
        self._news: ChangedSenders | None = None
        self._waiting: set[str] = set()

    def round(self, trouble: Callable[[str], None]) -> Iterator[Delivery]:
        """Deliver to each sender with news. A failure for one delays no other."""
        self._news = self._news or ChangedSenders(self._desk)
        self._waiting.update(self._news.senders())
        for sender in sorted(self._waiting):
            try:
                notes = deliver(self._desk, sender, self._unify)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - reported, and retried after the next event
                trouble(f"Could not deliver to {sender[:12]}… ({type(error).__name__}: {error}).")
                notes = []
            self._waiting.discard(sender)
            if notes:
                yield Delivery(sender, tuple(notes))


def _senders(scopes: list[str]) -> list[str]:
    """The senders of these scopes, which contain tasks or messages."""
    named = (scope.removeprefix(INBOX) for scope in scopes)
    return sorted({name for name in named if is_sender_hash(name)})
