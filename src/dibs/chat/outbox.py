"""Telling senders what they are to hear: looking, deciding, and keeping it for them to fetch.

Any number may be at it. What one of them tells is marked as told along with it, so another who decided the same finds
it told, and looks again.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dibs.chat.conversation.delivery import Look, Unify, due
from dibs.chat.conversation.notes import answer_text
from dibs.chat.conversation.plan import usual_time
from dibs.chat.conversation.settings import settings_of
from dibs.chat.room import MESSAGE
from dibs.core.errors import AlreadyExists, StoreError
from dibs.core.fields import Filter
from dibs.core.scopes import INBOX
from dibs.core.sender import is_sender_hash
from dibs.core.task import Status, Task
from dibs.desk import Desk
from dibs.mailbox import Kept, sender_box
from dibs.stores.port import Query

_TURNS = 5  # others may tell the same meanwhile, but hardly again and again
_ROUNDS = 300  # after which everybody is looked at, whatever the events say
_PAGE = 1000  # events at once


class Told(NamedTuple):
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


def _look(desk: Desk, sender: str, kept: Kept) -> Look:
    graph = desk.at(sender).graph()
    messages = desk.find(Query(INBOX + sender, only=Filter(category=MESSAGE)))
    done = (task for task in graph.tasks if task.status is Status.DONE)
    alike = settings_of(desk, sender).thresholds.high
    return Look(graph, tuple(messages), kept.told, desk.now(), usual_time(done), alike)


def _useless(kept: Kept, look: Look) -> Iterator[Task]:
    """What was told of tasks and messages that were pruned since, fetched or not."""
    there = {task.id for task in (*look.graph.tasks, *look.messages)}
    yield from (mark for mark in kept.marks if mark.ref not in there)
    for note in kept.unread:
        about = note.extra.get("about")
        if isinstance(about, list | tuple) and about and not there.intersection(map(str, about)):
            yield note


class News:
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
        self._news: News | None = None
        self._waiting: set[str] = set()

    def round(self, trouble: Callable[[str], None]) -> Iterator[Told]:
        """What was told to whom. Trouble with one of them keeps no other waiting."""
        self._news = self._news or News(self._desk)
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
                yield Told(sender, tuple(notes))


def _senders(scopes: list[str]) -> list[str]:
    """Whose scopes these are, be it the tasks or the messages."""
    named = (scope.removeprefix(INBOX) for scope in scopes)
    return sorted({name for name in named if is_sender_hash(name)})
