"""Taking a message in: it is kept before anybody is told that it was heard, and says itself when it is to be read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.conversation.windows import Window, receive
from dibs.chat.room import MESSAGE, ORIGIN, READER
from dibs.core.checks import headline
from dibs.core.errors import AlreadyExists, IllegalMove, InvalidInput
from dibs.core.task import Draft, Edit
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dibs.chat.conversation.windows import Rule
    from dibs.chat.room import Room
    from dibs.core.task import Task

LONGEST = 20_000  # characters
_RETRIES = 10  # a message that brings its reader down each time is for a person to look at
_RHYTHM, _RHYTHM_KEPT = "rhythm", "chat_rhythm"  # seconds: with each message, and as a setting of the sender


class Noted(NamedTuple):
    """A message that is kept, when it will be read, and how many are in its window by now."""

    message: Task
    closes_at: datetime
    messages: int


def take_in(room: Room, text: str, rule: Rule | None = None, name: str = "") -> Noted:
    """Keep a message in the sender's window: the one that is open, or a new one, as their settings have it.

    `name` is its id, where it may be sent twice: it is kept once.
    """
    said = _checked(text)
    rule = rule or room.settings.rule
    now = room.tasks.now()
    unread = room.unread()
    together = [message for message in unread if message.not_before is not None and window_end(message) > now]
    latest = together or unread
    came = receive(_window(latest), now, _rhythm(room, latest), rule)
    full = came.window.messages >= rule.most
    try:
        message = _kept(room, said, came.window.closes_at, came.rhythm, name, due=full)
    except AlreadyExists:
        message = room.inbox.get(name)
        return Noted(message, window_end(message), len(together))
    if full or came.closed is not None:
        hasten(room, together)
    return Noted(message, now if full else came.window.closes_at, came.window.messages)


def hasten(room: Room, messages: Sequence[Task]) -> None:
    """Close a window now. A message that somebody has begun to read meanwhile needs no closing."""
    for message in messages:
        try:
            room.inbox.edit(message.id, Edit(not_before=None, why="the window was closed"))
        except IllegalMove:
            continue


def window_end(message: Task) -> datetime:
    """When the window of a message closes, or closed: being claimed makes it forget when it was due."""
    return time_from(str(message.extra["window_expires_at"]))


def _checked(text: str) -> str:
    said = text.strip()
    if not said:
        raise InvalidInput("The message is empty; say what is to be done.")
    if len(said) > LONGEST:
        raise InvalidInput(f"A message has at most {LONGEST} characters, this one has {len(said)}; send it in parts.")
    return said


def _window(messages: Sequence[Task]) -> Window | None:
    if not messages:
        return None
    closes_at = min(window_end(message) for message in messages)
    return Window(closes_at, messages[-1].created_at, len(messages))


def _rhythm(room: Room, messages: Sequence[Task]) -> timedelta | None:
    """The usual pause of this sender, as the latest of these messages has it, or one that was read before."""
    seconds = messages[-1].extra.get(_RHYTHM) if messages else room.tasks.settings().get(_RHYTHM_KEPT)
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) else None


def remember_rhythm(room: Room, latest: Task) -> None:
    """For the next window, which opens when this message is long read. To the second will do."""
    seconds = latest.extra.get(_RHYTHM)
    if isinstance(seconds, int | float) and room.tasks.settings().get(_RHYTHM_KEPT) != round(seconds):
        room.tasks.configure({_RHYTHM_KEPT: round(seconds)})


def _kept(room: Room, said: str, closes_at: datetime, rhythm: timedelta | None, name: str, *, due: bool) -> Task:
    extra = {"window_expires_at": time_text(closes_at)}
    draft = Draft(
        title=headline(said),
        id=name,
        description=said,
        category=MESSAGE,
        requires=(READER,),
        not_before=None if due else closes_at,
        max_retries=_RETRIES,
        origin=ORIGIN,
        extra=extra if rhythm is None else extra | {_RHYTHM: rhythm.total_seconds()},
    )
    return room.inbox.add([draft])[0]
