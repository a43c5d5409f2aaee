"""What happens to a message: a command is carried out at once, anything else is kept, to be read with the rest."""

from datetime import timedelta
from functools import cached_property
from typing import NamedTuple

from dibs.chat.analyst.analysis import Known
from dibs.chat.analyst.embedders import Embedder
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.conversation.inbox import Receipt, Room, take_in
from dibs.chat.conversation.reader import Outcome, Reader
from dibs.chat.conversation.windows import Rule
from dibs.chat.replies import Reply
from dibs.chat.steering.commands import EVERYTHING, Command, Name, recognise
from dibs.chat.steering.session import Steering, Sync, carried_out
from dibs.core.duration import in_words
from dibs.core.errors import LostLock


class Said(NamedTuple):
    """`command` is what it was understood as; without one it is a message, `noted` unless it was only a preview."""

    text: str
    command: Command | None = None
    reply: Reply = Reply("")
    noted: Receipt | None = None
    read: Outcome | None = None


class Ear:
    """Listens to one sender."""

    def __init__(
        self, room: Room, embedder: Embedder, reader: Reader, rule: Rule | None = None, sync: Sync = None
    ) -> None:
        self._room = room
        self._embedder = embedder
        self._reader = reader
        self._rule = rule
        self._sync = sync

    def say(self, text: str, *, preview: bool = False, message: str = "") -> Said:
        """`message` is the id that it is to have. What is kept under it already is not kept again, and a command that
        was carried out under it is answered as before."""
        if message and not preview and (kept := carried_out(self._room, message)) is not None:
            done = Command(Name(str(kept.detail["name"])))
            return Said(text, done, Steering(self._room, self._embedder).again(kept))
        known = _Familiar(self._room, self._embedder)
        command = recognise(text, known)
        if command is None:
            return self._note(text, message, preview=preview)
        read = None if preview else self._read_first()
        steering = Steering(self._room, self._embedder, preview=preview, sync=self._sync, message=message)
        return Said(text, command, steering.obey(command, text), read=read)

    def _read_first(self) -> Outcome | None:
        """A command may be about what was said a moment ago, so that is read before."""
        try:
            return self._reader.read(self._room.sender, now=True)
        except LostLock:  # somebody else has read it
            return None

    def _note(self, text: str, message: str, *, preview: bool) -> Said:
        if preview:
            return Said(text, reply=Reply("This is a message: it would be kept, and read with what you say besides."))
        noted = take_in(self._room, text, self._rule, message)
        seconds = round((noted.closes_at - noted.message.created_at).total_seconds())
        when = f"in {in_words(timedelta(seconds=seconds))}" if seconds > 0 else "now"
        together = f", with {noted.messages - 1} more" if noted.messages > 1 else ""
        return Said(text, reply=Reply(f"Noted. It is read {when}{together}."), noted=noted)


class _Familiar:
    """Whether words can stand for a task: one that is open, or one that was asked for and not read yet."""

    def __init__(self, room: Room, embedder: Embedder) -> None:
        self._room = room
        self._embedder = embedder

    def __call__(self, phrase: str) -> bool:
        return phrase == EVERYTHING or bool(find_in(phrase, self._tasks).tasks)

    @cached_property
    def _tasks(self) -> OpenTasks:
        """Looked up only if the words alone cannot tell."""
        there = [Known(task.id, task.title) for task in self._room.tasks.graph(finished=False).tasks]
        asked_for = [Known(message.id, message.title) for message in self._room.unread()]
        return OpenTasks([*there, *asked_for], self._embedder)
