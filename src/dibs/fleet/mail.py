"""Mail between agents, and handing a task over to a role.

A letter is a note in the mailbox of one agent, or of a role: then whoever of that role reads first has it. It may tell
what it is about: a task, the letter it answers, until when, on whose behalf.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import Held, InvalidInput, NotFound
from dibs.core.fleet import DISPATCHED_TO
from dibs.core.lifecycle import Verb
from dibs.core.scopes import MAIL
from dibs.core.task import Actor, Edit, Json, Task
from dibs.core.times import time_from, time_text
from dibs.desk import mint_id
from dibs.fleet import routing
from dibs.mail import Mailbox, Note

if TYPE_CHECKING:
    from dibs.core.fleet import Member
    from dibs.desk import Desk

ROLE = "role:"  # before the name of a role, where an agent's name could stand
LETTER = "mail"  # the kind of such a note
LONGEST = 100_000  # characters
_ID = 8


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


def box_of(desk: "Desk", to: str) -> Mailbox:
    kind, name = ("role", to.removeprefix(ROLE)) if to.startswith(ROLE) else ("agent", to)
    known = checks.name_of(kind, name)
    address = f"{MAIL}{ROLE if kind == 'role' else ''}{known}"
    if len(address) > checks.NAME_MAX:
        raise InvalidInput(f"The {kind} '{known[:20]}…' has too long a name to get mail.")
    return Mailbox(desk, address)


def send(desk: "Desk", to: Sequence[str], text: str, context: Context = Context()) -> str:  # noqa: B008 - frozen
    """The letter's id, the same in all mailboxes that it was put into."""
    said = text.strip()
    if not said:
        raise InvalidInput("The letter is empty; say what it is about.")
    if len(said) > LONGEST:
        raise InvalidInput(f"A letter has at most {LONGEST} characters, this one has {len(said)}.")
    if not to:
        raise InvalidInput("Who is it for? Name an agent, or a role as role:NAME.")
    boxes = {one: box_of(desk, one) for one in dict.fromkeys(to)}
    letter = mint_id(_ID)
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


def roles_of(desk: "Desk", agent: str) -> list[str]:
    """What an agent is enrolled as; nothing where nobody enrols."""
    return [member.role for member in _members(desk) if member.agent == agent]


def unknown(desk: "Desk", to: Iterable[str]) -> list[str]:
    """Those whom nobody is enrolled as. Where nobody is enrolled at all, anybody may be there."""
    members = _members(desk)
    known = {member.agent for member in members} | {ROLE + member.role for member in members}
    return [one for one in to if one not in known] if members else []


def _members(desk: "Desk") -> "list[Member]":
    return desk.members() if desk.has_fleet else []


class Mail:
    """What is for one agent: in its own name, and in its roles."""

    def __init__(self, desk: "Desk", roles: Iterable[str] = ()) -> None:
        names = [str(desk.by.agent), *(ROLE + role for role in dict.fromkeys(roles))]
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


def delegate(desk: "Desk", task: Task, role: str, token: str | None) -> Task:
    """From now on the task is for that role. Who holds it gives it back in the same moment."""
    name = checks.name_of("role", role)
    if unknown(desk, [ROLE + name]):
        raise NotFound(
            f"Nobody has the role '{name}', so nobody would do {task.id}; 'dibs agent list' shows who there is."
        )
    why = f"delegated to the role {name}"
    fields: dict[str, Json] = {routing.ROLE: name, DISPATCHED_TO: None}
    if token is not None:
        return desk.move(Verb.RELEASE, task.id, token=token, assigned_to=None, extra=fields, reason=why).task
    if task.lease is not None and task.held(desk.now()):
        holder = task.lease.agent
        raise Held(f"{task.id} is held by {holder}, who alone can delegate it (--token, DIBS_TOKEN).", holder=holder)
    return desk.edit(task.id, Edit(assigned_to=None, keep=fields, why=why))
