"""Tasks: list, add and edit them, claim them, and move them through their lifecycle."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dibs.agent import overview_of, undo_last_change
from dibs.core.errors import AlreadyExists, InvalidInput, NotFound
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.output import page_json
from dibs.core.policy import CanceledBlocker
from dibs.core.task import TERMINAL, Holder, LinkKind, Status
from dibs.core.wire import claimed_json, event_json, link_json, task_json
from dibs.fleet.worktrees import Repository
from dibs.serve.access import Right, check_follow_ups
from dibs.serve.api.schemas import (
    CLAIMED,
    DRAFT,
    EDIT,
    EVENT,
    LINKED,
    LINKS,
    NARROW,
    PIECE,
    TASK,
    answer,
    draft_of,
    edit_of,
    filter_of,
    links_of,
    many,
)
from dibs.serve.desks import page_of
from dibs.serve.idempotency import LONG_ID, SHORT_ID, claim_once, derive_tokens
from dibs.serve.live import KEEP_ALIVE, Stream, named_sse
from dibs.serve.problems import Forbidden
from dibs.serve.requests import EXTRA, FLAG, JSON, SPAN, TEXT, TIME, WHOLE, Field, Route, list_of, object_of, one_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.responses import Response

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.output import OutputPage
    from dibs.core.task import Draft, Json, Link, Task
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.idempotency import IdempotencyKey
    from dibs.serve.requests import ApiRequest, Call, Fields

_PAGE = 100
_MOST = 2000  # tasks in one answer
_MOST_IDS = 200
_HISTORY = 200  # events that come along with a task
_LOOK = 0.5  # seconds between two looks for output
_LAST_WORDS = 1.5  # seconds of reading on after an attempt has ended
_DIGITS = 18
_DIFF = 1_000_000  # characters of a diff
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
        raise InvalidInput("tasks: give at least one.")
    links = links_of(call.body.get("links", ()))
    if not call.caller.may(Right.PLAN):
        check_follow_ups(drafts, links)
    minted = call.key is not None and call.desk.capabilities.ids == "any" and not all(one.id for one in drafts)
    added = add_once(call.desk, drafts, links, call.key) if minted and call.key else call.desk.add(drafts, links)
    return {"tasks": [task_json(task) for task in added]}


def add_once(desk: Desk, drafts: list[Draft], links: list[Link], key: IdempotencyKey) -> list[Task]:
    """Add tasks with ids derived from the idempotency key: short ones, or long ones where a short one is taken."""
    try:
        return _add_derived(desk, drafts, links, key, SHORT_ID)
    except AlreadyExists:
        return _add_derived(desk, drafts, links, key, LONG_ID)


def _add_derived(desk: Desk, drafts: list[Draft], links: list[Link], key: IdempotencyKey, length: int) -> list[Task]:
    """Add the tasks. If this request has added them before, return them. Raise AlreadyExists if another one has."""
    named = [one if one.id else one._replace(id=key.identifier(place, length)) for place, one in enumerate(drafts)]
    made = [new.id for new, draft in zip(named, drafts, strict=True) if not draft.id]
    bound = [link._replace(task=link.task or made[0], on=link.on or made[0]) for link in links]
    try:
        return desk.add(named, bound)
    except AlreadyExists:
        known = [task for draft in named if (task := _added_as(desk, draft)) is not None]
        if len(known) < len(named):
            raise
    return known


def _added_as(desk: Desk, draft: Draft) -> Task | None:
    """The task that was added with this id and title, even if its title changed since."""
    try:
        task = desk.exact.get(draft.id)
    except NotFound:
        return None
    if task.title == draft.title or not desk.capabilities.history:
        return task if task.title == draft.title else None
    renamed = next(
        (event for event in desk.events(ref=task.id) if event.verb == "edit" and "title" in event.detail), None
    )
    before = renamed.detail["title"] if renamed else None
    return task if isinstance(before, list) and before[0] == draft.title else None


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
        raise InvalidInput("There is nothing to change: name at least one field.")
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


# Output of attempts


def output(call: Call) -> Json:
    return page_json(call.desk.output(call.path["id"], **call.query))


def append_output(call: Call) -> Json:
    said = call.body
    return {"end": call.desk.append_output(call.path["id"], said["token"], said["start"], said["text"])}


def diff(call: Call) -> Json:
    """Only of the task's own branch, even if its record names another: editors of a task may not read all code."""
    task = call.desk.get(call.path["id"])
    try:
        repository = Repository(os.getcwd())
    except InvalidInput:
        raise NotFound("This server was not started in a git repository, so it has no diffs.") from None
    branch = repository.named(task.scope, task.id).branch
    text = repository.diff_of(branch, None)
    return {"branch": branch, "diff": text[:_DIFF], "truncated": len(text) > _DIFF}


async def follow_output(api: Api, request: ApiRequest) -> Response:
    """A stream of server-sent events. The first look is made at once, so that a wrong id is an error, not a stream."""
    place = _place(request)
    first = await api.at_desk(request, lambda call: call.desk.output(call.path["id"], attempt=place[0], after=place[1]))
    return Stream(_pieces(api, request, first), api.metrics)


def _place(request: ApiRequest) -> tuple[int | None, int]:
    """The attempt and the byte to go on from: those of Last-Event-ID, else those of the query."""
    attempt, separator, after = request.headers.get("last-event-id", "").partition(":")
    if separator and all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in (attempt, after)):
        return int(attempt), int(after)
    return request.query.get("attempt"), request.query.get("after", 0)


async def _pieces(api: Api, request: ApiRequest, page: OutputPage) -> AsyncIterator[str]:
    """The pieces as they come, until the attempt has ended and nothing more arrives."""
    silent = 0.0
    while True:
        for piece in page.pieces:
            yield named_sse("output", {"attempt": page.attempt, **piece._asdict()}, f"{page.attempt}:{piece.end}")
        silent = 0.0 if page.pieces else silent + _LOOK
        if page.over and silent >= _LAST_WORDS:
            yield named_sse("end", {"attempt": page.attempt, "end": page.end}, f"{page.attempt}:{page.end}")
            return
        if silent and silent % KEEP_ALIVE < _LOOK:
            yield ": still here\n\n"
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                await api.hub.closing.wait()
                return
        attempt, after = page.attempt, page.end
        page = await api.at_desk(
            request,
            lambda call: call.desk.output(call.path["id"], attempt=attempt, after=after),  # noqa: B023 - awaited
        )


def search(call: Call) -> Json:
    said = call.query
    hits = call.desk.search(said.get("text", ""), limit=said.get("limit", _FOUND), finished=said.get("finished", True))
    told: list[Json] = [
        {**task_json(hit.task), "score": hit.score, "where": list(hit.where), "excerpt": hit.excerpt} for hit in hits
    ]
    return {"tasks": told}


_FOUND = 20


def overview(call: Call) -> Json:
    """An overview for one agent."""
    seen = overview_of(call.desk, _agent(call, call.query), limit=call.query.get("limit", _FOUND))
    parts = {"held": seen.held, "ready": seen.ready, "blocked": seen.blocked, "people": seen.people}
    return {"agent": seen.agent, **{name: [task_json(task) for task in tasks] for name, tasks in parts.items()}}


def undo(call: Call) -> Json:
    undone = undo_last_change(call.desk, _agent(call, call.body), token=call.body.get("token"))
    return {"undone": event_json(undone.event), "task": task_json(undone.task), "note": undone.note}


_PLACES = one_of(status for status in Status if status in {Status.READY, Status.BACKLOG})


# Claims and moves

# Claims have a route of their own; only the desk escalates.
VERBS = tuple(verb for verb in Verb if verb not in {Verb.CLAIM, Verb.EXHAUST, Verb.ESCALATE})

_CLAIM: Fields = (
    Field("agent", TEXT, "the agent; by default that of the token"),
    Field("count", WHOLE, "claim up to this many; 1 by default"),
    Field("lease", SPAN, "its length, such as 20m or a number of seconds"),
    Field("can", list_of(TEXT), "capabilities that the agent has"),
    Field("run", TEXT, "the run of the agent"),
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
    """The agent to claim for. Raise Forbidden if the token belongs to another one, InvalidInput if none is named."""
    named: str | None = said.get("agent")
    own = call.caller.agent
    if own is not None and named not in {None, own}:
        raise Forbidden("This token was made for another agent and cannot act as this one.")
    if named is not None:  # an empty name is refused below
        return named
    if own is None and not call.desk.by.agent:
        raise InvalidInput(
            "agent: name the agent in 'agent' or in the header X-Dibs-Actor, or use a token that names one."
        )
    return own or call.desk.by.agent or ""


def _claiming(call: Call, said: Mapping[str, Any]) -> dict[str, Any]:
    terms = {name: said[name] for name in ("count", "lease", "can", "assigned") if name in said}
    return {**terms, "run": call.caller.run_of(said.get("run")), "only": filter_of(said)}


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
        call.require(Right.PLAN, "Changing a task without the token of its lease")


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
    Field("token", TEXT, "the token that the claim returned; needed while the task is held"),
    Field("force", FLAG, "act without the token, as an administrator; recorded"),
    Field("reason", TEXT, "why"),
    Field("result", JSON, "the result, passed to the tasks that waited"),
    Field("artifacts", list_of(TEXT), "files or links"),
    Field("lease", SPAN, "renew: the new length from now, such as 20m"),
    Field("delay", SPAN, "fail, release: the time until it can be claimed again"),
    Field("unblock_action", TEXT, "block: what a person has to do to unblock it"),
    Field("next_check_at", TIME, "block: when to look again"),
    Field("dependents", _dependents(), "cancel: the effect on the tasks that wait for it"),
    Field("extra", EXTRA, "extra fields to set in the same step"),
    Field("next", object_of(_CLAIM), "also claim the next task in the same step"),
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
        "Tasks in the order of claims, page by page",
        query=(
            Field("status", list_of(one_of(Status)), "only these; all by default"),
            Field("agent", TEXT, "only tasks that this agent holds"),
            Field("assigned_to", TEXT, "only tasks assigned to this agent"),
            *NARROW,
            Field("parent", TEXT, "only the parts of this task"),
            Field("text", TEXT, "words in title or description"),
            Field("all", FLAG, "0: only unfinished tasks"),
            Field("ready", FLAG, "only tasks that can be claimed now, by `agent` if one is named"),
            Field("can", list_of(TEXT), "with ready: capabilities of the agent"),
            Field("ids", list_of(TEXT, _MOST_IDS), "exactly these tasks; missing ones are left out"),
            Field("dependents", FLAG, "with ids: also the tasks that wait for these"),
            Field("limit", WHOLE, f"the page size; {_PAGE} by default, at most {_MOST}"),
            Field("cursor", TEXT, "`next` of the previous page"),
        ),
        answer=answer(tasks=many(TASK)),
    ),
    Route(
        "POST",
        "/tasks",
        add,
        "Add tasks with links, all or none. A link with an empty end means the first task without an id",
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
        "Change fields of a task; null empties a field",
        Right.PLAN,
        body=(*EDIT, Field("status", _PLACES, "ready, or back to the backlog")),
        answer=answer(task=TASK),
    ),
    Route(
        "POST",
        "/tasks/{id}/comments",
        comment,
        "Comment on a task, for people and for the next agent",
        Right.PLAN,
        body=(Field("text", TEXT, required=True),),
        answer=answer(task=TASK),
        status=201,
        suffices=Right.CLAIM,
    ),
    Route(
        "GET",
        "/tasks/{id}/output",
        output,
        "The stored output of an attempt; with `Accept: text/event-stream`, live",
        query=(
            Field("attempt", WHOLE, "the attempt; by default the latest"),
            Field("after", WHOLE, "start at this byte: `end` of the previous page"),
        ),
        answer=answer(
            attempt={"type": "integer"},
            pieces=many(PIECE),
            end={"type": "integer", "description": "where the next page starts"},
            over={"type": "boolean", "description": "the attempt has ended"},
            attempts=many({"type": "integer"}),
        ),
        live=follow_output,
    ),
    Route(
        "GET",
        "/tasks/{id}/diff",
        diff,
        "The diff of the task's branch, read from the repository that the server was started in",
        answer=answer(branch={"type": "string"}, diff={"type": "string"}, truncated={"type": "boolean"}),
    ),
    Route(
        "POST",
        "/tasks/{id}/output",
        append_output,
        "Append output of an attempt. Repeated bytes are ignored; a gap counts as dropped",
        Right.CLAIM,
        body=(
            Field("token", TEXT, "the token that the claim returned", required=True),
            Field("start", WHOLE, "the position of the text in the whole output, in bytes", required=True),
            Field("text", TEXT, required=True),
        ),
        answer=answer(end={"type": "integer"}),
    ),
    Route(
        "GET",
        "/search",
        search,
        "Tasks that match all words in id, title, labels, description or comments, best match first",
        query=(
            Field("text", TEXT, "words, or beginnings of words", required=True),
            Field("limit", WHOLE, f"the number of results; {_FOUND} by default"),
            Field("finished", FLAG, "0: only unfinished tasks"),
        ),
        answer=answer(tasks=many(TASK)),
    ),
    Route(
        "GET",
        "/overview",
        overview,
        "The tasks that an agent holds and can claim, blocked tasks, and tasks that need a person",
        query=(
            Field("agent", TEXT, "the agent; by default the caller"),
            Field("limit", WHOLE, f"the number of ready tasks; {_FOUND} by default"),
        ),
        answer=answer(held=many(TASK), ready=many(TASK), blocked=many(TASK), people=many(TASK)),
    ),
    Route(
        "POST",
        "/undo",
        undo,
        "Undo the last change of an agent, unless a later change depends on it",
        Right.PLAN,
        body=(Field("agent", TEXT, "the agent; by default the caller"), Field("token", TEXT, "to undo a claim")),
        answer=answer(task=TASK, undone=EVENT),
    ),
    Route(
        "POST",
        "/claims",
        claim,
        "Claim the next tasks, or the named ones, for an agent. The list is empty if none is ready",
        Right.CLAIM,
        body=(
            *_CLAIM,
            Field("ids", list_of(TEXT), "only these tasks"),
            Field("assigned", FLAG, "only tasks assigned to the agent"),
            Field("holder", one_of(Holder), "human: a lease without end"),
            Field("force", FLAG, "with human: take the task from its holder; recorded"),
        ),
        answer=answer(claimed=many(CLAIMED)),
    ),
    *map(_route, VERBS),
)
