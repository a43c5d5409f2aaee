"""Mailboxes: notes for senders, and the mail between agents.

A note is a task in a scope of its own, so leases, crash recovery, export and pruning come with it. It is created in the
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
from dibs.core.scopes import MAIL, OUTBOX
from dibs.core.task import Actor, Draft, Edit, Json, Status, Task
from dibs.core.times import time_from, time_text
from dibs.desk import Desk, mint_id
from dibs.stores.port import Query

LEASE = timedelta(seconds=30)  # in which notes are handed over; if not, the next one does it
MOST = 100  # notes handed over at once
_NOTE, _MARK = "note", "told"  # categories
_UNREAD = (Status.BACKLOG, Status.READY, Status.ACTIVE)
_CARRIER = "hands-over-notes"  # the capability of who may claim one
_NOTE_ID_LENGTH = 12


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


ROLE_PREFIX = "role:"  # before the name of a role, where an agent's name could stand
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
    """What a letter has besides its words."""

    task: Task | None = None
    reply_to: str | None = None
    deadline: datetime | None = None
    delegated_by: str | None = None


def box_of(desk: Desk, to: str) -> Mailbox:
    kind, name = ("role", to.removeprefix(ROLE_PREFIX)) if to.startswith(ROLE_PREFIX) else ("agent", to)
    known = checks.name_of(kind, name)
    address = f"{MAIL}{ROLE_PREFIX if kind == 'role' else ''}{known}"
    if len(address) > checks.NAME_MAX:
        raise InvalidInput(f"The {kind} '{known[:20]}…' has too long a name to get mail.")
    return Mailbox(desk, address)


def send(desk: Desk, to: Sequence[str], text: str, context: Context = Context()) -> str:  # noqa: B008 - frozen
    """The letter's id, the same in all mailboxes that it was put into."""
    said = text.strip()
    if not said:
        raise InvalidInput("The letter is empty; say what it is about.")
    if len(said) > LONGEST:
        raise InvalidInput(f"A letter has at most {LONGEST} characters, this one has {len(said)}.")
    if not to:
        raise InvalidInput("Who is it for? Name an agent, or a role as role:NAME.")
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
    """What an agent is enrolled as; nothing where nobody enrols."""
    return [member.role for member in _members(desk) if member.agent == agent]


def unknown(desk: Desk, to: Iterable[str]) -> list[str]:
    """Those whom nobody is enrolled as. Where nobody is enrolled at all, anybody may be there."""
    members = _members(desk)
    known = {member.agent for member in members} | {ROLE_PREFIX + member.role for member in members}
    return [one for one in to if one not in known] if members else []


def _members(desk: Desk) -> list[Member]:
    return desk.members() if desk.has_fleet else []


class Mail:
    """What is for one agent: in its own name, and in its roles."""

    def __init__(self, desk: Desk, roles: Iterable[str] = ()) -> None:
        names = [str(desk.by.agent), *(ROLE_PREFIX + role for role in dict.fromkeys(roles))]
        self._boxes = [box_of(desk, name) for name in names]

    @contextmanager
    def fetch(self) -> Iterator[list[Letter]]:
        """All that is new, oldest first; leaving the block without an error says that it was read."""
        with ExitStack() as open_boxes:
            notes = [note for box in self._boxes for note in open_boxes.enter_context(box.fetch())]
            yield _sorted(notes)

    def history(self) -> list[Letter]:
        """What was read before."""
        return _sorted([note for box in self._boxes for note in box.history()])

    def find(self, ref: str) -> Letter:
        """The letter of this id, or of an id that begins so."""
        for box in self._boxes:
            try:
                return letter_of(box.get(ref))
            except NotFound:
                continue
        raise NotFound(f"There is no letter '{ref[:40]}' in your mail; 'dibs mail read --all' shows what there is.")


def _sorted(notes: Sequence[Task]) -> list[Letter]:
    return sorted(map(letter_of, notes), key=lambda letter: (letter.at, letter.id))


def delegate(desk: Desk, task: Task, role: str, token: str | None) -> Task:
    """From now on the task is for that role. Who holds it gives it back in the same moment."""
    name = checks.name_of("role", role)
    if unknown(desk, [ROLE_PREFIX + name]):
        raise NotFound(
            f"Nobody has the role '{name}', so nobody would do {task.id}; 'dibs agent list' shows who there is."
        )
    why = f"delegated to the role {name}"
    fields: dict[str, Json] = {ROLE_FIELD: name, DISPATCHED_TO: None}
    if token is not None:
        return desk.move(Verb.RELEASE, task.id, token=token, assigned_to=None, extra=fields, reason=why).task
    if task.lease is not None and task.held(desk.now()):
        holder = task.lease.agent
        raise Held(f"{task.id} is held by {holder}, who alone can delegate it (--token, DIBS_TOKEN).", holder=holder)
    return desk.edit(task.id, Edit(assigned_to=None, keep=fields, why=why))
