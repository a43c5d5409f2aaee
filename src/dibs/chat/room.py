"""Where a sender's things are: their tasks in a scope of their own, and beside it the messages nobody has read yet.

A message is work too: somebody has to read it. So it is a task, due when its window closes, and what holds for tasks
holds for it: it is leased to one reader at a time, comes back when that one dies, and leaves its events. No agent can
claim one by accident, for it requires a capability that only readers have.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dibs.chat.settings import settings_of
from dibs.core.errors import Unsupported
from dibs.core.scopes import INBOX
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.chat.settings import Settings
    from dibs.core.task import Task
    from dibs.stores.port import Store

MESSAGE = "message"  # the category of one
READER = "reads-messages"  # the capability of who may claim one
ORIGIN = "chat"


def can_chat(store: Store) -> bool:
    can = store.capabilities
    whole = can.transactions and can.scopes and can.links and can.history
    return whole and store.vectors is not None and store.settings is not None


class Room:
    """One sender's tasks and inbox. Nothing here can reach those of another: a room knows one sender only."""

    def __init__(self, store: Store, sender: str, by: Actor = Actor("chat")) -> None:  # noqa: B008 - frozen
        if not can_chat(store):
            raise Unsupported("Chat needs a store with transactions, links and scopes: SQLite, PostgreSQL or Neo4j.")
        self.store = store
        self.sender = sender
        self.tasks = Desk(store, scope=sender, by=by)
        self.inbox = Desk(store, scope=INBOX + sender, by=by, internal=True)

    @cached_property
    def settings(self) -> Settings:
        """As they are when this room is first asked."""
        return settings_of(self.store, self.sender)

    def unread(self) -> list[Task]:
        """The messages that nobody is reading, oldest first."""
        found = self.store.find(Query(self.inbox.scope, (Status.READY,), category=MESSAGE))
        return sorted(found, key=received)


def received(message: Task) -> tuple[object, ...]:
    """By which messages are in their order."""
    return message.created_at, message.queued_at, message.id


def senders_waiting(store: Store) -> list[str]:
    """Whose messages are due to be read."""
    return [scope.removeprefix(INBOX) for scope in store.scopes(claimable=True) if scope.startswith(INBOX)]
