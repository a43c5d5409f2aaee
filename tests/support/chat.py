"""A conversation on a real store: senders, a reader, and a clock that the test moves."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from conformance.harness import HARNESSES
from dibs.chat.analyst.embedders import open_embedder
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.delivery import deliver
from dibs.chat.conversation.inbox import SenderScopes, add_message, senders_waiting
from dibs.chat.conversation.reader import Reader
from dibs.chat.steering.session import ChatSession
from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.mail import sender_box
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.chat.analyst.analysis import Analyst
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.inbox import Receipt
    from dibs.chat.conversation.reader import Outcome
    from dibs.chat.conversation.settings import Limits
    from dibs.chat.steering.session import SayResult
    from dibs.core.task import Json, Task
    from dibs.stores.port import Store
    from support.clock import Clock

KINDS = ("neo4j", "postgres", "sqlite")
ANN, BOB = "a" * 64, "b" * 64


@cache
def embedder() -> Embedder:
    return open_embedder("builtin", {})


@cache
def analyst() -> Analyst:
    return WordAnalyst(embedder())


class Scene:
    def __init__(self, store: Store, clock: Clock, limits: Limits | None = None) -> None:
        self.store = store
        self.clock = clock
        self.limits = limits

    def scopes(self, sender: str = ANN) -> SenderScopes:
        return SenderScopes(Desk(self.store, by=Actor("chat")), sender)

    def hear(self, *messages: str, sender: str = ANN, pause: float = 1) -> list[Receipt]:
        """Said one after the other."""
        noted = []
        for message in messages:
            noted.append(add_message(self.scopes(sender), message))
            self.clock.advance(seconds=pause)
        return noted

    def read(self, sender: str = ANN, *, now: bool = False, name: str = "reader") -> Outcome | None:
        return Reader(Desk(self.store), analyst(), embedder(), name, self.limits).read(sender, now=now)

    def say(self, text: str, *, sender: str = ANN, preview: bool = False) -> SayResult:
        """A message, or a command that is carried out."""
        reader = Reader(Desk(self.store), analyst(), embedder(), "reader", self.limits)
        said = ChatSession(self.scopes(sender), embedder(), reader).say(text, preview=preview)
        self.clock.advance(seconds=1)
        return said

    def tick(self) -> list[Outcome]:
        """What the timer does."""
        found = (self.read(sender) for sender in senders_waiting(Desk(self.store)))
        return [outcome for outcome in found if outcome is not None]

    def finish_next(self, result: Json, sender: str = ANN, agent: str = "worker") -> str:
        """What an agent is given, and does."""
        token = f"token {self.clock.time}"
        (claimed,) = self.store.claim(ClaimRequest(agent, (token,), sender))
        self.scopes(sender).tasks.move(Verb.DONE, claimed.task.id, token=token, result=result)
        self.clock.advance(seconds=1)
        return claimed.task.title

    def heard(self, sender: str = ANN) -> list[Task]:
        return fetched(self.store, sender)

    def texts(self, sender: str = ANN) -> list[str]:
        return [note.description for note in self.heard(sender)]

    def tasks(self, sender: str = ANN) -> dict[str, Task]:
        """By title; none is there twice unless it was merged."""
        found = [task for task in self.store.find(Query(sender)) if task.merged_into is None]
        assert len({task.title for task in found}) == len(found), found
        return {task.title: task for task in found}

    def messages(self, sender: str = ANN) -> list[Task]:
        return self.store.find(Query(f".inbox.{sender}"))


def fetched(store: Store, sender: str = ANN, name: str = "tester") -> list[Task]:
    """What `dibs inbox` hands over."""
    deliver(Desk(store, by=Actor(name)), sender)
    with sender_box(Desk(store, by=Actor(name)), sender).fetch() as notes:
        return notes


@contextmanager
def opened(kind: str, folder: str) -> Iterator[Scene]:
    harness = HARNESSES[kind](folder)
    store = harness.open()
    yield Scene(store, harness.clock)
    assert store.check(fix=False) == []
    store.close()
    harness.close()
