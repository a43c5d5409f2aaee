"""A sender's tasks and inbox, and adding messages to the inbox.

Each sender has a scope for tasks and another one for unread messages. A message is a task that is due when its window
closes. So it is leased to one reader at a time, becomes claimable again if that reader dies, and leaves events. Agents
cannot claim it by accident: a message requires a capability that only readers have.

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
from dibs.core.task import INBOX, Draft, Edit, Status
from dibs.core.times import time_from, time_text
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dibs.chat.analyst.analysis import Role
    from dibs.chat.conversation.settings import Settings
    from dibs.chat.conversation.windows import Received, Rule
    from dibs.core.task import Json, Task
    from dibs.desk import Desk


MESSAGE = "message"  # the category of a message
READER = "reads-messages"  # the capability that a claim of a message requires
ORIGIN = "chat"
ROLE = "role"  # the key of a message's role, if the sender has confirmed one


def can_chat(desk: Desk) -> bool:
    can = desk.capabilities
    return can.transactions and can.scopes and can.links and can.history and desk.has_vectors and desk.has_settings


class SenderScopes:
    """The tasks and inbox of one sender."""

    def __init__(self, desk: Desk, sender: str) -> None:
        if not can_chat(desk):
            raise Unsupported("Chat needs a store with transactions, links and scopes: SQLite, PostgreSQL or Neo4j.")
        self.sender = sender
        self.tasks = desk.at(sender)
        self.inbox = desk.at(INBOX + sender, internal=True)

    @cached_property
    def settings(self) -> Settings:
        """The settings, cached on first access."""
        return settings_of(self.tasks, self.sender)

    def unread(self) -> list[Task]:
        """The messages that no reader has claimed, oldest first."""
        found = self.inbox.find(Query(self.inbox.scope, (Status.READY,), only=Filter(category=MESSAGE)))
        return sorted(found, key=received)


def received(message: Task) -> tuple[object, ...]:
    """The sort key of messages: by arrival."""
    return message.created_at, message.queued_at, message.id


def senders_waiting(desk: Desk) -> list[str]:
    """The senders whose messages are due to be read."""
    due = desk.scopes(claimable=True, internal=True)
    return [scope.removeprefix(INBOX) for scope in due if scope.startswith(INBOX)]


LONGEST = 20_000  # characters
_RETRIES = 10  # after so many failed attempts, a message waits for a person
_RHYTHM, _RHYTHM_KEPT = "rhythm", "chat_rhythm"  # seconds: stored with each message, and as a setting of the sender


class Receipt(NamedTuple):
    """A stored message, its reading time, and the number of messages in its window."""

    message: Task
    closes_at: datetime
    messages: int


def add_message(
    scopes: SenderScopes, text: str, rule: Rule | None = None, name: str = "", role: Role | None = None
) -> Receipt:
    """Add a message to the sender's open window, or open a new one according to their settings.

    `name` is its id: a message sent twice with one id is stored once. `role` classifies it in advance.
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
        message = _kept(scopes, said, _extra(came, role), name, due_at=None if full else came.window.closes_at)
    except AlreadyExists:
        message = scopes.inbox.get(name)
        return Receipt(message, window_end(message), len(together))
    if full or came.closed is not None:
        close_window(scopes, together)
    return Receipt(message, now if full else came.window.closes_at, came.window.messages)


def close_window(scopes: SenderScopes, messages: Sequence[Task]) -> None:
    """Close a window now. Messages that a reader has just claimed need no change."""
    for message in messages:
        try:
            scopes.inbox.edit(message.id, Edit(not_before=None, why="the window was closed"))
        except IllegalMove:
            continue


def window_end(message: Task) -> datetime:
    """When the message's window closes or closed. A claim removes `not_before`, so the message also stores it."""
    return time_from(str(message.extra["window_expires_at"]))


def _checked(text: str) -> str:
    said = text.strip()
    if not said:
        raise InvalidInput("The message is empty. Write what should be done.")
    if len(said) > LONGEST:
        raise InvalidInput(f"A message has at most {LONGEST} characters, this one has {len(said)}; send it in parts.")
    return said


def _window(messages: Sequence[Task]) -> Window | None:
    if not messages:
        return None
    closes_at = min(window_end(message) for message in messages)
    return Window(closes_at, messages[-1].created_at, len(messages))


def _rhythm(scopes: SenderScopes, messages: Sequence[Task]) -> timedelta | None:
    """The usual pause of this sender, from the latest message or the stored setting."""
    seconds = messages[-1].extra.get(_RHYTHM) if messages else scopes.tasks.settings().get(_RHYTHM_KEPT)
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) else None


def remember_rhythm(scopes: SenderScopes, latest: Task) -> None:
    """Store the pause, in seconds, for the next window, which may open after this message is gone."""
    seconds = latest.extra.get(_RHYTHM)
    if isinstance(seconds, int | float) and scopes.tasks.settings().get(_RHYTHM_KEPT) != round(seconds):
        scopes.tasks.configure({_RHYTHM_KEPT: round(seconds)})


def _extra(came: Received, role: Role | None) -> dict[str, Json]:
    extra: dict[str, Json] = {"window_expires_at": time_text(came.window.closes_at)}
    if came.rhythm is not None:
        extra[_RHYTHM] = came.rhythm.total_seconds()
    return extra if role is None else extra | {ROLE: str(role)}


def _kept(scopes: SenderScopes, said: str, extra: Mapping[str, Json], name: str, *, due_at: datetime | None) -> Task:
    draft = Draft(
        title=headline(said),
        id=name,
        description=said,
        category=MESSAGE,
        requires=(READER,),
        not_before=due_at,
        max_retries=_RETRIES,
        origin=ORIGIN,
        extra=extra,
    )
    return scopes.inbox.add([draft])[0]
