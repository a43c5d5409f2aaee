"""Apply decisions: each task in its own transactions, together with the new base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.checks import new_identifier
from dibs.core.errors import AlreadyExists, DibsError, InvalidInput, StoreError
from dibs.core.lifecycle import Verb, rule_for
from dibs.core.task import Draft, Edit, Holder, Status
from dibs.mail import LETTER, Fact, Note, box_of, sender_box
from dibs.sync.notion.database import UNTITLED, USUAL_WEIGHT, WEIGHTS, Field, asked_status, ours, stands, title_of
from dibs.sync.notion.reconcile import (
    BASE,
    DEALT_WITH,
    DELETED,
    GONE,
    IN_NOTION,
    LATER,
    SOURCE,
    WEIGHT,
    on_record,
    own_id,
    tied,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.sync.notion.database import Row
    from dibs.sync.notion.reconcile import Base, Decision, Kind, Pair, Terms

REVIEW = "pending_review"  # the reason of a task that a person or the router must accept
AGENT = "notion"  # the actor of all these changes
ORIGIN = "notion"
_AT_ONCE = 100

# Deliverable and agent of a new task, by its name.
Route: TypeAlias = "Callable[[str], tuple[str | None, str | None]]"


# New tasks


def create(
    desk: Desk, rows: Sequence[Row], terms: Terms, route: Route, taken: set[str]
) -> tuple[list[Task], dict[str, str]]:
    """Create a task per row; return their bases, and the pages that failed with reasons.

    An id that a person wrote into the row is kept if possible.
    """
    drafts = {}
    for row in rows:
        draft = _draft(row, terms, route, desk, taken)
        taken.add(draft.id)
        drafts[row.page] = draft
    made: list[Task] = []
    failed: dict[str, str] = {}
    for start in range(0, len(rows), _AT_ONCE):
        pages = [row.page for row in rows[start : start + _AT_ONCE]]
        made += _added(desk, {page: drafts[page] for page in pages}, failed)
    return made, failed


def _added(desk: Desk, drafts: Mapping[str, Draft], failed: dict[str, str]) -> list[Task]:
    """Add all drafts together; if that is refused, one by one. A duplicate is matched by the next sync."""
    try:
        return desk.add(list(drafts.values()))
    except (AlreadyExists, InvalidInput) as error:
        if len(drafts) == 1:
            failed |= dict.fromkeys(drafts, error.message)
            return []
    return [task for page, draft in drafts.items() for task in _added(desk, {page: draft}, failed)]


def _draft(row: Row, terms: Terms, route: Route, desk: Desk, taken: set[str]) -> Draft:
    name = row.fields[Field.TITLE] or UNTITLED
    said = row.fields[Field.AGENT]
    deliverable, routed = route(name)
    word = row.fields[Field.PRIORITY]
    weight = WEIGHTS.get(word or "", USUAL_WEIGHT)
    draft = Draft(
        title_of(name),
        id=_id(row, taken),
        description=name,
        status=Status.READY if terms.reviewed else Status.BACKLOG,
        reason=None if terms.reviewed else REVIEW,
        priority=0.0 - weight,
        deliverable=deliverable,
        category=deliverable,
        # A task under review has no agent unless its row names one; once accepted, it is routed.
        assigned_to=(terms.fleet.agent_called(said) if said else None) or (routed if terms.reviewed else None),
        origin=ORIGIN,
    )
    source = {SOURCE: "notion" if word else "auto", WEIGHT: weight}
    return draft._replace(extra={**_given(tied(row, _first_base(draft, row), desk.now())), **source})


def ask_for_review(desk: Desk, tasks: Iterable[Task], reviewer: str) -> None:
    """Notify the reviewer and the sender of each new task under review, once."""
    waiting = [
        task for task in tasks if task.status is Status.BACKLOG and task.reason == REVIEW and task.origin == ORIGIN
    ]
    if not waiting:
        return
    boxes = (box_of(desk, reviewer), sender_box(desk, desk.scope))
    for box, note_of in zip(boxes, (_letter, _question), strict=True):
        told = box.kept().reported
        for task in waiting:
            fact = Fact(f"review.{desk.scope}.{task.id}", task.id)
            if fact.mark not in told:
                box.report_once(note_of(task, reviewer, fact))


def _letter(task: Task, reviewer: str, fact: Fact) -> Note:
    text = f"Review '{task.title}' ({task.id}), a new row in Notion. The sender is asked too."
    about: dict[str, Json] = {"scope": task.scope, "id": task.id, "title": task.title}
    return Note(LETTER, text, (fact,), {"from": AGENT, "to": reviewer, "task": about})


def _question(task: Task, _reviewer: str, fact: Fact) -> Note:
    text = (
        f"New in Notion: “{task.title}”. No agent works on it until you accept it: write “accept {task.title}” or "
        f"“reject {task.title}”, or set its row to Ready or Cancelled."
    )
    return Note("review", text, (fact,), {"task": task.id})


def _given(fields: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}


def _id(row: Row, taken: set[str]) -> str:
    """Return the page's id as a UUID, which is then the task's id."""
    try:
        return new_identifier(row.id) if row.id and row.id not in taken else own_id(row.page)
    except InvalidInput:
        return own_id(row.page)


def _first_base(draft: Draft, row: Row) -> Base:
    """Return the first base: the row's values, except a status that a new task cannot have."""
    stand = "ready" if draft.status is Status.READY else "pending_review"
    base: Base = {Field.TITLE: (row.fields[Field.TITLE], draft.title)}
    if asked_status(row.fields[Field.STATUS]) is not Status.BLOCKED:
        base[Field.STATUS] = (row.fields[Field.STATUS], stand)
    base[Field.PRIORITY] = (row.fields[Field.PRIORITY], [0.0 - draft.priority, False])
    base[Field.AGENT] = (row.fields[Field.AGENT], draft.assigned_to)
    return base


# Existing tasks


def release_own(desk: Desk, tasks: Iterable[Task]) -> None:
    """Release a lease that a dead sync held to complete a task; the change is decided again."""
    for task in tasks:
        lease = task.lease
        if lease is not None and lease.agent == AGENT and lease.holder is Holder.HUMAN:
            desk.move(Verb.RELEASE, task.id, force=True, reason="a sync broke off")


def apply(desk: Desk, pair: Pair) -> dict[Kind, str]:
    """Make the changes of one task; return the failed ones with reasons. A task that changed hands is left alone."""
    wanted = [each for each in pair.decisions if not each.skip]
    base, task, failed = dict(pair.base), pair.task, {}
    for decision in (each for each in wanted if each.verb is not None):
        base[Field.STATUS] = (decision.base[1] if decision.base else None, _stand_after(task, decision.verb))
        try:
            task = _moved(desk, task, decision, tied(pair.row, base, desk.now()))
        except StoreError:
            raise
        except DibsError as error:
            return {each.kind: error.message for each in wanted}
    edits = [each for each in wanted if each.fields]
    if edits:
        try:
            _edit(desk, pair, task, edits, base)
        except StoreError:
            raise
        except DibsError as error:
            failed = {each.kind: error.message for each in edits}
    return failed


def _stand_after(task: Task, verb: Verb | None) -> str:
    if verb is Verb.DONE:
        return stands(task._replace(status=Status.DONE))
    assert verb is not None
    return stands(task._replace(status=rule_for(task, verb).target or task.paused_from or Status.READY))


def _moved(desk: Desk, task: Task, decision: Decision, keep: dict[str, Json]) -> Task:
    verb = decision.verb
    assert verb is not None
    if verb is Verb.DONE:
        return _completed(desk, task, keep)
    reason = IN_NOTION if verb in {Verb.BLOCK, Verb.CANCEL} else None
    return desk.move(verb, task.id, reason=reason, extra=keep).task


def _completed(desk: Desk, task: Task, keep: dict[str, Json]) -> Task:
    """Complete a task: unblock, claim and finish it. A live lease is never broken."""
    while task.status in _UP:  # a paused task may have been blocked before
        task = desk.move(_UP[task.status], task.id).task
    (held,) = desk.claim(AGENT, refs=[task.id], holder=Holder.HUMAN)
    token = held.task.lease.token if held.task.lease else None
    return desk.move(Verb.DONE, task.id, token=token, result="completed in Notion", extra=keep).task


_UP = {
    Status.BLOCKED: Verb.UNBLOCK,
    Status.ESCALATED: Verb.UNBLOCK,
    Status.PAUSED: Verb.RESUME,
    Status.BACKLOG: Verb.QUEUE,
}


def _edit(desk: Desk, pair: Pair, task: Task, decisions: Sequence[Decision], base: Base) -> None:
    """Edit the task only if it is unchanged since the decision."""
    fields: dict[str, Any] = {name: value for each in decisions for name, value in each.fields}
    after = ours(task._replace(**fields))
    for decision in decisions:
        if decision.base is not None:
            base[decision.base[0]] = (decision.base[1], after[decision.base[0]])
    keep = tied(pair.row, base, desk.now())
    if "priority" in fields:
        keep |= {SOURCE: "notion", WEIGHT: 0.0 - fields["priority"]}
    was = {name: getattr(task, name) for name in fields}
    if "assigned_to" in fields:
        was["status"] = task.status
    desk.edit(task.id, Edit(**fields, keep=keep, was=was, why=IN_NOTION))


def remove(desk: Desk, task: Task, decision: Decision) -> str:
    """Block a task whose row is gone, or mark it for later; return the reason of a failure."""
    try:
        if decision.verb is None:
            later = LATER if task.status is Status.ACTIVE else DEALT_WITH
            desk.edit(task.id, Edit(keep={GONE: later, BASE: None}))
        else:
            desk.move(decision.verb, task.id, reason=DELETED, extra={GONE: DEALT_WITH, BASE: None})
    except StoreError:
        raise
    except DibsError as error:
        return error.message
    return ""


def settle(desk: Desk, task: Task, row: Row, base: Base, *, always: bool = False) -> None:
    """Store the new base where it changed."""
    if always or not on_record(base, task) or task.extra.get(GONE):
        desk.edit(task.id, Edit(keep=tied(row, base, desk.now())))
