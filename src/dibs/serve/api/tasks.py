"""Tasks: list, add and edit them, claim them, and move them through their lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import AlreadyExists, InvalidInput, NotFound
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.policy import CanceledBlocker
from dibs.core.task import TERMINAL, Holder, LinkKind, Status
from dibs.core.wire import claimed_json, event_json, link_json, task_json
from dibs.serve.access import Right, check_follow_ups
from dibs.serve.api.schemas import (
    CLAIMED,
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
from dibs.serve.idempotency import claim_once, derive_tokens
from dibs.serve.problems import Forbidden
from dibs.serve.requests import EXTRA, FLAG, JSON, SPAN, TEXT, TIME, WHOLE, Field, Route, list_of, object_of, one_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Draft, Json, Link, Task
    from dibs.desk import Desk
    from dibs.serve.idempotency import IdempotencyKey
    from dibs.serve.requests import Call, Fields

_PAGE = 100
_MOST = 2000  # tasks in one answer
_MOST_IDS = 200
_HISTORY = 200  # events that come along with a task
_OPEN = tuple(status for status in Status if status not in TERMINAL)


def list_tasks(call: Call) -> Json:
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
    """The tasks that exist. With dependents, also the tasks that wait for them."""
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
    if not call.caller.may(Right.PLAN):
        check_follow_ups(drafts, links)
    minted = call.key is not None and call.desk.capabilities.ids == "any" and not all(one.id for one in drafts)
    added = _add_once(call.desk, drafts, links, call.key) if minted and call.key else call.desk.add(drafts, links)
    return {"tasks": [task_json(task) for task in added]}


def _add_once(desk: Desk, drafts: list[Draft], links: list[Link], key: IdempotencyKey) -> list[Task]:
    """Add tasks with ids derived from the idempotency key. If they exist, this request has added them before."""
    named = [draft if draft.id else draft._replace(id=key.identifier(place)) for place, draft in enumerate(drafts)]
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
    """Edit a task. The new status is checked first, so that a refusal changes nothing."""
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
    if call.key is None:
        desk.comment(task.id, text)
    elif not any(event.detail.get("request") == call.key.mark for event in desk.events(ref=task.id, last=_HISTORY)):
        desk.comment(task.id, text, detail={"request": call.key.mark})
    return {"task": task_json(task)}


_PLACES = one_of(status for status in Status if status in {Status.READY, Status.BACKLOG})


# Claims and moves

# Claims have a route of their own; only the desk escalates.
VERBS = tuple(verb for verb in Verb if verb not in {Verb.CLAIM, Verb.EXHAUST, Verb.ESCALATE})

_CLAIM: Fields = (
    Field("agent", TEXT, "who it is for; a token that names one speaks for itself"),
    Field("count", WHOLE, "take up to so many; 1 unless said"),
    Field("lease", SPAN, "how long, such as 20m, or a number of seconds"),
    Field("can", list_of(TEXT), "capabilities that the agent has"),
    Field("run", TEXT, "which run of the agent this is"),
    *NARROW,
)


def claim(call: Call) -> Json:
    said = dict(call.body)
    holder, force = said.pop("holder", Holder.AGENT), said.pop("force", False)
    if holder is Holder.HUMAN:
        call.require(Right.ADMIN if force else Right.PLAN, "Holding a task as a person")
    agent, refs = _agent(call, said), said.pop("ids", ())
    if call.key is not None:
        claimed = claim_once(call.desk, call.key, agent, refs=refs, holder=holder, force=force, **_claiming(call, said))
    else:
        claimed = call.desk.claim(agent, refs=refs, holder=holder, force=force, **_claiming(call, said))
    return {"claimed": [claimed_json(one) for one in claimed]}


def _agent(call: Call, said: Mapping[str, Any]) -> str:
    """The agent to claim for. Raise Forbidden if the token belongs to another one."""
    named: str | None = said.get("agent")
    own = call.caller.agent
    if own is not None and named not in {None, own}:
        raise Forbidden("This token is another agent's: it can act for the agent it was made for, and for no other.")
    if named is not None:  # an empty one too: that is a mistake, and is told as such
        return named
    return own or call.desk.by.agent or "someone"


def _claiming(call: Call, said: Mapping[str, Any]) -> dict[str, Any]:
    terms = {name: said[name] for name in ("count", "lease", "can", "assigned") if name in said}
    return {**terms, "run": said.get("run", call.caller.run), "only": filter_of(said)}


def move(verb: Verb, call: Call) -> Json:
    """Move a task: as its holder with the token, as a planner without it, or as an admin with force."""
    said = dict(call.body)
    _require_right(call, said)
    rule = said.pop("dependents", None)
    going_on = said.pop("next", None)
    delay = said.pop("delay", None)
    if delay is not None:
        said["not_before"] = call.desk.now() + delay
    if verb is Verb.RENEW:
        said.setdefault("lease", call.desk.policy.lease)
    moved = call.desk.move(verb, call.path["id"], then=_then(call, going_on), on_cancel=rule, **said)
    return {
        "task": task_json(moved.task),
        "claimed": [claimed_json(one) for one in moved.next],
        "unblocked": list(moved.unblocked),
        "escalated": list(moved.escalated),
        "canceled": list(moved.canceled),
        "repeated": moved.repeated,
    }


def _require_right(call: Call, said: Mapping[str, Any]) -> None:
    if said.get("force"):
        call.require(Right.ADMIN, "Overruling a holder")
    elif "token" not in said:
        call.require(Right.PLAN, "Steering a task without holding it")


def _then(call: Call, said: Mapping[str, Any] | None) -> ClaimRequest | None:
    if said is None:
        return None
    request = call.desk.next_request(_agent(call, said), **_claiming(call, said))
    return request if call.key is None else derive_tokens(call.key, request)


_DEPENDENTS = {rule.value.removesuffix("s"): rule for rule in CanceledBlocker}


def _dependents() -> Any:
    kind = one_of(_DEPENDENTS)
    return kind._replace(read=lambda value: _DEPENDENTS[kind.read(value)])


_MOVE: Fields = (
    Field("token", TEXT, "the proof that its claim gave; what is held is moved by its holder"),
    Field("force", FLAG, "as a person in charge, act without the proof; on record"),
    Field("reason", TEXT, "why"),
    Field("result", JSON, "what came out of it, for the tasks that waited"),
    Field("artifacts", list_of(TEXT), "files or links"),
    Field("lease", SPAN, "renew: for how long from now, such as 20m"),
    Field("delay", SPAN, "fail, release: do not hand it out again before that"),
    Field("unblock_action", TEXT, "block: what someone has to do about it"),
    Field("next_check_at", TIME, "block: when to look again"),
    Field("dependents", _dependents(), "cancel: what becomes of the tasks that wait for it"),
    Field("extra", EXTRA, "extra fields of the task to set along with it"),
    Field("next", object_of(_CLAIM), "claim what comes next in the same step"),
)

_MOVED = answer(task=TASK, claimed=many(CLAIMED), unblocked=many({"type": "string"}), repeated={"type": "boolean"})


def _route(verb: Verb) -> Route:
    def act(call: Call) -> Json:
        return move(verb, call)

    return Route(
        "POST", f"/tasks/{{id}}/{verb}", act, f"{verb.capitalize()}: see the lifecycle", Right.CLAIM, (), _MOVE, _MOVED
    )


ROUTES = (
    Route(
        "GET",
        "/tasks",
        list_tasks,
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
        suffices=Right.CLAIM,
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
        suffices=Right.CLAIM,
    ),
    Route(
        "POST",
        "/claims",
        claim,
        "Lease the next tasks, or the named ones, to an agent. Nothing ready gives an empty list",
        Right.CLAIM,
        body=(
            *_CLAIM,
            Field("ids", list_of(TEXT), "these tasks and no others"),
            Field("assigned", FLAG, "only what is assigned to the agent"),
            Field("holder", one_of(Holder), "human: no time limit, never handed on"),
            Field("force", FLAG, "with human: take over whoever holds it; on record"),
        ),
        answer=answer(claimed=many(CLAIMED)),
    ),
    *map(_route, VERBS),
)
