"""A sender's session: commands are carried out at once, other messages are stored and read later.

Where several tasks match, the reply asks which one. Each command is recorded as an event with its text and changes, so
that it can be undone, and its undo too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.chat.analyst.analysis import Message, OpenTask, Role
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.analyst.understanding import Titles, doing, steers, understood
from dibs.chat.analyst.word_analyst import WordAnalyst
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
from dibs.chat.steering.commands import EVERYTHING, Command, Name
from dibs.chat.steering.preview import PreviewContext, commanded, preview
from dibs.core.errors import CycleDetected, LostLock
from dibs.core.task import LinkKind, Status
from dibs.core.times import in_words
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.inbox import SenderScopes
    from dibs.chat.conversation.plan import Plan
    from dibs.chat.conversation.reader import Outcome, Reader
    from dibs.chat.conversation.windows import Rule
    from dibs.chat.steering.changes import Applied, Change
    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.task import Json, Task


# The number of tasks of a command, where it is fixed.
_NAMED = {
    **dict.fromkeys((Name.PRIORITY, Name.DEFER, Name.FOCUS, Name.DONE, Name.EDIT, Name.WHY), 1),
    **dict.fromkeys((Name.BEFORE, Name.AFTER), 2),
}
_WITHOUT_NAME = frozenset({Name.PAUSE, Name.RESUME, Name.INDEPENDENT})  # without a name, these mean all tasks

Sync: TypeAlias = "Callable[[], str | None] | None"
COMMAND = "command"  # the verb of a command's event
_REMEMBERED = 2000  # events that the search for the last command covers
_NO_SYNC = "Notion is not set up for you, so nothing was synced. 'What's the plan?' shows them."


class Steering:
    """Carries out one sender's commands. With `preview`, it only describes their effects.

    `sync` syncs the tasks with Notion and reports the result; None if the sender has not set it up. `message`
    identifies a command that may be sent again.
    """

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
        if not (found or command.targets or command.name in _WITHOUT_NAME):
            return which(text, [], [item.task for item in self.plan().order])
        if command.name is Name.WHY:
            return Reply(why_text(found[0], self.plan(), self._scopes.tasks.now()))
        if len(found) != _NAMED.get(command.name, len(found)):
            return which(text, [], [item.task for item in self.plan().order])
        asked = CommandInput(
            self._graph, tuple(found), EVERYTHING in command.targets, self._scopes.tasks.now(), text.strip()
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
        """Undo the last command that changed anything, which may be an undo."""
        last = self._last_command()
        if last is None:
            return Reply("There is nothing to undo: no recent command has changed anything.", understood=False)
        told = last.detail["changes"]
        back = reverted([from_json(each) for each in told])  # type: ignore[union-attr,arg-type]  # as kept below
        if self._preview:
            return Reply(listed(f"This would undo '{last.reason}':", map(change_text, back)), changes=back)
        done = apply_changes(self._scopes, back, text)
        return self._effect(self._remember(Name.UNDO, text, done, f"Undone: '{last.reason}'."), done.made)

    def _last_command(self) -> Event | None:
        return next((event for event in _commands(self._scopes) if event.detail.get("changes")), None)

    def _remember(self, name: str, text: str, done: Applied, effect: str) -> str:
        """Record the command, and return the reply, which is stored for a repeated message."""
        answer = "\n".join([effect if done.made else "Nothing was changed.", *done.failed])
        detail: dict[str, Json] = {"name": str(name), "changes": [to_json(change) for change in done.made]}
        if self._message:
            detail |= {"message": self._message, "answer": answer}
        self._scopes.tasks.record(COMMAND, reason=text, detail=detail)
        return answer

    def again(self, kept: Event) -> Reply:
        """The stored answer to an earlier command, with the current order."""
        changes: Any = kept.detail["changes"]
        return self._effect(str(kept.detail["answer"]), tuple(from_json(each) for each in changes))

    def _effect(self, answer: str, made: tuple[Change, ...]) -> Reply:
        """The reply: the answer, the changes and the new order."""
        after = self.plan(self._scopes.tasks.graph(finished=False))
        return Reply(f"{answer}\n\nThe order is now:\n{order_text(after, self._scopes.tasks.now())}", changes=made)


def carried_out(scopes: SenderScopes, message: str) -> Event | None:
    """The command that was carried out under this message id, or None."""
    return next((event for event in _commands(scopes) if event.detail.get("message") == message), None)


def _commands(scopes: SenderScopes) -> Iterator[Event]:
    """The latest commands, newest first."""
    return (event for event in reversed(scopes.tasks.events(last=_REMEMBERED)) if event.verb == COMMAND)


class SayResult(NamedTuple):
    """The result of a message. `command` is set for a command, `noted` for a stored message."""

    text: str
    command: Command | None = None
    reply: Reply = Reply("")
    noted: Receipt | None = None
    read: Outcome | None = None


QUESTION, ANSWER = "question", "answer"  # the verbs of the events for questions and answers
_YES, _NO, _TASK = "yes", "no", "task"
_ANSWERS = {
    **dict.fromkeys(("yes", "y", "yep", "yeah", "ja", "jo", "oui", "si", "sí"), _YES),
    **dict.fromkeys(("no", "n", "nope", "nein", "nee", "non"), _NO),
    **dict.fromkeys(("task", "add", "aufgabe", "tâche", "tache", "tarea"), _TASK),
}
_HOW_TO_ANSWER = "Answer yes or no, or task if it is new work."
_MARKS = " .!,"
_EXPIRES = timedelta(minutes=15)
_REMEMBERED_QUESTIONS = 50  # events that the search for a question covers
_CONTEXT = 4  # unread messages that a new one is classified with


class ChatSession:
    """Processes one sender's messages."""

    def __init__(
        self, scopes: SenderScopes, embedder: Embedder, reader: Reader, rule: Rule | None = None, sync: Sync = None
    ) -> None:
        self._scopes = scopes
        self._embedder = embedder
        self._reader = reader
        self._rule = rule
        self._sync = sync

    def say(self, text: str, *, preview: bool = False, message: str = "") -> SayResult:
        """Process a message. `message` is its id: a repeated one is neither stored nor carried out again."""
        if message and not preview and (kept := carried_out(self._scopes, message)) is not None:
            done = Command(Name(str(kept.detail["name"])))
            return SayResult(text, done, Steering(self._scopes, self._embedder).again(kept))
        asked = self._open_question()
        if asked is not None and (answer := _ANSWERS.get(text.strip(_MARKS).lower())) is not None:
            return self._answered(asked, answer, preview=preview, message=message)
        unread, tasks = self._scopes.unread(), self._scopes.tasks.graph(finished=False).tasks
        titles = Titles([task.title for task in tasks])
        texts = [*(one.description for one in unread[-_CONTEXT:]), text]
        acts = understood(texts, titles)
        steer = steers(texts, titles, acts)[-1]
        there = OpenTasks([OpenTask(one.id, one.title) for one in (*tasks, *unread)], self._embedder)
        command = commanded(text, there, acts[-1], steer)
        if command is not None:
            return self._carried(command, text, preview=preview, message=message)
        if steer is not None:
            return self._ask(text, steer.name, [tasks[number] for number in steer.tasks], preview=preview)
        return self._note(text, message, preview=preview)

    def _carried(self, command: Command, text: str, *, preview: bool, message: str) -> SayResult:
        read = None if preview else self._read_first()
        steering = Steering(self._scopes, self._embedder, preview=preview, sync=self._sync, message=message)
        return SayResult(text, command, steering.run(command, text), read=read)

    def _ask(self, text: str, name: str, tasks: Sequence[Task], *, preview: bool) -> SayResult:
        """Ask whether the message is a command. The question expires, and no work waits for it."""
        command = Command(Name(name), tuple(task.id for task in tasks))
        if not preview:
            detail: dict[str, Json] = {"name": name, "targets": list(command.targets)}
            self._scopes.tasks.record(QUESTION, reason=text, detail=detail)
        meant = doing(name, [task.title for task in tasks])
        return SayResult(text, command, Reply(f"Do you mean: {meant}? {_HOW_TO_ANSWER}", understood=False))

    def _open_question(self) -> Event | None:
        """The last question, unless it has expired or another message followed."""
        events = self._scopes.tasks.events(last=_REMEMBERED_QUESTIONS)
        last = next((one for one in reversed(events) if one.verb in {QUESTION, ANSWER, COMMAND}), None)
        if last is None or last.verb != QUESTION or self._scopes.tasks.now() - last.at > _EXPIRES:
            return None
        return None if any(one.created_at > last.at for one in self._scopes.unread()) else last

    def _answered(self, asked: Event, answer: str, *, preview: bool, message: str) -> SayResult:
        said = str(asked.reason)
        if preview:
            return SayResult(said, reply=Reply(f"This would answer the question about '{said}' with {answer}."))
        self._scopes.tasks.record(ANSWER, reason=said, detail={"answer": answer})
        if answer == _NO:
            return SayResult(said, reply=Reply("Nothing was changed."))
        if answer == _TASK:
            return self._note(said, message, preview=False, role=Role.REQUEST)
        targets: Any = asked.detail["targets"]
        command = Command(Name(str(asked.detail["name"])), tuple(targets))
        return self._carried(command, said, preview=False, message=message)

    def _read_first(self) -> Outcome | None:
        """Read waiting messages first, since the command may be about their tasks."""
        try:
            return self._reader.read(self._scopes.sender, now=True)
        except LostLock:  # another reader has read it
            return None

    def _preview(self, text: str) -> str:
        """The tasks and links that the message would create together with the unread ones."""
        graph = self._scopes.tasks.graph(finished=False)
        known = tuple(OpenTask(task.id, task.title, (), task.deliverable) for task in graph.tasks)
        texts = [*(one.description for one in self._scopes.unread()), text]
        messages = [Message(number, said) for number, said in enumerate(texts, 1)]
        context = PreviewContext(known, graph.prerequisites(), self._scopes.settings.thresholds)
        found = preview(messages, WordAnalyst(self._embedder), self._embedder, context).analysis
        names = {task.ref: task.title for task in found.tasks} | {task.id: task.title for task in known}
        merged = {merge.task.ref: merge.into for merge in found.merges}
        lines = [f"{task.title} ({task.deliverable})" for task in found.tasks]
        lines += [f"'{one.task.title}' is the same as '{names.get(one.into, one.into)}'" for one in found.merges]
        lines += [
            f"'{names[link.task]}' waits for '{names[link.on]}'"
            for link in found.links
            if link.kind is not LinkKind.PARALLEL_OK and {link.task, link.on} <= names.keys() - merged.keys()
        ]
        asked = [f"{question.text}" for question in found.questions]
        return "\n".join([listed("This would make:", lines) if lines else "This would add no task.", *asked])

    def _note(self, text: str, message: str, *, preview: bool, role: Role | None = None) -> SayResult:
        if preview:
            return SayResult(text, reply=Reply(self._preview(text)))
        noted = add_message(self._scopes, text, self._rule, message, role)
        seconds = round((noted.closes_at - noted.message.created_at).total_seconds())
        when = f"in {in_words(timedelta(seconds=seconds))}" if seconds > 0 else "now"
        what = f"your {noted.messages} messages" if noted.messages > 1 else "your message"
        return SayResult(text, reply=Reply(f"Got it. I'll process {what} {when}."), noted=noted)
