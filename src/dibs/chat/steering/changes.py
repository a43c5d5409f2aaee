"""What a command changes, as data: it can be shown before it is done, kept when it was done, and turned round."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from dibs.chat.conversation.inbox import Room
from dibs.core.errors import DibsError, RuleBroken, StoreError
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit, Json, Link, LinkKind, Task
from dibs.core.wire import link_from_json


class Kind(StrEnum):
    EDIT = "edit"
    MOVE = "move"
    LINK = "link"
    UNLINK = "unlink"


class Change(NamedTuple):
    """One thing. `fields` are what an edit sets, with old and new; `verb` is a move's; `link` is what comes or goes,
    and `other` the title of the task at its far end.
    """

    kind: Kind
    task: str
    title: str
    fields: Mapping[str, tuple[Json, Json]] = {}
    verb: Verb | None = None
    link: Link | None = None
    other: str = ""


class Done(NamedTuple):
    """What was changed, and what could not be, with why."""

    made: tuple[Change, ...]
    failed: tuple[str, ...] = ()


_BACK = {
    Verb.PAUSE: Verb.RESUME,
    Verb.RESUME: Verb.PAUSE,
    Verb.CANCEL: Verb.REOPEN,
    Verb.REOPEN: Verb.CANCEL,
    Verb.ESCALATE: Verb.UNBLOCK,
    Verb.UNBLOCK: Verb.ESCALATE,
}


def edited(task: Task, **fields: Json) -> list[Change]:
    """None where nothing would differ."""
    differ = {name: (getattr(task, name), new) for name, new in fields.items() if getattr(task, name) != new}
    return [Change(Kind.EDIT, task.id, task.title, differ)] if differ else []


def moved(task: Task, verb: Verb) -> Change:
    return Change(Kind.MOVE, task.id, task.title, verb=verb)


def linked(link: Link, tasks: Mapping[str, Task]) -> Change:
    return Change(Kind.LINK, link.task, tasks[link.task].title, link=link, other=tasks[link.on].title)


def unlinked(link: Link, tasks: Mapping[str, Task]) -> Change:
    return linked(link, tasks)._replace(kind=Kind.UNLINK)


def turned_round(changes: Sequence[Change]) -> tuple[Change, ...]:
    """What puts things back, the last first."""
    return tuple(_turned(change) for change in reversed(changes))


def _turned(change: Change) -> Change:
    match change.kind:
        case Kind.EDIT:
            return change._replace(fields={name: (new, old) for name, (old, new) in change.fields.items()})
        case Kind.LINK:
            return change._replace(kind=Kind.UNLINK)
        case Kind.UNLINK:
            return change._replace(kind=Kind.LINK)
        case Kind.MOVE:
            return change._replace(verb=_BACK[change.verb or Verb.PAUSE])


def carry_out(room: Room, changes: Sequence[Change], why: str) -> Done:
    """One after the other. What has changed hands meanwhile is left as it is, and told."""
    made: list[Change] = []
    failed: list[str] = []
    for change in changes:
        try:
            made += _made(room, change, why)
        except RuleBroken:
            if len(changes) == 1:
                raise
            failed.append(f"'{change.title}' was left as it is: it would go round in circles.")
        except StoreError:
            raise
        except DibsError as error:
            failed.append(f"'{change.title}' was left as it is: {error.message}")
    return Done(tuple(made), tuple(failed))


def _made(room: Room, change: Change, why: str) -> list[Change]:
    """With what followed from it: a canceled prerequisite brings those that waited for it before a person."""
    match change:
        case Change(kind=Kind.EDIT):
            return _edit(room, change, why)
        case Change(kind=Kind.LINK, link=Link() as link):
            return [change] if room.tasks.link([link]) else []
        case Change(kind=Kind.UNLINK, link=Link() as link):
            room.tasks.unlink([link])
            return [change]
        case Change(kind=Kind.MOVE, verb=Verb() as verb):
            answer = room.tasks.move(verb, change.task, reason=None if verb in _SILENT else why, force=verb in _FORCED)
            drawn = ((each, Verb.ESCALATE) for each in answer.escalated)
            also = ((each, Verb.CANCEL) for each in answer.canceled)
            return [change, *(moved(room.tasks.get(each), what) for each, what in (*drawn, *also))]
    raise AssertionError(change)


_FORCED = frozenset({Verb.PAUSE, Verb.CANCEL})  # the sender is in charge of their tasks, whoever is at work on them
_SILENT = frozenset({Verb.RESUME, Verb.REOPEN, Verb.UNBLOCK})


def _edit(room: Room, change: Change, why: str) -> list[Change]:
    """Only what still is as it was thought to be."""
    task = room.tasks.get(change.task)
    still: dict[str, Any] = {name: new for name, (old, new) in change.fields.items() if getattr(task, name) == old}
    if not still:
        return []
    room.tasks.edit(task.id, Edit(why=why, **still))
    return [change._replace(fields={name: change.fields[name] for name in still})]


def to_json(change: Change) -> dict[str, Json]:
    told: dict[str, Json] = {"kind": change.kind, "task": change.task, "title": change.title}
    if change.fields:
        told["fields"] = {name: list(pair) for name, pair in change.fields.items()}
    if change.verb is not None:
        told["verb"] = change.verb
    if change.link is not None:
        told["link"] = {**change.link._asdict(), "kind": str(change.link.kind)}
        told["other"] = change.other
    return told


def from_json(told: Mapping[str, Any]) -> Change:
    fields = {name: (old, new) for name, (old, new) in told.get("fields", {}).items()}
    verb = Verb(told["verb"]) if "verb" in told else None
    link = link_from_json(told["link"]) if "link" in told else None
    return Change(Kind(told["kind"]), told["task"], told["title"], fields, verb, link, told.get("other", ""))


def words(change: Change) -> str:
    """For a preview."""
    match change:
        case Change(kind=Kind.EDIT, fields=fields):
            return f"'{change.title}': " + ", ".join(_field_words(name, *pair) for name, pair in fields.items())
        case Change(kind=Kind.MOVE, verb=verb):
            return f"{verb} '{change.title}'"
        case Change(link=Link(kind=LinkKind.PARALLEL_OK)):
            return f"'{change.title}' is {'' if change.kind is Kind.LINK else 'no longer '}marked as independent"
        case Change(link=Link()):
            return f"'{change.title}' {'waits' if change.kind is Kind.LINK else 'no longer waits'} for '{change.other}'"
    return change.title


def _field_words(name: str, old: Json, new: Json) -> str:
    if name == "priority" and isinstance(old, int | float) and isinstance(new, int | float):
        return f"weight {-old:g} → {-new:g}"
    if name == "override":
        return "comes first" if new else "no longer first"
    return f"{name} {old} → {new}"
