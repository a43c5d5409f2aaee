"""What follows from both sides and from what they said when they last agreed. Pure: state in, decisions out.

Field by field: who has changed it since? If only Notion has, the rules say whether it may; if only we have, Notion is
told. If both have and do not agree, Notion counts, as it is where people steer; save for a priority that a person gave
here, which holds until Notion changes after it. Whatever is not taken over is put right in Notion, and on record.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dibs.core.lifecycle import Verb
from dibs.core.task import Json, Status, Task
from dibs.sync.notion import rules
from dibs.sync.notion.base import DEALT_WITH, GONE, Base, base_of, page_of
from dibs.sync.notion.rows import Row
from dibs.sync.notion.words import Field, Fleet, agrees, asked_status, ours, said

_OVER = frozenset({Status.DONE, Status.CANCELED})


class Kind(StrEnum):
    """The kinds of changes, in the document's words; `missing` is a task that has no row."""

    NEW = "new_task"
    PRIORITY = "priority"
    STATUS = "status"
    AGENT = "agent"
    TITLE = "description"
    DELETED = "deleted"
    MISSING = "missing_in_notion"


class Decision(NamedTuple):
    """One change that Notion asks for. `skip` is why it is not made; `base` what holds once it is."""

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
    """A task and its row: what is asked of the one, what is to be told to the other, and where they agree by now."""

    task: Task
    row: Row
    decisions: tuple[Decision, ...]
    tell: Mapping[Field, str | None]
    base: Base


class Terms(NamedTuple):
    """`reviewed`: new tasks are ready at once, for a person is asking; else somebody is to look at them first."""

    fleet: Fleet = Fleet()
    aggressive: bool = False
    reviewed: bool = True
    spoken: Mapping[str, datetime] = {}  # when a person here put a task's priority


class Matched(NamedTuple):
    """Which row is which task's; rows that have none yet; tasks that never had a row."""

    pairs: tuple[tuple[Task, Row], ...]
    new: tuple[Row, ...]
    missing: tuple[Task, ...]


def match(rows: Collection[Row], tasks: Collection[Task]) -> Matched:
    """By the page; a task that has none yet, or no longer, by the ID that somebody wrote into the row."""
    by_page = {page: task for task in tasks if (page := page_of(task)) is not None}
    pairs = {row.page: by_page[row.page] for row in rows if row.page in by_page}
    tied = {task.id for task in pairs.values()}
    loose = (task for task in tasks if page_of(task) is None or task.extra.get(GONE) == DEALT_WITH)
    free = {task.id: task for task in loose if task.id not in tied}
    new = []
    for row in sorted(rows, key=lambda row: row.page):
        task = None if row.page in pairs else free.pop(row.id, None) or free.pop(row.page, None)
        if task is not None:
            pairs[row.page] = task
        elif row.page not in pairs and asked_status(row.fields[Field.STATUS]) not in _OVER:
            new.append(row)  # what is over there needs nobody here
    missing = tuple(task for task in free.values() if not task.finished)
    return Matched(tuple((pairs[row.page], row) for row in rows if row.page in pairs), tuple(new), missing)


def compare(task: Task, row: Row, terms: Terms) -> Pair:
    """A row that was gone and is back counts as new: whatever was agreed on before is void."""
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
                tell[field] = written[field]  # it says less than could be said, such as Not Started of what is ready
            else:
                base[field] = (theirs, mine[field])
        elif not they or (theirs is None and known is None):  # a row that is new to us may leave it to the task
            tell[field] = written[field]
        else:
            late = we and _overridden(field, task, row, terms)
            verdict = _LATER_HERE if late else _verdict(field, stood, theirs, terms)
            decisions.append(_decision(field, task, theirs, verdict))
            if verdict.skip:
                tell[field] = written[field]
            if verdict.verb is Verb.REOPEN:
                stood = task._replace(status=Status.READY)  # what comes back takes along what its row says besides
    return Pair(task, row, tuple(decisions), tell, base)


_LATER_HERE = rules.Verdict(None, "a person here has said otherwise since")


def _overridden(field: Field, task: Task, row: Row, terms: Terms) -> bool:
    """A person's word here counts, unless Notion's is provably younger: it tells no seconds."""
    spoken = terms.spoken.get(task.id)
    return field is Field.PRIORITY and task.override and (spoken is None or row.edited_at <= spoken)


def _verdict(field: Field, task: Task, theirs: str | None, terms: Terms) -> rules.Verdict:
    match field:
        case Field.STATUS:
            return rules.on_status(task, theirs, aggressive=terms.aggressive)
        case Field.PRIORITY:
            return rules.on_priority(task, theirs)
        case Field.AGENT:
            return rules.on_agent(task, theirs, terms.fleet)
    return rules.on_title(task, theirs)


def _decision(field: Field, task: Task, theirs: str | None, verdict: rules.Verdict) -> Decision:
    new = theirs if verdict.new is None else verdict.new
    return Decision(
        Kind(field), task.id, task.title, rules.old_value(task, field), new, verdict.skip, verdict.verb,
        verdict.fields, (field, theirs),
    )  # fmt: skip


def deleted(task: Task) -> Decision | None:
    """What becomes of a task whose row is gone for certain."""
    if task.finished:
        return None
    verdict = rules.on_deletion(task)
    old = rules.old_value(task, Kind.DELETED)
    return Decision(Kind.DELETED, task.id, task.title, old, verdict.new, verdict.skip, verdict.verb)


def missing(task: Task) -> Decision:
    why = "exists in Kurultai but not in Notion. Not deleted; please add to Notion or cancel here."
    return Decision(Kind.MISSING, task.id, task.title, rules.old_value(task, Kind.STATUS), None, why)


def contested(pairs: Iterable[tuple[Task, Row]]) -> list[str]:
    """The tasks of which it matters when a person here spoke: both sides have changed the priority."""
    found = []
    for task, row in pairs:
        theirs, mine = row.fields[Field.PRIORITY], ours(task)[Field.PRIORITY]
        before = base_of(task).get(Field.PRIORITY, (theirs, mine))
        if task.override and before[0] != theirs and before[1] != mine:
            found.append(task.id)
    return found
