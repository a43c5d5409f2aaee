"""Delivery: which notes a sender gets next, and storing them for the sender to fetch.

The end of an independent task is reported at once; related tasks are answered together when all of them have finished,
with their phases. If a sender asked for both at the same time, each finished phase of the related ones is reported too.
Anything that needs the sender is reported at once. Each fact has a key and is reported once: the end of a task in
exactly one answer, never before the answer of its group.

Any number of processes can deliver. A note and the marks of its facts are written together, so a second process that
decides the same finds the marks, and looks again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.conversation.inbox import MESSAGE
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
from dibs.core.scopes import INBOX
from dibs.core.sender import is_sender_hash
from dibs.core.task import Json, Status, Task
from dibs.core.times import time_text
from dibs.desk import Desk
from dibs.mail import Fact, Kept, Note, sender_box
from dibs.stores.port import Query

_TROUBLED = frozenset({Status.ESCALATED, Status.BLOCKED, Status.REVIEW})
_GOING_ON = frozenset({Status.READY, Status.ACTIVE})


class SenderState(NamedTuple):
    """How things stand with one sender. `graph` has finished tasks as well, `told` the marks of what was told."""

    graph: Graph
    messages: tuple[Task, ...]
    told: frozenset[str]
    now: datetime
    each: timedelta  # how long a task usually takes
    alike: float = Thresholds().high  # above which likeness the analyst's word makes tasks belong together

    def untold(self, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        return tuple(fact for fact in facts if fact.mark not in self.told)


Unify = Callable[[Answer], str]


def due(look: SenderState, unify: Unify = answer_text) -> list[Note]:
    """In the order in which it is best heard. `unify` words the answer of a group."""
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
    """Of this very task: another one may get its id when it is gone."""
    return Fact(" ".join(map(str, (what, task.id, time_text(task.created_at), *how))), task.id)


# Messages


def _batches(look: SenderState, groups: Groups) -> Iterator[Note]:
    """What was made of what was said. Messages that were read together ended at the same moment."""
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
    """Messages that wait for room, told of once for each time that they wait until."""
    waiting = [one for one in look.messages if one.status is Status.READY and one.reason and _later(one, look.now)]
    for until, together in groupby(sorted(waiting, key=_until), key=_until):
        messages = list(together)
        facts = look.untold(fact_of("later", one, time_text(until)) for one in messages)
        if facts:
            yield Note("later", later_text(messages, until, look.now), facts, {"until": time_text(until)})


def _later(message: Task, now: datetime) -> bool:
    return message.not_before is not None and message.not_before > now


def _until(message: Task) -> datetime:
    assert message.not_before is not None, "only what is put off has a time"
    return message.not_before


def _set_aside(look: SenderState) -> Iterator[Note]:
    for message in look.messages:
        if message.status in {Status.BLOCKED, Status.ESCALATED}:
            facts = look.untold([fact_of("aside", message, message.attempt)])
            if facts:
                yield Note("aside", aside_text(message), facts)


# Tasks


def _failures(look: SenderState, groups: Groups) -> Iterator[Note]:
    """An attempt came to nothing and the task is tried again: said once of each task, however often."""
    for task in groups.of_status(_GOING_ON):
        facts = look.untold([fact_of("failed", task)]) if task.retries else ()
        if facts:
            yield Note("trouble", failed_text(task), facts, {"tasks": [task.id]})


def _troubles(look: SenderState, groups: Groups) -> Iterator[Note]:
    """What does not go on without a person, with what waits for it: one note for a group."""
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
    """The phases that have ended of a group that has not."""
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
    """By how its members ended: one that was canceled and had back ends again."""
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
    """A task that was canceled may be had back and end again."""
    return fact_of(task.status, task, task.attempt)


def _still(groups: Groups) -> tuple[Task, ...]:
    """What is being worked on while something else is told."""
    return tuple(groups.of_status(frozenset({Status.ACTIVE})))


_TURNS = 5  # others may tell the same meanwhile, but hardly again and again
_ROUNDS = 300  # after which everybody is looked at, whatever the events say
_PAGE = 1000  # events at once


class Delivery(NamedTuple):
    """Notes that a sender can fetch now."""

    sender: str
    notes: tuple[Task, ...]


def deliver(desk: Desk, sender: str, unify: Unify = answer_text) -> list[Task]:
    """Tell one sender all that is due; the notes that were kept for them."""
    box = sender_box(desk, sender)
    for turn in range(_TURNS):
        kept = box.kept()
        look = _look(desk, sender, kept)
        box.forget(_useless(kept, look), "what it tells of is gone")
        try:
            return box.put(due(look, unify))
        except AlreadyExists:
            if turn == _TURNS - 1:
                raise
    raise AssertionError("unreachable")


def _look(desk: Desk, sender: str, kept: Kept) -> SenderState:
    graph = desk.at(sender).graph()
    messages = desk.find(Query(INBOX + sender, only=Filter(category=MESSAGE)))
    done = (task for task in graph.tasks if task.status is Status.DONE)
    alike = settings_of(desk, sender).thresholds.high
    return SenderState(graph, tuple(messages), kept.told, desk.now(), usual_time(done), alike)


def _useless(kept: Kept, look: SenderState) -> Iterator[Task]:
    """What was told of tasks and messages that were pruned since, fetched or not."""
    there = {task.id for task in (*look.graph.tasks, *look.messages)}
    yield from (mark for mark in kept.marks if mark.ref not in there)
    for note in kept.unread:
        about = note.extra.get("about")
        if isinstance(about, list | tuple) and about and not there.intersection(map(str, about)):
            yield note


class ChangedSenders:
    """With whom something may have happened since it was last asked."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        newest = desk.events(last=1, anywhere=True)
        self._seen = newest[-1].seq if newest else 0
        self._asked = 0

    def senders(self) -> list[str]:
        """Events may be seen out of turn where many write at once: so now and then, and at first, it is everybody."""
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
    """Tells every sender, again and again."""

    def __init__(self, desk: Desk, unify: Unify = answer_text) -> None:
        self._desk = desk
        self._unify = unify
        self._news: ChangedSenders | None = None
        self._waiting: set[str] = set()

    def round(self, trouble: Callable[[str], None]) -> Iterator[Delivery]:
        """What was told to whom. Trouble with one of them keeps no other waiting."""
        self._news = self._news or ChangedSenders(self._desk)
        self._waiting.update(self._news.senders())
        for sender in sorted(self._waiting):
            try:
                notes = deliver(self._desk, sender, self._unify)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is told, and tried again when something happens
                trouble(f"Nothing could be told to {sender[:12]}… ({type(error).__name__}: {error}).")
                notes = []
            self._waiting.discard(sender)
            if notes:
                yield Delivery(sender, tuple(notes))


def _senders(scopes: list[str]) -> list[str]:
    """Whose scopes these are, be it the tasks or the messages."""
    named = (scope.removeprefix(INBOX) for scope in scopes)
    return sorted({name for name in named if is_sender_hash(name)})
