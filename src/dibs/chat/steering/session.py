"""Carrying out what a person says to steer: find what is meant, work out what would change, do it, show the effect.

Nothing is guessed: where several tasks fit, it is asked which. What a command has changed is kept with its words as an
event, so that it can be undone, and an undo too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.chat import orders
from dibs.chat.analyst.analysis import Known
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.conversation.plan import HISTORY, listed, order_text, plan_of, plan_text, why_text
from dibs.chat.orders import Asked, Order
from dibs.chat.replies import Reply, which
from dibs.chat.steering.changes import carry_out, from_json, to_json, turned_round, words
from dibs.chat.steering.commands import EVERYTHING, Name
from dibs.core.errors import CycleDetected
from dibs.core.task import Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.inbox import Room
    from dibs.chat.conversation.plan import Plan
    from dibs.chat.steering.changes import Change, Done
    from dibs.chat.steering.commands import Command
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
        self, room: Room, embedder: Embedder, *, preview: bool = False, sync: Sync = None, message: str = ""
    ) -> None:
        self._room = room
        self._embedder = embedder
        self._preview = preview
        self._sync = sync
        self._message = message
        self._graph = room.tasks.graph(finished=False)
        self._tasks = {task.id: task for task in self._graph.tasks}
        known = [Known(task.id, task.title, deliverable=task.deliverable) for task in self._graph.tasks]
        self._open = OpenTasks(known, embedder)

    def obey(self, command: Command, text: str) -> Reply:
        match command.name:
            case Name.PLAN:
                return Reply(plan_text(self.plan(), self._room.tasks.now()))
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
            return Reply(why_text(found[0], self.plan(), self._room.tasks.now()))
        asked = Asked(self._graph, tuple(found), everything=EVERYTHING in command.targets, now=self._room.tasks.now())
        return self._ordered(orders.ORDERS[command.name](asked), command.name, text)

    def _synced(self) -> Reply:
        if self._preview:
            return Reply("This would sync your tasks with Notion.")
        told = None if self._sync is None else self._sync()
        return Reply(_NO_SYNC, understood=False) if told is None else Reply(told)

    def plan(self, graph: Graph | None = None) -> Plan:
        done = self._room.tasks.find(Query(self._room.sender, (Status.DONE,), limit=HISTORY))
        return plan_of(graph or self._graph, done)

    def _ordered(self, order: Order, name: str, text: str) -> Reply:
        if not order.changes:
            return Reply(order.text, understood=order.understood)
        if self._preview:
            return Reply(listed("This would change:", map(words, order.changes)), changes=order.changes)
        try:
            done = carry_out(self._room, order.changes, text)
        except CycleDetected as error:
            return orders.circular(error.path, self._tasks)
        return self._effect(self._remember(name, text, done, order.text), done.made)

    def _undo(self, text: str) -> Reply:
        """Of the last command that changed anything, an undo included."""
        last = self._last_command()
        if last is None:
            return Reply("There is nothing to undo: no command has changed anything lately.", understood=False)
        told = last.detail["changes"]
        back = turned_round([from_json(each) for each in told])  # type: ignore[union-attr,arg-type]  # as kept below
        if self._preview:
            return Reply(listed(f"This would undo '{last.reason}':", map(words, back)), changes=back)
        done = carry_out(self._room, back, text)
        return self._effect(self._remember(Name.UNDO, text, done, f"Undone: '{last.reason}'."), done.made)

    def _last_command(self) -> Event | None:
        return next((event for event in _commands(self._room) if event.detail.get("changes")), None)

    def _remember(self, name: str, text: str, done: Done, effect: str) -> str:
        """With what is answered, for who was not told and sends it again."""
        answer = "\n".join([effect if done.made else "Nothing was changed.", *done.failed])
        detail: dict[str, Json] = {"name": str(name), "changes": [to_json(change) for change in done.made]}
        if self._message:
            detail |= {"message": self._message, "answer": answer}
        self._room.tasks.record(COMMAND, reason=text, detail=detail)
        return answer

    def again(self, kept: Event) -> Reply:
        """What was answered to a command that was carried out before, with the order as it is now."""
        changes: Any = kept.detail["changes"]
        return self._effect(str(kept.detail["answer"]), tuple(from_json(each) for each in changes))

    def _effect(self, answer: str, made: tuple[Change, ...]) -> Reply:
        """What was done, what could not be, and the order that follows from it."""
        after = self.plan(self._room.tasks.graph(finished=False))
        return Reply(f"{answer}\n\nThe order is now:\n{order_text(after, self._room.tasks.now())}", changes=made)


def carried_out(room: Room, message: str) -> Event | None:
    """The command that was sent under this id, if it was carried out."""
    return next((event for event in _commands(room) if event.detail.get("message") == message), None)


def _commands(room: Room) -> Iterator[Event]:
    """The last ones, the newest first."""
    return (event for event in reversed(room.tasks.events(last=_REMEMBERED)) if event.verb == COMMAND)
