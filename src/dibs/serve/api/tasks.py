"""Tasks: looking them up, taking them in, changing what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import AlreadyExists, InvalidInput, NotFound
from dibs.core.lifecycle import verb_to
from dibs.core.task import TERMINAL, LinkKind, Status
from dibs.core.wire import event_json, link_json, task_json
from dibs.serve.access import Right
from dibs.serve.api.schemas import (
    DRAFT,
    EDIT,
    EVENT,
    LINKED,
    LINKS,
    NARROW,
    TASK,
    answer,
    draft_of,
    edit_of,
    filter_of,
    links_of,
    many,
)
from dibs.serve.desks import page_of
from dibs.serve.requests import FLAG, TEXT, WHOLE, Field, Route, list_of, object_of, one_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Draft, Json, Link, Task
    from dibs.desk import Desk
    from dibs.serve.idempotency import Name
    from dibs.serve.requests import Call

_PAGE = 100
_MOST = 2000  # tasks in one answer
_MOST_IDS = 200
_HISTORY = 200  # events that come along with a task
_OPEN = tuple(status for status in Status if status not in TERMINAL)


def look(call: Call) -> Json:
    said, desk = call.query, call.desk
    if "ids" in said:
        return {"tasks": [task_json(task) for task in _named(desk, said["ids"], dependents="dependents" in said)]}
    if said.get("ready"):
        agent, can = said.get("agent", ""), said.get("can", ())
        found = desk.ready(limit=_limit(said), agent=agent, can=can, only=filter_of(said))
        return {"tasks": [task_json(task) for task in found], "next": None}
    statuses = said.get("status") or (tuple(Status) if said.get("all", True) else _OPEN)
    narrow = {name: said[name] for name in _NARROW if name in said}
    query = Query(desk.scope, statuses, only=filter_of(said), **narrow)
    page = page_of(desk, query, _limit(said), said.get("cursor"))
    return {"tasks": [task_json(task) for task in page.tasks], "next": page.next}


_NARROW = ("agent", "assigned_to", "parent", "text")


def _limit(said: Any) -> int:
    limit: int = said.get("limit", _PAGE)
    if not 1 <= limit <= _MOST:
        raise InvalidInput(f"limit: ask for 1 to {_MOST} tasks at a time.")
    return limit


def _named(desk: Desk, ids: Sequence[str], *, dependents: bool) -> list[Task]:
    """Those that are there. With dependents, also what waits for any of them."""
    found: dict[str, Task] = {}
    desk = desk.exact
    for task in dict.fromkeys(ids):
        _put(desk, task, found)
    if dependents and found:
        behind = {link.task for link in desk.links(*found) if link.kind is not LinkKind.PARALLEL_OK}
        for task in sorted(behind - found.keys())[:_MOST]:
            _put(desk, task, found)
    return list(found.values())


def _put(desk: Desk, task: str, found: dict[str, Task]) -> None:
    try:
        found[task] = desk.get(task)
    except NotFound:
        return


def add(call: Call) -> Json:
    drafts = [draft_of(said) for said in call.body["tasks"]]
    if not drafts:
        raise InvalidInput("tasks: at least one is wanted.")
    links = links_of(call.body.get("links", ()))
    minted = call.name is not None and call.desk.capabilities.ids == "any" and not all(one.id for one in drafts)
    added = _add_once(call.desk, drafts, links, call.name) if minted and call.name else call.desk.add(drafts, links)
    return {"tasks": [task_json(task) for task in added]}


def _add_once(desk: Desk, drafts: list[Draft], links: list[Link], name: Name) -> list[Task]:
    """With ids that follow from the request's name: whoever finds them there finds what the request has made."""
    named = [draft if draft.id else draft._replace(id=name.identifier(place)) for place, draft in enumerate(drafts)]
    made = [new.id for new, draft in zip(named, drafts, strict=True) if not draft.id]
    bound = [link._replace(task=link.task or made[0], on=link.on or made[0]) for link in links]
    try:
        return desk.add(named, bound)
    except AlreadyExists:
        if not desk.has(made[0]):
            raise
    exact = desk.exact
    return [exact.get(draft.id) for draft in named]


def show(call: Call) -> Json:
    desk = call.desk
    task = desk.get(call.path["id"])
    links = desk.links(task.id) if desk.capabilities.links else []
    events = desk.events(ref=task.id, last=_HISTORY) if desk.capabilities.history else []
    children = desk.find(Query(desk.scope, parent=task.id))
    return {
        "task": task_json(task),
        "links": [link_json(link) for link in links],
        "children": [child.id for child in children],
        "events": [event_json(event) for event in events],
    }


def edit(call: Call) -> Json:
    """Whether the status can be had is asked first, so that a refusal leaves nothing half done."""
    said = dict(call.body)
    status = said.pop("status", None)
    if not said and status is None:
        raise InvalidInput("Nothing to change: say what.")
    desk = call.desk
    task = desk.get(call.path["id"])
    verb = None if status in {None, task.status} else verb_to(task, status)
    if said:
        task = desk.edit(task.id, edit_of(said))
    return {"task": task_json(task if verb is None else desk.move(verb, task.id).task)}


def comment(call: Call) -> Json:
    desk, text = call.desk, call.body["text"]
    task = desk.get(call.path["id"])
    if call.name is None:
        desk.comment(task.id, text)
    elif not any(event.detail.get("request") == call.name.mark for event in desk.events(ref=task.id, last=_HISTORY)):
        desk.comment(task.id, text, detail={"request": call.name.mark})
    return {"task": task_json(task)}


_PLACES = one_of(status for status in Status if status in {Status.READY, Status.BACKLOG})

ROUTES = (
    Route(
        "GET",
        "/tasks",
        look,
        "Tasks in the order in which they are picked up, a page at a time",
        query=(
            Field("status", list_of(one_of(Status)), "only these; else all"),
            Field("agent", TEXT, "what this agent holds"),
            Field("assigned_to", TEXT, "what is meant for this agent"),
            *NARROW,
            Field("parent", TEXT, "only the parts of this task"),
            Field("text", TEXT, "in title or description"),
            Field("all", FLAG, "with 0, only what is unfinished"),
            Field("ready", FLAG, "only what could be claimed now, by `agent` if one is named"),
            Field("can", list_of(TEXT), "with ready: capabilities of the one who asks"),
            Field("ids", list_of(TEXT, _MOST_IDS), "exactly these; those that are not there are left out"),
            Field("dependents", FLAG, "with ids: also what waits for these"),
            Field("limit", WHOLE, f"at most so many; {_PAGE} unless said, {_MOST} at most"),
            Field("cursor", TEXT, "the `next` of the page before"),
        ),
        answer=answer(tasks=many(TASK)),
    ),
    Route(
        "POST",
        "/tasks",
        add,
        "Take in tasks with links of theirs, all or none. A link with an empty end means the first task without an id",
        Right.PLAN,
        body=(Field("tasks", list_of(object_of(DRAFT)), required=True), Field("links", LINKS)),
        answer=answer(tasks=many(TASK)),
        status=201,
    ),
    Route(
        "GET",
        "/tasks/{id}",
        show,
        "One task, with its links, its parts and its history",
        answer=answer(task=TASK, links=many(LINKED), events=many(EVENT)),
    ),
    Route(
        "PATCH",
        "/tasks/{id}",
        edit,
        "Change what a task says; null empties a field",
        Right.PLAN,
        body=(*EDIT, Field("status", _PLACES, "put it up for work, or back on the shelf")),
        answer=answer(task=TASK),
    ),
    Route(
        "POST",
        "/tasks/{id}/comments",
        comment,
        "Leave a remark on a task, for whoever comes to it next",
        Right.PLAN,
        body=(Field("text", TEXT, required=True),),
        answer=answer(task=TASK),
        status=201,
    ),
)
