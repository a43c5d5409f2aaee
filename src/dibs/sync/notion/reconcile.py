"""Decide what each side must change, from both sides and their base: pure functions without I/O.

`Base` holds the values that both sides last agreed on, stored with each task. The safe rules limit what Notion may
request.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from dibs.core.lifecycle import Verb
from dibs.core.task import Json, Status, Task
from dibs.core.times import time_text
from dibs.sync.notion.database import (
    IN_REVIEW,
    READY_NOW,
    USUAL_WEIGHT,
    WEIGHTS,
    Field,
    Fleet,
    Row,
    agrees,
    asked_status,
    ours,
    said,
    stands,
    title_of,
    weight_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from dibs.core.task import Json, Task
    from dibs.sync.notion.database import Row

# Extra fields of a task; the first three are the document's.
PAGE, URL, SYNCED, BASE, GONE = "notion_page_id", "notion_url", "notion_synced_at", "notion_base", "notion_gone"
PUSHED = "notion_pushed_at"  # when a row was asked for, until it is known
SOURCE, WEIGHT = "external_priority_source", "external_priority_weight"
LATER, DEALT_WITH = "later", "dealt with"  # values stored under GONE

Base: TypeAlias = "dict[Field, tuple[Json, Json]]"


def base_of(task: Task) -> Base:
    """Return the task's base; an invalid one counts as none, so both sides count as changed."""
    kept = task.extra.get(BASE)
    if not isinstance(kept, dict):
        return {}
    found: Base = {}
    for field in Field:
        match kept.get(field.name.lower()):
            case [theirs, mine]:
                found[field] = (theirs, mine)
    return found


def kept(base: Base) -> dict[str, Json]:
    return {field.name.lower(): list(pair) for field, pair in base.items()}


def page_of(task: Task) -> str | None:
    page = task.extra.get(PAGE)
    return page if isinstance(page, str) else None


def own_id(page: str) -> str:
    """Return the id of a task made from this page: its id as a UUID."""
    return str(UUID(page))


def tied(row: Row, base: Base, now: datetime) -> dict[str, Json]:
    """Return the extra fields of a task with a row."""
    return {PAGE: row.page, URL: row.url, SYNCED: time_text(now), BASE: kept(base), GONE: None, PUSHED: None}


def on_record(base: Base, task: Task) -> bool:
    """Whether the task already has this base."""
    return task.extra.get(BASE) == kept(base)


def moved_here(task: Task) -> bool:
    """Whether the task differs from its base, as far as can be known without asking Notion."""
    base, mine = base_of(task), ours(task)
    return any(field not in base or base[field][1] != mine[field] for field in Field)


IN_NOTION = "set in Notion"
DELETED = "deleted_in_notion"

_TO_READY = {
    Status.BLOCKED: Verb.UNBLOCK,
    Status.ESCALATED: Verb.UNBLOCK,
    Status.PAUSED: Verb.RESUME,
    Status.BACKLOG: Verb.QUEUE,
    Status.CANCELED: Verb.REOPEN,
}
_BLOCKABLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.ESCALATED})
_COMPLETED = "it is completed, and Notion cannot change completed tasks"
_CANCELED = "it was cancelled; set its status to Not Started first"


class Verdict(NamedTuple):
    """The change to make, with the new value; or `skip`, the reason against it."""

    new: Json = None
    skip: str = ""
    verb: Verb | None = None
    fields: tuple[tuple[str, Json], ...] = ()


def on_status(task: Task, word: str | None, *, aggressive: bool) -> Verdict:
    target = asked_status(word)
    if target is None:
        return Verdict(word, f"'{word[:40]}' is not a status" if word else "the status is empty")
    if task.status is Status.DONE:
        return Verdict(word, _COMPLETED)
    if task.status is Status.ACTIVE:
        return Verdict(word, "it is in progress, and a sync does not interrupt work")
    match target:
        case Status.ACTIVE:
            return Verdict(word, "work begins when an agent takes the task, not in Notion")
        case Status.BLOCKED if task.status in _BLOCKABLE:
            return Verdict("blocked", verb=Verb.BLOCK)
        case Status.DONE | Status.CANCELED:
            return _ended(task, target, aggressive=aggressive)
        case Status.READY:
            return _set_free(task, word)
    return Verdict(word, f"it is {stands(task)}")


def _ended(task: Task, target: Status, *, aggressive: bool) -> Verdict:
    done = target is Status.DONE
    word = "completed" if done else "aborted"
    if not aggressive:
        return Verdict(word, f"only with sync_preference aggressive is a task {word} from Notion")
    if done and task.status is Status.CANCELED:
        return Verdict(word, _CANCELED)
    if done and task.blockers:
        return Verdict(word, _waits(task))
    if done:
        return Verdict(word, verb=Verb.APPROVE if task.status is Status.REVIEW else Verb.DONE)
    return Verdict(word, verb=Verb.CANCEL)


def _set_free(task: Task, word: str | None) -> Verdict:
    if word == READY_NOW and task.blockers:
        return Verdict("ready", _waits(task))
    if task.status is Status.BACKLOG and word != READY_NOW:
        return Verdict(IN_REVIEW, "it is under review; Ready accepts it")
    if task.status not in _TO_READY:
        return Verdict(word, f"it is {stands(task)}, and a person has to decide about it")
    return Verdict("ready" if not task.blockers else "pending", verb=_TO_READY[task.status])


def _waits(task: Task) -> str:
    return f"{task.blockers} unfinished {'task comes' if task.blockers == 1 else 'tasks come'} before it"


def on_priority(task: Task, word: str | None) -> Verdict:
    """Apply a priority unless the task is finished. It ends a person's override, because it is newer."""
    weight = USUAL_WEIGHT if word is None else WEIGHTS.get(word)
    if weight is None:
        return Verdict(word, f"'{str(word)[:40]}' is not a priority")
    if task.finished:
        return Verdict(weight, _over(task))
    return Verdict(weight, fields=(("priority", 0.0 - weight), ("override", False)))


def on_agent(task: Task, name: str | None, fleet: Fleet) -> Verdict:
    agent = None if name is None else fleet.agent_called(name)
    if name is not None and agent is None:
        return Verdict(name, f"'{name[:40]}' is not an agent")
    if task.finished:
        return Verdict(agent, _over(task))
    if task.status is Status.ACTIVE:
        return Verdict(agent, "it is in progress, and stays with its holder")
    return Verdict(agent, fields=(("assigned_to", agent),))


def on_title(task: Task, name: str | None) -> Verdict:
    title = title_of(name or "")
    if not title:
        return Verdict("", "a task needs a name")
    if task.finished:
        return Verdict(title, _over(task))
    return Verdict(title, fields=(("title", title), ("description", _renamed(task, name or ""))))


def _renamed(task: Task, name: str) -> str:
    """Replace the first line of the description."""
    if title_of(task.description) != task.title:
        return task.description
    below = task.description.strip().split("\n")[1:]
    return "\n".join([name, *below]) if below else name


def on_deletion(task: Task) -> Verdict:
    if task.status is Status.ACTIVE:
        return Verdict("deleted", "it is in progress, and a sync does not interrupt work")
    if task.status not in _BLOCKABLE:
        return Verdict("deleted", f"it is {stands(task)}")
    return Verdict("blocked", verb=Verb.BLOCK)


def _over(task: Task) -> str:
    return _COMPLETED if task.status is Status.DONE else _CANCELED


def old_value(task: Task, what: str) -> Json:
    """Return the old value for the record."""
    match what:
        case "status" | "deleted":
            return stands(task)
        case "priority":
            return weight_of(task)
        case "agent":
            return task.assigned_to
    return task.title


_OVER = frozenset({Status.DONE, Status.CANCELED})


class Kind(StrEnum):
    """Kinds of changes, in the document's words; `missing` is a task without a row."""

    NEW = "new_task"
    PRIORITY = "priority"
    STATUS = "status"
    AGENT = "agent"
    TITLE = "description"
    DELETED = "deleted"
    MISSING = "missing_in_notion"


class Decision(NamedTuple):
    """One change that Notion requests. `skip` is the reason against it; `base` is the value once it is made."""

    kind: Kind
    task: str
    title: str
    old: Json
    new: Json
    skip: str = ""
    verb: Verb | None = None
    fields: tuple[tuple[str, Json], ...] = ()
    base: tuple[Field, Json] | None = None  # the field, and Notion's word for it


class Pair(NamedTuple):
    """A task and its row: changes for each, and the values that both agree on."""

    task: Task
    row: Row
    decisions: tuple[Decision, ...]
    tell: Mapping[Field, str | None]
    base: Base


class Terms(NamedTuple):
    """How new tasks start: ready if `reviewed`, because a person asked; else under review."""

    fleet: Fleet = Fleet()
    aggressive: bool = False
    reviewed: bool = True
    spoken: Mapping[str, datetime] = {}  # when a person here set a task's priority


class Matched(NamedTuple):
    """Tasks with their rows, new rows, and tasks without a row."""

    pairs: tuple[tuple[Task, Row], ...]
    new: tuple[Row, ...]
    missing: tuple[Task, ...]


def match(rows: Collection[Row], tasks: Collection[Task]) -> Matched:
    """Match by page; a task without one, by the ID that a person wrote into the row."""
    by_page = {page: task for task in tasks if (page := page_of(task)) is not None}
    pairs = {row.page: by_page[row.page] for row in rows if row.page in by_page}
    tied = {task.id for task in pairs.values()}
    loose = (task for task in tasks if page_of(task) is None or task.extra.get(GONE) == DEALT_WITH)
    free = {task.id: task for task in loose if task.id not in tied}
    new = []
    for row in sorted(rows, key=lambda row: row.page):
        task = (
            None
            if row.page in pairs
            else free.pop(row.id, None) or free.pop(row.page, None) or free.pop(own_id(row.page), None)
        )
        if task is not None:
            pairs[row.page] = task
        elif row.page not in pairs and asked_status(row.fields[Field.STATUS]) not in _OVER:
            new.append(row)  # the row is finished and needs no task
    missing = tuple(task for task in free.values() if not task.finished)
    return Matched(tuple((pairs[row.page], row) for row in rows if row.page in pairs), tuple(new), missing)


def compare(task: Task, row: Row, terms: Terms) -> Pair:
    """Compare a task with its row. A row that was deleted and restored counts as new, without a base."""
    base = {} if task.extra.get(GONE) else base_of(task)
    mine, written, stood = ours(task), said(task, terms.fleet), task
    decisions: list[Decision] = []
    tell: dict[Field, str | None] = {}
    for field in Field:
        theirs, known = row.fields[field], base.get(field)
        they = known is None or known[0] != theirs
        we = known is None or known[1] != mine[field]
        if agrees(field, theirs, task, terms.fleet):
            if we and not they and theirs != written[field]:
                tell[field] = written[field]  # a word that says less, such as Not Started for a ready task
            else:
                base[field] = (theirs, mine[field])
        elif not they or (theirs is None and known is None):  # a new row without a value takes the task's
            tell[field] = written[field]
        else:
            late = we and _overridden(field, task, row, terms)
            verdict = _LATER_HERE if late else _verdict(field, stood, theirs, terms)
            decisions.append(_decision(field, task, theirs, verdict))
            if verdict.skip:
                tell[field] = written[field]
            if verdict.verb is Verb.REOPEN:
                stood = task._replace(status=Status.READY)  # a restored task takes the row's other values too
    return Pair(task, row, tuple(decisions), tell, base)


_LATER_HERE = Verdict(None, "a person here has changed it since")


def _overridden(field: Field, task: Task, row: Row, terms: Terms) -> bool:
    """Prefer a person's change here, unless Notion's is certainly newer; Notion reports no seconds."""
    spoken = terms.spoken.get(task.id)
    return field is Field.PRIORITY and task.override and (spoken is None or row.edited_at <= spoken)


def _verdict(field: Field, task: Task, theirs: str | None, terms: Terms) -> Verdict:
    match field:
        case Field.STATUS:
            return on_status(task, theirs, aggressive=terms.aggressive)
        case Field.PRIORITY:
            return on_priority(task, theirs)
        case Field.AGENT:
            return on_agent(task, theirs, terms.fleet)
    return on_title(task, theirs)


def _decision(field: Field, task: Task, theirs: str | None, verdict: Verdict) -> Decision:
    new = theirs if verdict.new is None else verdict.new
    return Decision(
        Kind(field), task.id, task.title, old_value(task, field), new, verdict.skip, verdict.verb,
        verdict.fields, (field, theirs),
    )  # fmt: skip


def deleted(task: Task) -> Decision | None:
    """Decide about a task whose row is confirmed as deleted."""
    if task.finished:
        return None
    verdict = on_deletion(task)
    old = old_value(task, Kind.DELETED)
    return Decision(Kind.DELETED, task.id, task.title, old, verdict.new, verdict.skip, verdict.verb)


def missing(task: Task) -> Decision:
    why = "exists in Kurultai but not in Notion. Not deleted; please add to Notion or cancel here."
    return Decision(Kind.MISSING, task.id, task.title, old_value(task, Kind.STATUS), None, why)


def contested(pairs: Iterable[tuple[Task, Row]]) -> list[str]:
    """Return the tasks whose priority changed on both sides, for which times decide."""
    found = []
    for task, row in pairs:
        theirs, mine = row.fields[Field.PRIORITY], ours(task)[Field.PRIORITY]
        before = base_of(task).get(Field.PRIORITY, (theirs, mine))
        if task.override and before[0] != theirs and before[1] != mine:
            found.append(task.id)
    return found
