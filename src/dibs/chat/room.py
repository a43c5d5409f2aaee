"""Where a sender's things are: their tasks in a scope of their own, and beside it the messages nobody has read yet.

A message is work too: somebody has to read it. So it is a task, due when its window closes, and what holds for tasks
holds for it: it is leased to one reader at a time, comes back when that one dies, and leaves its events. No agent can
claim one by accident, for it requires a capability that only readers have.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dibs.chat.conversation.settings import settings_of
from dibs.core.errors import Unsupported
from dibs.core.fields import Filter
from dibs.core.scopes import INBOX
from dibs.core.task import Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.chat.conversation.settings import Settings
    from dibs.core.task import Task
    from dibs.desk import Desk

MESSAGE = "message"  # the category of one
READER = "reads-messages"  # the capability of who may claim one
ORIGIN = "chat"


def can_chat(desk: Desk) -> bool:
    can = desk.capabilities
    return can.transactions and can.scopes and can.links and can.history and desk.has_vectors and desk.has_settings


class Room:
    """One sender's tasks and inbox. Nothing here can reach those of another: a room knows one sender only."""

    def __init__(self, desk: Desk, sender: str) -> None:
        if not can_chat(desk):
            raise Unsupported("Chat needs a store with transactions, links and scopes: SQLite, PostgreSQL or Neo4j.")
        self.sender = sender
        self.tasks = desk.at(sender)
        self.inbox = desk.at(INBOX + sender, internal=True)

    @cached_property
    def settings(self) -> Settings:
        """As they are when this room is first asked."""
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
