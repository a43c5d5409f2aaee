"""Reading what a sender has said, once its window is closed: tasks and links are made of each message exactly once.

The messages are leased, so nobody else reads them meanwhile; and they end in the very transaction that takes in their
tasks. A reader that dies leaves them as they were, to be read when its lease is over; one that comes too late hands in
nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.analysis import Analysis, Analyst, Message, Question
from dibs.chat.analyst.embedders import Builtin, Embedder
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.inbox import hasten, remember_rhythm, window_end
from dibs.chat.conversation.settings import Limits
from dibs.chat.familiar import keep, known_tasks, unfamiliar
from dibs.chat.handing_in import asked_for, fitting, handful, named, proposals, put_off, set_aside, without_vectors
from dibs.chat.room import READER, Room, received
from dibs.core.errors import NotFound, OverQuota, Refused, RuleBroken, ServiceUnavailable
from dibs.core.task import Actor, Link, Task
from dibs.desk import mint_id
from dibs.stores.port import Terms

if TYPE_CHECKING:
    from dibs.core.graph import Graph
    from dibs.desk import Desk

LEASE = timedelta(minutes=2)
_NAME = "reader"  # whoever reads: an agent's messages do not count among the tasks that it may hold
_MOST = 100  # messages at once
_SHORT, _LONG = 6, 12  # a short id may be taken; a long one is not
_TURNS = 5  # what others do meanwhile may undo a plan, but hardly again and again


class PutOff(NamedTuple):
    """Messages that wait for room: until then, or only for those before them to be read."""

    messages: tuple[Task, ...] = ()
    until: datetime | None = None
    why: str = ""


class Outcome(NamedTuple):
    """What became of a batch. A message that can never be read as it is was `refused`, and waits for a person.

    `notes` tell what the sender should know about how it was read.
    """

    sender: str
    messages: tuple[Task, ...] = ()
    tasks: tuple[Task, ...] = ()
    links: tuple[Link, ...] = ()
    questions: tuple[Question, ...] = ()
    later: PutOff = PutOff()
    refused: Task | None = None
    why: str = ""
    notes: tuple[str, ...] = ()


class Reader:
    """Reads for any sender, within their limits unless others are given. `name` is who it is at work as."""

    def __init__(
        self,
        desk: "Desk",
        analyst: Analyst,
        embedder: Embedder,
        name: str = "reader",
        limits: Limits | None = None,
    ) -> None:
        self._desk = desk.at(desk.scope, by=Actor(name))
        self._analyst = analyst
        self._embedder = embedder
        self._given = limits

    def read(self, sender: str, *, now: bool = False) -> Outcome | None:
        """Read what is due of one sender, or with `now` all there is; None where there was nothing."""
        room = Room(self._desk, sender)
        if now:
            hasten(room, room.unread())
        messages = self._claimed(room)
        if not messages:
            return None
        remember_rhythm(room, messages[-1])
        return self._handed_in(room, messages)

    def _claimed(self, room: Room) -> list[Task]:
        taken = room.inbox.claim(_NAME, count=_MOST, lease=LEASE, can=[READER])
        found = [each.task for each in taken]
        if 0 < len(found) < _MOST:
            found += self._of_the_same_window(room, found)
        return sorted(found, key=received)

    def _of_the_same_window(self, room: Room, found: Sequence[Task]) -> list[Task]:
        """Two messages at once may each have opened a window: what came before the first one closed belongs to it."""
        closed = min(window_end(message) for message in found)
        beside = [message for message in room.unread() if message.created_at <= closed][: _MOST - len(found)]
        if not beside:
            return []
        hasten(room, beside)
        try:
            taken = room.inbox.claim(_NAME, refs=[message.id for message in beside], lease=LEASE, can=[READER])
        except Refused:  # somebody else is reading them
            return []
        return [each.task for each in taken]

    def _handed_in(self, room: Room, messages: Sequence[Task]) -> Outcome:
        """As many of the messages as there is room for; the others go back."""
        reading, full = list(messages), None
        for turn in range(_TURNS):
            analysis, reading = self._that_fits(room, reading, full)
            back = self._put_off(room, messages[len(reading) :], full)
            try:
                return self._written(room, analysis, reading, back, short=turn == 0)
            except (OverQuota, RuleBroken, NotFound) as error:
                if turn == _TURNS - 1:
                    raise
                full = error if isinstance(error, OverQuota) else full
        raise AssertionError("unreachable")

    def _that_fits(self, room: Room, reading: list[Task], full: OverQuota | None) -> tuple[Analysis, list[Task]]:
        """The first messages that ask for no more than may be taken in; one alone may ask for more than a batch."""
        space = min(self._limits(room)) if full is None else full.room
        graph = room.tasks.graph(finished=False)
        while True:
            analysis = self._analysed(room, graph, reading)
            fit = fitting(analysis, reading, space)
            if fit == 0 and full is None:
                fit = 1
            if fit >= len(reading):
                return analysis, reading
            reading = reading[:fit]

    def _analysed(self, room: Room, graph: "Graph", messages: Sequence[Task]) -> Analysis:
        """Vectors only help to think: where they cannot be had, those that dibs brings itself have to do, this once."""
        said = [Message(message.id, message.description) for message in messages]
        asked = (graph.prerequisites(), room.settings.thresholds)
        try:
            return self._analyst.analyse(said, known_tasks(room, graph.tasks, self._embedder), *asked)
        except ServiceUnavailable as error:
            found = WordAnalyst(Builtin()).analyse(said, unfamiliar(graph.tasks), *asked)
            return without_vectors(found, f"{error.message} The built-in analyst stood in.")

    def _limits(self, room: Room) -> Limits:
        return self._given or room.settings.limits

    def _put_off(self, room: Room, messages: Sequence[Task], full: OverQuota | None) -> PutOff:
        if full is None:
            return PutOff(tuple(messages), None, f"more than {min(self._limits(room))} tasks at once")
        until = self._desk.now() + timedelta(milliseconds=full.retry_after_ms or 0)
        return PutOff(tuple(messages), until, full.message)

    def _written(
        self, room: Room, analysis: Analysis, messages: Sequence[Task], back: PutOff, *, short: bool
    ) -> Outcome:
        limits = self._limits(room)
        if len(messages) == 1 and asked_for(analysis) > limits.hourly:
            return self._refused(room, messages[0], limits.hourly, back)
        length = _SHORT if short else _LONG
        made = proposals(analysis)
        # All of a batch are queued at one moment, and then the id decides: so what was said first is done first.
        names = dict(zip((one.ref for one in made), sorted(mint_id(length) for _ in made), strict=True))
        drafts, links, ending = handful(analysis, messages, names, room.sender, self._desk.by)
        ending += put_off(back.messages, back.until, back.why, self._desk.by)
        added = room.tasks.add(drafts, links, Terms(limits.quota, ending))
        keep(room, {names[one.ref]: one.vector for one in made}, self._embedder)
        asked = named(analysis.questions, names)
        return Outcome(room.sender, tuple(messages), tuple(added), links, asked, back, notes=analysis.notes)

    def _refused(self, room: Room, message: Task, most: int, back: PutOff) -> Outcome:
        why = f"it asks for more than the {most} tasks that are taken in within an hour; send it in parts"
        ending = (set_aside(message, why, self._desk.by), *put_off(back.messages, back.until, back.why, self._desk.by))
        room.tasks.add([], (), Terms(ending=ending))
        return Outcome(room.sender, later=back, refused=message, why=why)
