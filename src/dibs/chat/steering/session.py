"""A sender's session: a command is carried out at once, any other message is stored and read with the rest.

Nothing is guessed: where several tasks match, the reply asks which one. A command is recorded as an event with its text
and changes, so that it can be undone, and an undo too.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.chat.analyst.analysis import OpenTask
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.conversation.inbox import Receipt, SenderScopes, add_message
from dibs.chat.conversation.plan import HISTORY, listed, order_text, plan_of, plan_text, why_text
from dibs.chat.steering.changes import (
    EFFECTS,
    CommandEffect,
    CommandInput,
    Reply,
    apply_changes,
    change_text,
    circular,
    from_json,
    reverted,
    to_json,
    which,
)
from dibs.chat.steering.commands import EVERYTHING, Command, Name, recognise
from dibs.core.errors import CycleDetected, LostLock
from dibs.core.task import Status
from dibs.core.times import in_words
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.inbox import SenderScopes
    from dibs.chat.conversation.plan import Plan
    from dibs.chat.conversation.reader import Outcome, Reader
    from dibs.chat.conversation.windows import Rule
    from dibs.chat.steering.changes import Applied, Change
    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.task import Json, Task


Sync: TypeAlias = "Callable[[], str | None] | None"
COMMAND = "command"  # the verb of the event that keeps one
_REMEMBERED = 2000  # events back that the last command is looked for
_NO_SYNC = (
    "Notion is not set up for you, so there is nothing to sync. Your tasks are where they were; 'What's the plan?' "
    "shows them."
)


class Steering:
    """For one sender. `preview` shows what a command would do, and does nothing. `sync` syncs them with Notion, and
    tells what came of it; None where they have not set that up. `message` is what a command goes by, should it be sent
    again."""

    def __init__(
        self, scopes: SenderScopes, embedder: Embedder, *, preview: bool = False, sync: Sync = None, message: str = ""
    ) -> None:
        self._scopes = scopes
        self._embedder = embedder
        self._preview = preview
        self._sync = sync
        self._message = message
        self._graph = scopes.tasks.graph(finished=False)
        self._tasks = {task.id: task for task in self._graph.tasks}
        known = [OpenTask(task.id, task.title, deliverable=task.deliverable) for task in self._graph.tasks]
        self._open = OpenTasks(known, embedder)

    def run(self, command: Command, text: str) -> Reply:
        match command.name:
            case Name.PLAN:
                return Reply(plan_text(self.plan(), self._scopes.tasks.now()))
            case Name.SYNC:
                return self._synced()
            case Name.UNDO:
                return self._undo(text)
        found: list[Task] = []
        for phrase in command.targets:
            if phrase == EVERYTHING:
                continue
            fitting = find_in(phrase, self._open)
            if fitting.one is None:
                return which(phrase, fitting.tasks, [item.task for item in self.plan().order])
            found.append(self._tasks[fitting.one.id])
        if command.name is Name.WHY:
            return Reply(why_text(found[0], self.plan(), self._scopes.tasks.now()))
        asked = CommandInput(
            self._graph, tuple(found), everything=EVERYTHING in command.targets, now=self._scopes.tasks.now()
        )
        return self._ordered(EFFECTS[command.name](asked), command.name, text)

    def _synced(self) -> Reply:
        if self._preview:
            return Reply("This would sync your tasks with Notion.")
        told = None if self._sync is None else self._sync()
        return Reply(_NO_SYNC, understood=False) if told is None else Reply(told)

    def plan(self, graph: Graph | None = None) -> Plan:
        done = self._scopes.tasks.find(Query(self._scopes.sender, (Status.DONE,), limit=HISTORY))
        return plan_of(graph or self._graph, done)

    def _ordered(self, order: CommandEffect, name: str, text: str) -> Reply:
        if not order.changes:
            return Reply(order.text, understood=order.understood)
        if self._preview:
            return Reply(listed("This would change:", map(change_text, order.changes)), changes=order.changes)
        try:
            done = apply_changes(self._scopes, order.changes, text)
        except CycleDetected as error:
            return circular(error.path, self._tasks)
        return self._effect(self._remember(name, text, done, order.text), done.made)

    def _undo(self, text: str) -> Reply:
        """Of the last command that changed anything, an undo included."""
        last = self._last_command()
        if last is None:
            return Reply("There is nothing to undo: no command has changed anything lately.", understood=False)
        told = last.detail["changes"]
        back = reverted([from_json(each) for each in told])  # type: ignore[union-attr,arg-type]  # as kept below
        if self._preview:
            return Reply(listed(f"This would undo '{last.reason}':", map(change_text, back)), changes=back)
        done = apply_changes(self._scopes, back, text)
        return self._effect(self._remember(Name.UNDO, text, done, f"Undone: '{last.reason}'."), done.made)

    def _last_command(self) -> Event | None:
        return next((event for event in _commands(self._scopes) if event.detail.get("changes")), None)

    def _remember(self, name: str, text: str, done: Applied, effect: str) -> str:
        """With what is answered, for who was not told and sends it again."""
        answer = "\n".join([effect if done.made else "Nothing was changed.", *done.failed])
        detail: dict[str, Json] = {"name": str(name), "changes": [to_json(change) for change in done.made]}
        if self._message:
            detail |= {"message": self._message, "answer": answer}
        self._scopes.tasks.record(COMMAND, reason=text, detail=detail)
        return answer

    def again(self, kept: Event) -> Reply:
        """What was answered to a command that was carried out before, with the order as it is now."""
        changes: Any = kept.detail["changes"]
        return self._effect(str(kept.detail["answer"]), tuple(from_json(each) for each in changes))

    def _effect(self, answer: str, made: tuple[Change, ...]) -> Reply:
        """What was done, what could not be, and the order that follows from it."""
        after = self.plan(self._scopes.tasks.graph(finished=False))
        return Reply(f"{answer}\n\nThe order is now:\n{order_text(after, self._scopes.tasks.now())}", changes=made)


def carried_out(scopes: SenderScopes, message: str) -> Event | None:
    """The command that was sent under this id, if it was carried out."""
    return next((event for event in _commands(scopes) if event.detail.get("message") == message), None)


def _commands(scopes: SenderScopes) -> Iterator[Event]:
    """The last ones, the newest first."""
    return (event for event in reversed(scopes.tasks.events(last=_REMEMBERED)) if event.verb == COMMAND)


class SayResult(NamedTuple):
    """`command` is what it was understood as; without one it is a message, `noted` unless it was only a preview."""

    text: str
    command: Command | None = None
    reply: Reply = Reply("")
    noted: Receipt | None = None
    read: Outcome | None = None


class ChatSession:
    """Takes the messages of one sender."""

    def __init__(
        self, scopes: SenderScopes, embedder: Embedder, reader: Reader, rule: Rule | None = None, sync: Sync = None
    ) -> None:
        self._scopes = scopes
        self._embedder = embedder
        self._reader = reader
        self._rule = rule
        self._sync = sync

    def say(self, text: str, *, preview: bool = False, message: str = "") -> SayResult:
        """`message` is the id that it is to have. What is kept under it already is not kept again, and a command that
        was carried out under it is answered as before."""
        if message and not preview and (kept := carried_out(self._scopes, message)) is not None:
            done = Command(Name(str(kept.detail["name"])))
            return SayResult(text, done, Steering(self._scopes, self._embedder).again(kept))
        known = _KnownNames(self._scopes, self._embedder)
        command = recognise(text, known)
        if command is None:
            return self._note(text, message, preview=preview)
        read = None if preview else self._read_first()
        steering = Steering(self._scopes, self._embedder, preview=preview, sync=self._sync, message=message)
        return SayResult(text, command, steering.run(command, text), read=read)

    def _read_first(self) -> Outcome | None:
        """A command may be about what was said a moment ago, so that is read before."""
        try:
            return self._reader.read(self._scopes.sender, now=True)
        except LostLock:  # somebody else has read it
            return None

    def _note(self, text: str, message: str, *, preview: bool) -> SayResult:
        if preview:
            return SayResult(
                text, reply=Reply("This is a message: it would be kept, and read with what you say besides.")
            )
        noted = add_message(self._scopes, text, self._rule, message)
        seconds = round((noted.closes_at - noted.message.created_at).total_seconds())
        when = f"in {in_words(timedelta(seconds=seconds))}" if seconds > 0 else "now"
        together = f", with {noted.messages - 1} more" if noted.messages > 1 else ""
        return SayResult(text, reply=Reply(f"Noted. It is read {when}{together}."), noted=noted)


class _KnownNames:
    """Whether words can stand for a task: one that is open, or one that was asked for and not read yet."""

    def __init__(self, scopes: SenderScopes, embedder: Embedder) -> None:
        self._scopes = scopes
        self._embedder = embedder

    def __call__(self, phrase: str) -> bool:
        return phrase == EVERYTHING or bool(find_in(phrase, self._tasks).tasks)

    @cached_property
    def _tasks(self) -> OpenTasks:
        """Looked up only if the words alone cannot tell."""
        there = [OpenTask(task.id, task.title) for task in self._scopes.tasks.graph(finished=False).tasks]
        asked_for = [OpenTask(message.id, message.title) for message in self._scopes.unread()]
        return OpenTasks([*there, *asked_for], self._embedder)
