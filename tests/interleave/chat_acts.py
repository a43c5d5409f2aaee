"""What people and readers do, as operations for a player."""

from __future__ import annotations

from chat_scenes import ANN, analyst, embedder
from dibs.chat.intake import take_in
from dibs.chat.outbox import deliver
from dibs.chat.reading import Reader
from dibs.chat.room import Room, senders_waiting
from dibs.core.task import Actor, Link, LinkKind
from dibs.desk import Desk
from dibs.mailbox import sender_box

analyst()  # once, not in every fork


def say(desk: Desk, text: str) -> int:
    """How many messages are in the window by now."""
    return take_in(Room(desk.store, ANN), text).messages


def flush(desk: Desk, name: str = "reader", *, now: bool = False) -> int:
    """How many tasks it made of what is due."""
    outcome = Reader(desk.store, analyst(), embedder(), name).read(ANN, now=now)
    return 0 if outcome is None else len(outcome.tasks)


def tick(desk: Desk, name: str = "reader") -> int:
    """The same as the timer does it."""
    return sum(flush(desk, name) for _ in senders_waiting(desk.store))


def tell(desk: Desk, name: str = "teller") -> int:
    """How many notes it put into the inbox."""
    return len(deliver(desk.store, ANN, Actor(name)))


def hear(desk: Desk, name: str = "listener") -> list[str]:
    """What was handed over."""
    with sender_box(desk.store, ANN, Actor(name)).fetch() as notes:
        return [note.description for note in notes]


def tie_and_tell(desk: Desk, task: str, on: str) -> int:
    """Somebody finds out that two tasks belong together, and tells what is due then."""
    Desk(desk.store, scope=ANN).link([Link(task, on, LinkKind.FEEDS_INTO)])
    return tell(desk, "other")
