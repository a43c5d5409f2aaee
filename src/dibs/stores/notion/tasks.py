"""Add, find and edit tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import (
    AlreadyExists,
    CycleDetected,
    DibsError,
    InvalidInput,
    StoreUnavailable,
    Unsupported,
)
from dibs.core.fields import SETS
from dibs.core.task import TERMINAL, Draft, Holder, Status, Task
from dibs.stores.notion.gateway import Unanswered
from dibs.stores.notion.layout import refuse_word
from dibs.stores.notion.pages import MINUTES, NOTION, bare, creation, order_of, place_of
from dibs.stores.notion.steps import Page, persistently, plainly, task_of
from dibs.stores.reports import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dibs.core.task import Edit
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Changes, View
    from dibs.stores.notion.pages import Reading
    from dibs.stores.port import Query

_PLACELESS = frozenset({"queued_at", "extra"})  # Notion sets the first; the second is checked key by key


def add(db: Database, drafts: Sequence[Draft]) -> list[Task]:
    """Create a page per draft once all drafts are valid. If one fails, the pages made before it are trashed."""
    _refuse_ids(db, drafts)
    new = {draft.id for draft in drafts if draft.id}
    pages = {draft.parent: db.read(draft.parent).page for draft in drafts if draft.parent and draft.parent not in new}
    for draft in drafts:
        refuse_word(db.layout, draft.status)
        refuse_placeless(db, (name for name, value in zip(draft._fields, draft, strict=True) if _stated(name, value)))
        _refuse_extra(db, draft.extra)
    made: dict[int, Reading] = {}
    try:
        for place in _parents_first(drafts):
            draft = drafts[place]
            made[place] = _create(db, draft, pages[draft.parent] if draft.parent else None)
            pages[draft.id] = made[place].page
    except DibsError as error:
        left = _undone(db, made.values())
        if left:
            raise StoreUnavailable(f"{error.message} These were added and could not be taken back: {left}.") from None
        raise
    return [made[place].task for place in range(len(drafts))]


def _parents_first(drafts: Sequence[Draft]) -> list[int]:
    """Return the drafts' indexes so that each parent precedes its children."""
    places = {draft.id: place for place, draft in enumerate(drafts) if draft.id}
    order: list[int] = []
    for place in range(len(drafts)):
        chain: list[int] = []
        while place not in order and place not in chain:
            chain.append(place)
            above = places.get(drafts[place].parent or "")
            if above is None:
                break
            place = above  # noqa: PLW2901 - climbs the line of parents
        if place in chain and drafts[place].parent in places:
            raise CycleDetected([drafts[each].id for each in (*chain[chain.index(place) :], place)])
        order += [each for each in reversed(chain) if each not in order]
    return order


def _stated(name: str, value: object) -> bool:
    return name not in {"title", "id"} and value != Draft._field_defaults.get(name)


def _create(db: Database, draft: Draft, parent: str | None) -> Reading:
    now = db.now() if db.layout.rest else db.heard()  # without a rest, a page has only Notion's times
    task = Task(scope=db.scope, created_at=now, updated_at=now, queued_at=now, **draft._asdict())
    try:
        answer = db.understood(lambda: db.gateway.create(db.source, creation(db.layout, db.shape, task, parent)))
    except Unanswered:
        raise Unanswered(
            f"It is not certain that '{draft.title[:60]}' was added. Look for it before you add it again."
        ) from None
    reading = db.reading(answer)
    db.remember(reading)
    return reading


def _refuse_ids(db: Database, drafts: Sequence[Draft]) -> None:
    seen: set[str] = set()
    for draft in drafts:
        if db.layout.assigns_ids:
            if draft.id:
                raise InvalidInput(f"Notion gives the ids in this layout; '{draft.id[:40]}' cannot be chosen.")
            continue
        if draft.id in seen or db.key_taken(draft.id):
            raise AlreadyExists(f"There is a task '{draft.id}' in {db.scope} already; 'dibs edit' changes it.")
        seen.add(draft.id)


def _undone(db: Database, made: Iterable[Reading]) -> str:
    """Trash the pages made so far; return the ids of those that could not be."""
    left = []
    for reading in made:
        try:
            db.gateway.trash(reading.page)
            db.cache.forget("page", reading.task.id)
        except DibsError:
            left.append(reading.task.id)
    return ", ".join(left)


def refuse_placeless(db: Database, fields: Iterable[str]) -> None:
    """Raise for a value for which the database has no property."""
    layout = db.layout
    if layout.rest:
        return
    for name in fields:
        if name not in layout.properties and name not in _PLACELESS:
            raise Unsupported(f"This store cannot do that: the layout '{layout.name}' has no property for '{name}'.")
        if name in SETS and not db.carries(name):
            missing = layout.properties[name].name
            raise Unsupported(f"This store cannot do that: the Notion database has no multi-select '{missing}'.")


def _refuse_extra(db: Database, extra: object) -> None:
    own = {NOTION, MINUTES} if "minutes" in db.layout.properties else {NOTION}
    if not db.layout.rest and isinstance(extra, dict) and extra.keys() - own:
        name = min(extra.keys() - own)
        raise Unsupported(
            f"This store cannot do that: the layout '{db.layout.name}' has no property for '{name[:40]}'."
        )


def find(db: Database, query: Query) -> list[Task]:
    db.own(query.scope)
    everything = set(query.statuses) >= set(db.layout.words)
    found = db.listed() if everything else db.with_status(*query.statuses) if query.statuses else []
    if Status.BACKLOG in query.statuses and not everything:
        found = _with_unnamed(db, found)
    parent = None if query.parent is None else bare(db.find_page(query.parent))
    fitting = [reading for reading in found if _fits(reading, query, parent)]
    if query.after is not None:
        place = place_of(query.after, numbered=db.layout.assigns_ids)
        fitting = [reading for reading in fitting if order_of(reading) > place]
    return [reading.task for reading in sorted(fitting, key=order_of)[: query.limit]]


def _with_unnamed(db: Database, found: list[Reading]) -> list[Reading]:
    """Add pages without a status: they count as backlog, but no status filter finds them."""
    unnamed = db.listed(lambda shape: {"property": shape["status"].name, shape["status"].type: {"is_empty": True}})
    known = {reading.page for reading in found}
    return [*found, *(reading for reading in unnamed if reading.page not in known)]


def _fits(reading: Reading, query: Query, parent: str | None) -> bool:
    task = reading.task
    text = None if query.text is None else query.text.lower()
    return (
        task.status in query.statuses
        and (query.agent is None or (task.lease is not None and task.lease.agent == query.agent))
        and (query.assigned_to is None or task.assigned_to == query.assigned_to)
        and query.only.matches(task)
        and (parent is None or (reading.parent is not None and bare(reading.parent) == parent))
        and (text is None or text in task.title.lower() or text in task.description.lower())
    )


def amend(db: Database, ref: str, edit: Edit) -> Task:
    """Change an unfinished task; without a difference, nothing is sent."""
    page = db.find_page(ref)
    parent = _parent_for(db, page, edit.parent) if isinstance(edit.parent, str) else None

    def ask(view: View, now: datetime) -> Changes:  # noqa: ARG001 - the signature of Ask
        task = task_of(view)
        wanted = edit.accepted(task)
        if db.layout.queue == "edited":
            wanted.pop("queued_at", None)  # Notion moves it with every edit
        if not wanted:
            return {}
        refuse_placeless(db, wanted)
        _refuse_extra(db, wanted.get("extra"))
        if isinstance(wanted.get("parent"), str):
            wanted["parent"] = parent
        return wanted

    return persistently(db, lambda: Page(db, page).run(plainly(ask)))


def _parent_for(db: Database, page: str, wanted: str) -> str:
    """Return the page of a new parent, which must not be a descendant."""
    found = db.read(wanted)
    line = [found]
    while bare(line[-1].page) != bare(page):
        above = line[-1].parent
        if above is None:
            return found.page
        line.append(db.read_page(above))
    raise CycleDetected([db.name_of(page), *(reading.task.id for reading in line)])


def counts(db: Database) -> Counts:
    from dibs.core.lifecycle import ClaimRequest
    from dibs.stores.notion.claims import refusal

    found = db.listed()
    now = db.heard()
    anyone = ClaimRequest("", (), holder=Holder.AGENT)
    by_status = dict.fromkeys(Status, 0)
    for reading in found:
        by_status[reading.task.status] += 1
    asked = [
        (
            reading.task,
            anyone._replace(agent=reading.task.assigned_to or "", can=frozenset(reading.task.requires)),
            reading,
        )
        for reading in found
    ]
    free = [
        task for task, request, reading in asked if not task.finished and refusal(db, reading, request, now) is None
    ]
    tasks = [reading.task for reading in found]
    early = [task for task in tasks if task.status is Status.READY and task.not_before and task.not_before > now]
    ends = [task.lease.expires_at for task in tasks if task.lease and task.status is Status.ACTIVE]
    due = [moment for moment in (*ends, *(task.not_before for task in early)) if moment is not None and moment > now]
    return Counts(
        by_status,
        waiting=0,
        claimable=len(free),
        expired=sum(task.status is Status.ACTIVE for task in free),
        later=len(early),
        next_due=min(due, default=None),
    )


def matching(db: Database, prefix: str, limit: int) -> list[str]:
    """Return the ids with this prefix, shortest first."""
    carried = db.layout.properties.get("id")
    if carried is not None and not db.layout.assigns_ids and prefix:
        found = db.listed(lambda shape: {"property": shape["id"].name, "rich_text": {"starts_with": prefix}})
    else:
        found = db.listed()
    return sorted(reading.task.id for reading in found if reading.task.id.startswith(prefix))[:limit]


def everything(db: Database) -> list[Task]:
    """Return all tasks, finished ones included, by id."""
    return [reading.task for reading in sorted(db.listed(), key=lambda reading: (reading.number, reading.task.id))]


def unfinished(db: Database) -> list[Task]:
    return [task for task in everything(db) if task.status not in TERMINAL]
