"""A sender's tasks and inbox, and adding messages to the inbox.

Each sender's tasks are in a scope of their own, and their unread messages in a second scope. A message is a task that
is due when its window closes. So it is leased to one reader at a time, becomes claimable again if that reader dies, and
leaves events. No agent can claim one by accident: a message requires a capability that only readers have.

A message is stored before the sender gets an answer.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.conversation.settings import settings_of
from dibs.chat.conversation.windows import Window, receive
from dibs.core.checks import headline
from dibs.core.errors import AlreadyExists, IllegalMove, InvalidInput, Unsupported
from dibs.core.fields import Filter
from dibs.core.scopes import INBOX
from dibs.core.task import Draft, Edit, Status
from dibs.core.times import time_from, time_text
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dibs.chat.conversation.settings import Settings
    from dibs.chat.conversation.windows import Rule
    from dibs.core.task import Task
    from dibs.desk import Desk


MESSAGE = "message"  # the category of one
READER = "reads-messages"  # the capability of who may claim one
ORIGIN = "chat"


def can_chat(desk: Desk) -> bool:
    can = desk.capabilities
    return can.transactions and can.scopes and can.links and can.history and desk.has_vectors and desk.has_settings


class SenderScopes:
    """One sender's tasks and inbox, and no other sender's."""

    def __init__(self, desk: Desk, sender: str) -> None:
        if not can_chat(desk):
            raise Unsupported("Chat needs a store with transactions, links and scopes: SQLite, PostgreSQL or Neo4j.")
        self.sender = sender
        self.tasks = desk.at(sender)
        self.inbox = desk.at(INBOX + sender, internal=True)

    @cached_property
    def settings(self) -> Settings:
        """The settings as of the first access."""
        return settings_of(self.tasks, self.sender)

    def unread(self) -> list[Task]:
        """The messages that nobody is reading, oldest first."""
        found = self.inbox.find(Query(self.inbox.scope, (Status.READY,), only=Filter(category=MESSAGE)))
        return sorted(found, key=received)


def received(message: Task) -> tuple[object, ...]:
    """By which messages are in their order."""
    return message.created_at, message.queued_at, message.id


def senders_waiting(desk: Desk) -> list[str]:
    """The senders whose messages are due to be read."""
    due = desk.scopes(claimable=True, internal=True)
    return [scope.removeprefix(INBOX) for scope in due if scope.startswith(INBOX)]


LONGEST = 20_000  # characters
_RETRIES = 10  # a message that brings its reader down each time is for a person to look at
_RHYTHM, _RHYTHM_KEPT = "rhythm", "chat_rhythm"  # seconds: with each message, and as a setting of the sender


class Receipt(NamedTuple):
    """A message that is kept, when it will be read, and how many are in its window by now."""

    message: Task
    closes_at: datetime
    messages: int


def add_message(scopes: SenderScopes, text: str, rule: Rule | None = None, name: str = "") -> Receipt:
    """Keep a message in the sender's window: the one that is open, or a new one, as their settings have it.

    `name` is its id, where it may be sent twice: it is kept once.
    """
    said = _checked(text)
    rule = rule or scopes.settings.rule
    now = scopes.tasks.now()
    unread = scopes.unread()
    together = [message for message in unread if message.not_before is not None and window_end(message) > now]
    latest = together or unread
    came = receive(_window(latest), now, _rhythm(scopes, latest), rule)
    full = came.window.messages >= rule.most
    try:
        message = _kept(scopes, said, came.window.closes_at, came.rhythm, name, due=full)
    except AlreadyExists:
        message = scopes.inbox.get(name)
        return Receipt(message, window_end(message), len(together))
    if full or came.closed is not None:
        close_window(scopes, together)
    return Receipt(message, now if full else came.window.closes_at, came.window.messages)


def close_window(scopes: SenderScopes, messages: Sequence[Task]) -> None:
    """Close a window now. A message that somebody has begun to read meanwhile needs no closing."""
    for message in messages:
        try:
            scopes.inbox.edit(message.id, Edit(not_before=None, why="the window was closed"))
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


def _rhythm(scopes: SenderScopes, messages: Sequence[Task]) -> timedelta | None:
    """The usual pause of this sender, as the latest of these messages has it, or one that was read before."""
    seconds = messages[-1].extra.get(_RHYTHM) if messages else scopes.tasks.settings().get(_RHYTHM_KEPT)
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) else None


def remember_rhythm(scopes: SenderScopes, latest: Task) -> None:
    """For the next window, which opens when this message is long read. To the second will do."""
    seconds = latest.extra.get(_RHYTHM)
    if isinstance(seconds, int | float) and scopes.tasks.settings().get(_RHYTHM_KEPT) != round(seconds):
        scopes.tasks.configure({_RHYTHM_KEPT: round(seconds)})


def _kept(
    scopes: SenderScopes, said: str, closes_at: datetime, rhythm: timedelta | None, name: str, *, due: bool
) -> Task:
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
    return scopes.inbox.add([draft])[0]
