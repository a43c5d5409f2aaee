"""Mailboxes: notes for senders, and the mail between agents.

A note is a task in a separate scope, so leases, crash recovery, export and pruning come with it. It is created in the
backlog, so no agent finds it in a queue. A reader leases notes before it delivers them and finishes them afterwards:
each note is delivered once, and again only if the reader died halfway.

The facts that a note reports are marked in the same transaction, each by an id derived from the fact. A second note
about the same fact is rejected; a mark outlives its note, which may be pruned.

A letter is a note in the mailbox of one agent, or of a role: then the first reader of that role gets it. It can name
a task, the letter it answers, a deadline, and the agent on whose behalf it was written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from dibs.core import checks
from dibs.core.checks import TEXT_MAX, headline
from dibs.core.errors import AlreadyExists, DibsError, Held, InvalidInput, LostLock, NotFound, Unsupported
from dibs.core.fields import Filter
from dibs.core.fleet import DISPATCHED_TO, ROLE_FIELD, Member
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import MAIL, OUTBOX, Actor, Draft, Edit, Json, Status, Task
from dibs.core.times import time_from, time_text
from dibs.desk import Desk, mint_id
from dibs.stores.port import Query

LEASE = timedelta(seconds=30)  # time to deliver notes before another reader may
MOST = 100  # notes handed over at once
_NOTE, _MARK = "note", "told"  # categories
_UNREAD = (Status.BACKLOG, Status.READY, Status.ACTIVE)
_CARRIER = "hands-over-notes"  # the capability of who may claim one
_NOTE_ID_LENGTH = 12


class Fact(NamedTuple):
    """A fact that is reported once. `about` is its task; when the task is pruned, the mark can be pruned too."""

    key: str
    about: str

    @property
    def mark(self) -> str:
        """The id of the mark that says the fact was reported."""
        return mark_of(self.key)


class Note(NamedTuple):
    """A text to deliver, with the facts that it reports. `extra` is for programs."""

    kind: str
    text: str
    facts: tuple[Fact, ...] = ()
    extra: Mapping[str, Json] = {}
    id: str = ""


class StoredNotes(NamedTuple):
    """The undelivered notes, and the marks of reported facts."""

    unread: tuple[Task, ...]
    marks: tuple[Task, ...]

    @property
    def reported(self) -> frozenset[str]:
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
        """Add all notes or none; AlreadyExists if one of their facts was reported before."""
        drafts = [_draft(note, place) for place, note in enumerate(notes)]
        marks = [_marked(fact) for note in notes for fact in note.facts]
        return self._desk.add([*drafts, *marks])[: len(drafts)] if drafts else []

    def report_once(self, note: Note) -> bool:
        """Add the note; False if one of its facts was reported before."""
        try:
            self.put([note])
        except AlreadyExists:
            return False
        return True

    def kept(self) -> StoredNotes:
        shelved = self._desk.find(Query(self.address, (Status.BACKLOG,)))
        unread = tuple(task for task in shelved if task.category == _NOTE)
        return StoredNotes(unread, tuple(task for task in shelved if task.category == _MARK))

    def forget(self, gone: Iterable[Task], why: str) -> None:
        """Cancel notes and marks that are no longer needed, so that they can be pruned."""
        if asked := dict.fromkeys(task.id for task in gone):
            self._desk.move_all(Verb.CANCEL, asked, reason=why, on_cancel=CanceledBlocker.RESOLVES)

    # Handing over

    @contextmanager
    def fetch(self) -> Iterator[list[Task]]:
        """All new notes, oldest first. Leaving the block without an error marks them as delivered."""
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
        # Another reader may be fetching the same notes: skip those that it has queued or leased.
        shelved = dict.fromkeys([each.id for each in waiting if each.status is Status.BACKLOG][:most])
        self._desk.move_all(Verb.QUEUE, shelved, on_cancel=CanceledBlocker.RESOLVES)
        # In the mailbox's name: what an agent reads does not count among the tasks that it may hold.
        taken = self._desk.claim(self.address, count=most, lease=LEASE, can=[_CARRIER])
        return sorted((each.task for each in taken), key=_order)

    def delivered(self, notes: Sequence[Task]) -> None:
        """Finish delivered notes. A note whose lease has expired is delivered again by another reader."""
        self.seen({note.id: note.lease.token for note in notes if note.lease is not None})

    def seen(self, tokens: Mapping[str, str]) -> None:
        """The same, given the ids of the notes and the tokens of their leases."""
        if tokens:
            for outcome in self._desk.move_all(Verb.DONE, tokens).outcomes:
                if isinstance(outcome, DibsError) and not isinstance(outcome, LostLock):
                    raise outcome

    def history(self) -> list[Task]:
        """Delivered notes that have not been pruned, oldest first."""
        return sorted(self._desk.find(Query(self.address, (Status.DONE,), only=Filter(category=_NOTE))), key=_order)

    def get(self, ref: str) -> Task:
        return self._desk.get(ref)


def _order(note: Task) -> tuple[object, ...]:
    return note.created_at, note.extra.get("place", 0), note.id


def _draft(note: Note, place: int) -> Draft:
    return Draft(
        title=headline(note.text),
        id=note.id or f"{_NOTE}.{mint_id(_NOTE_ID_LENGTH)}",
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


ROLE_PREFIX = "role:"  # marks a role where an agent's name is also possible
LETTER = "mail"  # the kind of such a note
LONGEST = 100_000  # characters
_LETTER_ID_LENGTH = 8


class Subject(NamedTuple):
    """A task, as a letter refers to it."""

    scope: str
    id: str
    title: str


class Letter(NamedTuple):
    """`to` is an agent, or a role with 'role:' before it."""

    id: str
    sender: str
    to: str
    text: str
    at: datetime
    task: Subject | None = None
    reply_to: str | None = None
    deadline: datetime | None = None
    delegated_by: str | None = None


class Context(NamedTuple):
    """The optional fields of a letter."""

    task: Task | None = None
    reply_to: str | None = None
    deadline: datetime | None = None
    delegated_by: str | None = None


def box_of(desk: Desk, to: str) -> Mailbox:
    kind, name = ("role", to.removeprefix(ROLE_PREFIX)) if to.startswith(ROLE_PREFIX) else ("agent", to)
    known = checks.name_of(kind, name)
    address = f"{MAIL}{ROLE_PREFIX if kind == 'role' else ''}{known}"
    if len(address) > checks.NAME_MAX:
        raise InvalidInput(f"The name of the {kind} '{known[:20]}…' is too long for mail.")
    return Mailbox(desk, address)


def send(desk: Desk, to: Sequence[str], text: str, context: Context = Context()) -> str:  # noqa: B008 - frozen
    """The letter's id, the same in all mailboxes that it was put into."""
    said = text.strip()
    if not said:
        raise InvalidInput("The letter is empty. Give it a text.")
    if len(said) > LONGEST:
        raise InvalidInput(f"A letter has at most {LONGEST} characters, this one has {len(said)}.")
    if not to:
        raise InvalidInput("The letter has no recipient. Name an agent, or a role as role:NAME.")
    boxes = {one: box_of(desk, one) for one in dict.fromkeys(to)}
    letter = mint_id(_LETTER_ID_LENGTH)
    for one, box in boxes.items():
        box.put([Note(LETTER, said, extra=_extra(one, desk.by, context), id=letter)])
    return letter


def _extra(to: str, by: Actor, context: Context) -> dict[str, Json]:
    task = context.task
    told: dict[str, Json] = {
        "from": by.agent,
        "to": to,
        "task": None if task is None else {"scope": task.scope, "id": task.id, "title": task.title},
        "reply_to": context.reply_to,
        "deadline": None if context.deadline is None else time_text(context.deadline),
        "delegated_by": checks.optional_name("agent", context.delegated_by),
    }
    return {name: value for name, value in told.items() if value is not None}


def letter_of(note: Task) -> Letter:
    extra = note.extra
    task, deadline = extra.get("task"), extra.get("deadline")
    return Letter(
        note.id,
        str(extra.get("from", "")),
        str(extra.get("to", "")),
        note.description,
        note.created_at,
        Subject(str(task["scope"]), str(task["id"]), str(task["title"])) if isinstance(task, Mapping) else None,
        _optional(extra.get("reply_to")),
        None if deadline is None else time_from(str(deadline)),
        _optional(extra.get("delegated_by")),
    )


def _optional(value: Json) -> str | None:
    return None if value is None else str(value)


def roles_of(desk: Desk, agent: str) -> list[str]:
    """The roles of an enrolled agent."""
    return [member.role for member in _members(desk) if member.agent == agent]


def unknown(desk: Desk, to: Iterable[str]) -> list[str]:
    """The recipients that are neither an enrolled agent nor its role. Empty if no agent is enrolled."""
    members = _members(desk)
    known = {member.agent for member in members} | {ROLE_PREFIX + member.role for member in members}
    return [one for one in to if one not in known] if members else []


def _members(desk: Desk) -> list[Member]:
    return desk.members() if desk.has_fleet else []


class Mail:
    """The mail of one agent, in its own name and in its roles."""

    def __init__(self, desk: Desk, roles: Iterable[str] = ()) -> None:
        names = [str(desk.by.agent), *(ROLE_PREFIX + role for role in dict.fromkeys(roles))]
        self._boxes = [box_of(desk, name) for name in names]

    @contextmanager
    def fetch(self) -> Iterator[list[Letter]]:
        """New letters, oldest first. Leaving the block without an error marks them as read."""
        with ExitStack() as open_boxes:
            notes = [note for box in self._boxes for note in open_boxes.enter_context(box.fetch())]
            yield _sorted(notes)

    def history(self) -> list[Letter]:
        """Letters that were read before."""
        return _sorted([note for box in self._boxes for note in box.history()])

    def find(self, ref: str) -> Letter:
        """The letter of this id, or of an id that begins so."""
        for box in self._boxes:
            try:
                return letter_of(box.get(ref))
            except NotFound:
                continue
        raise NotFound(f"There is no letter '{ref[:40]}' in your mail; 'dibs mail read --all' lists your letters.")


def _sorted(notes: Sequence[Task]) -> list[Letter]:
    return sorted(map(letter_of, notes), key=lambda letter: (letter.at, letter.id))


def delegate(desk: Desk, task: Task, role: str, token: str | None) -> Task:
    """Reserve the task for a role. If the caller holds it, release it in the same transaction."""
    name = checks.name_of("role", role)
    if unknown(desk, [ROLE_PREFIX + name]):
        raise NotFound(f"No agent has the role '{name}', so no agent would claim {task.id}. See 'dibs agent list'.")
    why = f"delegated to the role {name}"
    fields: dict[str, Json] = {ROLE_FIELD: name, DISPATCHED_TO: None}
    if token is not None:
        return desk.move(Verb.RELEASE, task.id, token=token, assigned_to=None, extra=fields, reason=why).task
    if task.lease is not None and task.held(desk.now()):
        holder = task.lease.agent
        raise Held(f"{task.id} is held by {holder}, who alone can delegate it (--token, DIBS_TOKEN).", holder=holder)
    return desk.edit(task.id, Edit(assigned_to=None, keep=fields, why=why))
