"""What people and readers do, as operations for a player."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chat_scenes import ANN, analyst, embedder
from dibs.chat.intake import take_in
from dibs.chat.reading import Reader
from dibs.chat.room import Room, senders_waiting

if TYPE_CHECKING:
    from dibs.desk import Desk

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
