"""Operations of senders and readers, for a player."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from unittest.mock import patch

from dibs import mail
from dibs.chat.conversation.delivery import deliver
from dibs.chat.conversation.inbox import SenderScopes, add_message, senders_waiting
from dibs.chat.conversation.reader import Reader
from dibs.core.errors import AlreadyExists
from dibs.core.task import Actor, Link, LinkKind
from dibs.desk import Desk
from dibs.mail import Mailbox, sender_box
from support.chat import ANN, analyst, embedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Task
    from dibs.mail import Note

analyst()  # once, not in every fork


def say(desk: Desk, text: str) -> int:
    """Add a message, and return the number of messages in the window."""
    return add_message(SenderScopes(Desk(desk._store, by=Actor("chat")), ANN), text).messages


def flush(desk: Desk, name: str = "reader", *, now: bool = False) -> int:
    """Read the messages that are due, and return the number of new tasks."""
    outcome = Reader(Desk(desk._store), analyst(), embedder(), name).read(ANN, now=now)
    return 0 if outcome is None else len(outcome.tasks)


def tick(desk: Desk, name: str = "reader") -> int:
    """Read the due messages of all senders, as the timer does."""
    return sum(flush(desk, name) for _ in senders_waiting(Desk(desk._store)))


def tell(desk: Desk, name: str = "teller") -> int:
    """Deliver due notes, and return their number."""
    return len(deliver(Desk(desk._store, by=Actor(name)), ANN))


def hear(desk: Desk, name: str = "listener") -> list[str]:
    """Fetch the notes of the inbox."""
    with sender_box(Desk(desk._store, by=Actor(name)), ANN).fetch() as notes:
        return [note.description for note in notes]


def tie_and_tell(desk: Desk, task: str, on: str) -> int:
    """Link two tasks as another process would, then deliver the notes that are due."""
    Desk(desk._store, scope=ANN).link([Link(task, on, LinkKind.FEEDS_INTO)])
    return tell(desk, "other")


def tell_carelessly(desk: Desk) -> int:
    """The defect: write the notes first, and mark them as delivered in a second transaction."""

    def put(box: Mailbox, notes: Sequence[Note]) -> list[Task]:
        made = atomic(box, [note._replace(facts=()) for note in notes])
        for fact in (fact for note in notes for fact in note.facts):
            with suppress(AlreadyExists):
                box._desk.add([mail._marked(fact)])
        return made

    atomic = Mailbox.put
    with patch.object(Mailbox, "put", put):
        return tell(desk)
