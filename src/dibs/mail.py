"""Where notes wait for whoever they are for: what a sender is to hear, and the mail between agents.

A note is a task in a scope of its own, so leases, crash recovery, export and pruning come with it. It is born shelved:
no agent meets it in any queue. Whoever hands notes over leases them first and ends them afterwards, so a note is handed
over once, and again only if the one who did it died halfway.

What a note tells is marked in the same transaction, each fact by an id that follows from it. Who tells a fact a second
time is refused, whatever they knew; and a mark outlives its note, which may be pruned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from dibs.core.checks import TEXT_MAX, headline
from dibs.core.errors import AlreadyExists, DibsError, LostLock, Unsupported
from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.scopes import OUTBOX
from dibs.core.task import Draft, Json, Status, Task
from dibs.desk import Desk, mint_id
from dibs.stores.port import Query

LEASE = timedelta(seconds=30)  # in which notes are handed over; if not, the next one does it
MOST = 100  # notes handed over at once
_NOTE, _MARK = "note", "told"  # categories
_UNREAD = (Status.BACKLOG, Status.READY, Status.ACTIVE)
_CARRIER = "hands-over-notes"  # the capability of who may claim one
_ID = 12


class Fact(NamedTuple):
    """Something that is told once. `about` is the task it is of: when that is gone, nobody need remember it."""

    key: str
    about: str

    @property
    def mark(self) -> str:
        """The id of what says that it was told."""
        return mark_of(self.key)


class Note(NamedTuple):
    """Something to be told, with the facts that it tells. `extra` is what programs need to know of it."""

    kind: str
    text: str
    facts: tuple[Fact, ...] = ()
    extra: Mapping[str, Json] = {}
    id: str = ""


class Kept(NamedTuple):
    """What there is that nobody has fetched, and the marks of what was told."""

    unread: tuple[Task, ...]
    marks: tuple[Task, ...]

    @property
    def told(self) -> frozenset[str]:
        return frozenset(mark.id for mark in self.marks)


def mark_of(key: str) -> str:
    from hashlib import sha256

    return f"{_MARK}.{sha256(key.encode(errors='surrogatepass')).hexdigest()[:32]}"


def sender_box(desk: Desk, sender: str) -> "Mailbox":
    """The notes for a sender."""
    return Mailbox(desk, OUTBOX + sender)


class Mailbox:
    """One addressee's notes. Nothing here can reach those of another."""

    def __init__(self, desk: Desk, address: str) -> None:
        if not (desk.capabilities.transactions and desk.capabilities.scopes):
            raise Unsupported("Notes need a store with transactions and scopes: SQLite, PostgreSQL or Neo4j.")
        self._desk = desk.at(address, internal=True)

    @property
    def address(self) -> str:
        return self._desk.scope

    # Putting in

    def put(self, notes: Sequence[Note]) -> list[Task]:
        """All or none; AlreadyExists if any of what they tell was told before."""
        drafts = [_draft(note, place) for place, note in enumerate(notes)]
        marks = [_marked(fact) for note in notes for fact in note.facts]
        return self._desk.add([*drafts, *marks])[: len(drafts)] if drafts else []

    def tell_once(self, note: Note) -> bool:
        """Whether it had not been told before."""
        try:
            self.put([note])
        except AlreadyExists:
            return False
        return True

    def kept(self) -> Kept:
        shelved = self._desk.find(Query(self.address, (Status.BACKLOG,)))
        unread = tuple(task for task in shelved if task.category == _NOTE)
        return Kept(unread, tuple(task for task in shelved if task.category == _MARK))

    def forget(self, gone: Iterable[Task], why: str) -> None:
        """Notes that nobody fetched, and marks, that are of no use any more: from now on they can be pruned."""
        if asked := dict.fromkeys(task.id for task in gone):
            self._desk.move_all(Verb.CANCEL, asked, reason=why, on_cancel=CanceledBlocker.RESOLVES)

    # Handing over

    @contextmanager
    def fetch(self) -> Iterator[list[Task]]:
        """All that is new, oldest first, to be handed over inside the block: leaving it without an error says so."""
        notes = self.take()
        while notes and len(notes) % MOST == 0 and (more := self.take()):
            notes += more
        yield notes
        self.delivered(notes)

    def take(self, most: int = MOST) -> list[Task]:
        """Lease the undelivered notes, oldest first, so that no other reader gets them. Then call `delivered`."""
        waiting = self._desk.find(Query(self.address, _UNREAD, only=Filter(category=_NOTE)))
        if not waiting:
            return []
        # Somebody else may be fetching the same: what they have put up or taken is left to them.
        shelved = dict.fromkeys([each.id for each in waiting if each.status is Status.BACKLOG][:most])
        self._desk.move_all(Verb.QUEUE, shelved, on_cancel=CanceledBlocker.RESOLVES)
        # In the mailbox's name: what an agent reads does not count among the tasks that it may hold.
        taken = self._desk.claim(self.address, count=most, lease=LEASE, can=[_CARRIER])
        return sorted((each.task for each in taken), key=_order)

    def delivered(self, notes: Sequence[Task]) -> None:
        """What was leased has reached its reader. A lease that ran out meanwhile means that another told it again."""
        self.seen({note.id: note.lease.token for note in notes if note.lease is not None})

    def seen(self, tokens: Mapping[str, str]) -> None:
        """The same, by the notes' ids and the tokens of their leases."""
        if tokens:
            for outcome in self._desk.move_all(Verb.DONE, tokens).outcomes:
                if isinstance(outcome, DibsError) and not isinstance(outcome, LostLock):
                    raise outcome

    def history(self) -> list[Task]:
        """What has been handed over before and is still there, oldest first."""
        return sorted(self._desk.find(Query(self.address, (Status.DONE,), only=Filter(category=_NOTE))), key=_order)

    def get(self, ref: str) -> Task:
        return self._desk.get(ref)


def _order(note: Task) -> tuple[object, ...]:
    return note.created_at, note.extra.get("place", 0), note.id


def _draft(note: Note, place: int) -> Draft:
    return Draft(
        title=headline(note.text),
        id=note.id or f"{_NOTE}.{mint_id(_ID)}",
        description=note.text[:TEXT_MAX],
        status=Status.BACKLOG,
        category=_NOTE,
        requires=(_CARRIER,),
        origin="notes",
        extra={**note.extra, "kind": note.kind, "place": place, "about": [fact.about for fact in note.facts]},
    )


def _marked(fact: Fact) -> Draft:
    return Draft(
        title=headline(fact.key),
        id=fact.mark,
        status=Status.BACKLOG,
        category=_MARK,
        requires=(_CARRIER,),
        ref=fact.about,
        origin="notes",
    )
