"""A scope as a whole: links and plans, counts, settings, agents, trends, views, and events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.graph import critical_path, layers
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.scores import scores
from dibs.core.task import TERMINAL, Status
from dibs.core.times import parse_duration, time_from, time_text
from dibs.core.wire import changes_json, event_json, lease_json, link_json, scores_json
from dibs.fleet.attempt import history
from dibs.fleet.trends import attempt_json, attempts_of, stuck_json, stuck_tasks, trends, trends_json
from dibs.serve.access import Right
from dibs.serve.api.schemas import EVENT, LINKED, LINKS, answer, links_of, many
from dibs.serve.live import Stream, cursor_from, follow
from dibs.serve.requests import FLAG, JSON, SPAN, TEXT, WHOLE, Field, Route, list_of, map_of, one_of, or_null
from dibs.stores.opening import project_name
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from starlette.responses import Response

    from dibs.core.fleet import Member
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.live import Cursor
    from dibs.serve.requests import ApiRequest, Call


# Links and plans


def link(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.link(links_of(call.body["links"]))]}


def unlink(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.unlink(links_of(call.body["links"]))]}


def graph(call: Call) -> Json:
    """The graph for a drawing. The critical path is that of the unfinished tasks."""
    drawn = call.desk.graph(finished=call.query.get("finished", False))
    before = drawn.prerequisites()
    ended = {task.id for task in drawn.tasks if task.status in TERMINAL}
    left = {task: needs - ended for task, needs in before.items() if task not in ended}
    return {
        "tasks": [compact(task) for task in drawn.tasks],
        "links": [link_json(one) for one in drawn.links],
        "layers": layers(before),
        "critical_path": critical_path(left),
    }


def compact(task: Task) -> dict[str, Json]:
    """The fields of a task that a drawing needs."""
    told: dict[str, Json] = {
        "id": task.id, "title": task.title, "status": task.status.value, "priority": task.priority,
        "blockers": task.blockers,
    }  # fmt: skip
    for name in ("parent", "category", "deliverable", "assigned_to"):
        if (value := getattr(task, name)) is not None:
            told[name] = value
    if task.lease is not None:
        told["lease"] = lease_json(task.lease)
    return told


_LINKS_BODY = (Field("links", LINKS, required=True),)
_LINKS_ANSWER = answer(links=many(LINKED))


def show(call: Call) -> Json:
    from dibs.chat.conversation.plan import HISTORY, plan_of, plan_text
    from dibs.chat.wire import plan_json
    from dibs.draw.formats import mermaid

    desk, how = call.desk, call.query.get("format", "json")
    graph = desk.graph(finished=False)
    if how == "mermaid":
        return {"mermaid": mermaid(graph)}
    plan = plan_of(graph, desk.find(Query(desk.scope, (Status.DONE,), limit=HISTORY)))
    return {"text": plan_text(plan, desk.now())} if how == "text" else plan_json(plan)


def apply(call: Call) -> Json:
    text: str = call.body["text"]
    how = call.body.get("format") or ("jsonl" if text.lstrip()[:1] == "{" else "yaml")
    plan = skim_jsonl(text) if how == "jsonl" else parse_yaml(text)
    plan = plan._replace(specs=plan.specs | frozenset(call.body.get("specs", ())))
    dry_run = call.query.get("dry_run", False)
    return changes_json(call.desk.apply_plan(plan, dry_run=dry_run), dry_run=dry_run)


def tally(call: Call) -> Json:
    desk = call.desk
    if not desk.capabilities.history:
        raise Unsupported("This store records no events to count scores from.")
    since = _since(desk, call.query["since"]) if "since" in call.query else None
    return scores_json(scores(history(desk), since))


def _since(desk: Desk, said: str) -> datetime:
    """A time, or a duration before now."""
    try:
        return desk.now() - parse_duration(said)
    except InvalidInput:
        return time_from(said)


_OBJECT: dict[str, Json] = {"type": "object"}


# Counts, scopes, settings and agents


def counts(call: Call) -> Json:
    """The counts, with the store's time for countdowns and the number of the last event."""
    desk = call.desk
    found = desk.counts()
    newest = desk.events(last=1, anywhere=True) if desk.capabilities.history else []
    return {
        "scope": desk.scope,
        "by_status": {str(status): number for status, number in found.by_status.items()},
        "waiting": found.waiting,
        "claimable": found.claimable,
        "expired": found.expired,
        "later": found.later,
        "next_due": None if found.next_due is None else time_text(found.next_due),
        "now": time_text(desk.now()),
        "last_event": newest[-1].seq if newest else 0,
    }


def scopes(call: Call) -> Json:
    allowed = call.caller.scopes
    shown = [scope for scope in call.desk.scopes() if allowed is None or scope in allowed]
    return {
        "scopes": sorted({call.desk.scope, *shown}),
        "default": call.desk.scope,
        "project": project_name(call.desk.describe()),
    }


def settings(call: Call) -> Json:
    return {"settings": dict(call.desk.settings())}


def configure(call: Call) -> Json:
    return {"settings": dict(call.desk.configure(call.body["settings"]))}


def agents(call: Call) -> Json:
    """The agents that hold tasks here, are running, or are enrolled."""
    desk = call.desk
    known: dict[str, dict[str, Json]] = {}
    for task in desk.find(Query(desk.scope, (Status.ACTIVE,))):
        if task.lease is not None:
            _held(known.setdefault(task.lease.agent, {}), task)
    if desk.has_fleet:
        _add_members(desk.members(), desk.now(), known)
        for agent in desk.agents():
            row = known.setdefault(agent.id, {})
            row |= {"status": agent.status.value, "host": agent.host, "started_at": time_text(agent.started_at)}
    rows = [{"agent": name, "holds": [], **row} for name, row in sorted(known.items())]
    return {"agents": rows, "now": time_text(desk.now())}


def _held(row: dict[str, Json], task: Task) -> None:
    held = {"id": task.id, "title": task.title, "lease": lease_json(task.lease) if task.lease else None}
    row["holds"] = [*row.get("holds", []), held]  # type: ignore[misc]  # a list, made here


def _add_members(members: Iterable[Member], now: datetime, known: dict[str, dict[str, Json]]) -> None:
    for member in members:
        known.setdefault(member.agent, {}).update(
            role=member.role, can=list(member.can), limit=member.limit, load=member.load, waiting=member.waiting,
            seen_at=time_text(member.seen_at), present=member.present(now),
        )  # fmt: skip


# Trends

_DAY = timedelta(days=1)
_LONGEST = timedelta(days=31)
_MOST_ATTEMPTS = 1000
_SINCE = Field("since", SPAN, "how long ago it starts, such as 1h or 7d; 1d by default, at most 31d")


def _span(call: Call) -> timedelta:
    span: timedelta = call.query.get("since", _DAY)
    if not timedelta() < span <= _LONGEST:
        raise InvalidInput("since: a time of up to 31 days, such as 1h or 7d.")
    return span


def show_trends(call: Call) -> Json:
    found = trends(call.desk, _span(call))
    return {**trends_json(found), "stuck": stuck_json(stuck_tasks(call.desk, found.run))}


def show_attempts(call: Call) -> Json:
    tried, since = attempts_of(call.desk, _span(call))
    shown = [attempt_json(one) for one in tried[-_MOST_ATTEMPTS:]]
    return {"attempts": shown, "since": time_text(since), "now": time_text(call.desk.now())}


# Named views of the board

_VIEW = "board.view."
_LONGEST_NAME, _LONGEST_ADDRESS, _MOST_VIEWS = 60, 2000, 200


def views(call: Call) -> Json:
    """The named views of the scope; none where the store keeps no settings."""
    kept = call.desk.settings() if call.desk.has_settings else {}
    found = [(name.removeprefix(_VIEW), value) for name, value in kept.items() if name.startswith(_VIEW)]
    return {"views": [{"name": name, "address": address} for name, address in sorted(found, key=lambda one: one[0])]}


def keep_view(call: Call) -> Json:
    name, address = _view_name(call), call.body["address"]
    if not address.startswith("#/") or len(address) > _LONGEST_ADDRESS:
        raise InvalidInput(
            f"address: the part of the board's address from '#/' on, up to {_LONGEST_ADDRESS} characters."
        )
    kept = sum(one.startswith(_VIEW) for one in call.desk.settings())
    if kept >= _MOST_VIEWS:
        raise InvalidInput(f"There are {kept} views. Delete one first.")
    call.desk.configure({_VIEW + name: address})
    return {"name": name, "address": address}


def delete_view(call: Call) -> Json:
    call.desk.configure({_VIEW + _view_name(call): None})
    return {}


def _view_name(call: Call) -> str:
    name = call.path["name"].strip()
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidInput(f"The name of a view has 1 to {_LONGEST_NAME} characters.")
    return name


_PAGE, _MOST = 100, 1000


async def live(api: Api, request: ApiRequest) -> Response:
    """A stream of server-sent events, from Last-Event-ID or `after` on."""
    start = request.headers.get("last-event-id") or request.query.get("after")
    ref = None
    if "ref" in request.query:
        ref = await api.at_desk(request, lambda call: _known(call.desk, call.query["ref"]))
    await api.hub.refresh()
    parts = follow(api.hub, api.desks, request.scope, None if start is None else cursor_from(start), ref)
    return Stream(parts, api.metrics)


async def page(api: Api, request: ApiRequest) -> Json:
    """A page of the events that the hub has seen too, so that the cursor knows which numbers are missing."""
    place = await api.hub.refresh()
    return await api.at_desk(request, lambda call: _page(call, place))


def _page(call: Call, place: Cursor) -> Json:
    said = call.query
    limit = said.get("limit", _PAGE)
    if not 1 <= limit <= _MOST:
        raise InvalidInput(f"limit: ask for 1 to {_MOST} events at a time.")
    ref = _known(call.desk, said["ref"]) if "ref" in said else None
    desk = call.desk.exact
    if "last" in said:
        found = desk.events(ref=ref, last=min(said["last"], _MOST))
        return {"events": [event_json(event) for event in found], "next": str(place)}
    start = cursor_from(said.get("after", "0"))
    late = [
        event
        for low, top in start.missing
        for event in desk.events(ref=ref, after=low - 1, limit=top - low + 1)
        if event.seq <= top
    ]
    found = desk.events(ref=ref, after=start.high, limit=limit)
    seen = [event for event in (*late, *found) if place.covers(event.seq)]
    after = place if len(found) < limit else place.up_to(max(found[-1].seq, start.high))
    return {"events": [event_json(event) for event in seen], "next": str(after)}


def _known(desk: Desk, ref: str) -> str:
    """The id of a task, or of a pruned one whose events are kept."""
    if not desk.capabilities.history:
        raise Unsupported("This store records no events.")
    return desk.remembered(ref)


ROUTES = (
    Route(
        "POST",
        "/links",
        link,
        "Add links, all or none; the answer has those that changed anything",
        Right.PLAN,
        (),
        _LINKS_BODY,
        _LINKS_ANSWER,
    ),
    Route("DELETE", "/links", unlink, "Remove links, all or none", Right.PLAN, (), _LINKS_BODY, _LINKS_ANSWER),
    Route(
        "GET",
        "/graph",
        graph,
        "The graph of tasks for a drawing: layers, and the critical path of the unfinished tasks",
        query=(Field("finished", FLAG, "also done and canceled tasks"),),
        answer=answer(tasks=many({"type": "object"}), links=many(LINKED)),
    ),
    Route(
        "GET",
        "/plan",
        show,
        "The plan: phases, holders, waiting tasks, and an estimate",
        query=(Field("format", one_of(("json", "text", "mermaid")), "json by default"),),
        answer=_OBJECT,
    ),
    Route(
        "POST",
        "/plan",
        apply,
        "Apply a plan to the tasks, as `dibs plan` does",
        Right.PLAN,
        query=(Field("dry_run", FLAG, "report the changes without making them"),),
        body=(
            Field("text", TEXT, "the plan, JSON lines or YAML", required=True),
            Field("format", one_of(("jsonl", "yaml")), "its format; by default its first character decides"),
            Field("specs", list_of(TEXT), "specs that the plan covers, even if it has no task of them"),
        ),
        answer=answer(inserted=many({"type": "string"}), updated=many({"type": "string"})),
    ),
    Route(
        "GET",
        "/scores",
        tally,
        "The number of tasks that each agent finished, failed and lost",
        query=(Field("since", TEXT, "the start: a time, or a span such as 7d"),),
        answer=answer(agents=many(_OBJECT)),
    ),
    Route(
        "GET",
        "/counts",
        counts,
        "The number of tasks of each status, and the time",
        answer=answer(by_status=_OBJECT),
    ),
    Route(
        "GET",
        "/scopes",
        scopes,
        "The scopes of the store",
        answer=answer(scopes=many({"type": "string"}), default={"type": "string"}, project={"type": "string"}),
    ),
    Route(
        "GET", "/agents", agents, "The agents at work, with the tasks they hold", answer=answer(agents=many(_OBJECT))
    ),
    Route("GET", "/settings", settings, "The settings of the scope", Right.ADMIN, answer=answer(settings=_OBJECT)),
    Route(
        "PATCH",
        "/settings",
        configure,
        "Change settings, all or none; null removes one",
        Right.ADMIN,
        body=(Field("settings", map_of(or_null(JSON)), required=True),),
        answer=answer(settings=_OBJECT),
    ),
    Route(
        "GET",
        "/trends",
        show_trends,
        "Throughput, times and failures by agent and label, and the tasks that are stuck",
        query=(_SINCE,),
        answer=answer(finished={"type": "integer"}, agents=many(_OBJECT), labels=many(_OBJECT), stuck=many(_OBJECT)),
    ),
    Route(
        "GET",
        "/attempts",
        show_attempts,
        "The latest attempts: agent, task, and how each ended",
        query=(_SINCE,),
        answer=answer(attempts=many(_OBJECT)),
    ),
    Route("GET", "/views", views, "The named views of the board", answer=answer(views=many(_OBJECT))),
    Route(
        "PUT",
        "/views/{name}",
        keep_view,
        "Save a view of the board under a name, replacing one of that name",
        Right.PLAN,
        body=(Field("address", TEXT, "the board's address from '#/' on", required=True),),
        answer=answer(name={"type": "string"}, address={"type": "string"}),
    ),
    Route("DELETE", "/views/{name}", delete_view, "Delete a named view", Right.PLAN),
    Route(
        "GET",
        "/events",
        None,
        "The events, oldest first; with `Accept: text/event-stream`, as they happen",
        query=(
            Field("after", TEXT, "`next` of the previous page, or the id of the last event"),
            Field("ref", TEXT, "only events of this task"),
            Field("limit", WHOLE, f"the page size; {_PAGE} by default, at most {_MOST}"),
            Field("last", WHOLE, "instead of a page: this many of the newest"),
        ),
        answer=answer(events=many(EVENT), next={"type": "string"}),
        serve=page,
        live=live,
    ),
)
